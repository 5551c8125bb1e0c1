package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestRedactedBeforeAnybodySeesIt(t *testing.T) {
	answers := map[string]func() (*tool.Result, error){
		"get": func() (*tool.Result, error) {
			return tool.ParseResult(json.RawMessage(`{"content":[{"type":"text","text":"{\"ssn\":\"123-45\",` +
				`\"name\":\"ann\"}"}],"structuredContent":{"ssn":"123-45","name":"ann"}}`))
		},
		"fails": func() (*tool.Result, error) { return nil, tool.Errorf(tool.Invalid, "no such person 123-45") },
		"away": func() (*tool.Result, error) {
			return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "the upstream is away"))
		},
	}
	cat := catalog.New(catalog.Config{})
	var tools []*tool.Tool
	for name := range answers {
		tools = append(tools, &tool.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	cat.Set(catalog.Source{Name: "crm", Tools: tools, Health: tool.Health{State: tool.Ready},
		Caller: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Observe().WantsProgress() {
				c.Observe().OnProgress(t.Context(), tool.Progress{Message: "123-45"})
			}
			if c.Observe().WantsLogs() {
				c.Observe().OnLog(t.Context(), tool.Log{Raw: json.RawMessage(`"123-45"`)})
			}
			return answers[c.Tool.Name]()
		})})
	g, record := doorUnder(t, cat,
		`@redact("**.ssn") permit (principal, action, resource); permit (principal, action, resource);`)
	said := ""
	call := func(name string) (string, error) {
		r, err := g.Call(t.Context(), &tool.Call{
			Path: "crm." + name, Observer: watch{
				progress: func(p tool.Progress) { said += p.Message }, logs: func(l tool.Log) { said += string(l.Raw) },
			},
		})
		if err != nil {
			return err.Error(), err
		}
		return string(r.Raw), nil
	}
	for name, want := range map[string]string{"get": `"name":"ann"`, "fails": "the tool failed (invalid)",
		"away": "the upstream is away"} {
		text, err := call(name)
		if strings.Contains(text+said, "123-45") || !strings.Contains(text, want) || (err == nil) != (name == "get") {
			t.Errorf("%s: %s (said %q)", name, text, said)
		}
	}
	all, err := record.Records(t.Context(), audit.Query{Tool: "crm.get"})
	if err != nil || len(all) != 1 {
		t.Fatalf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
	}
	text, _ := call("get")
	if all[0].End.Result.Size != int64(len(text)) {
		t.Errorf("the record has a size of %d bytes, the caller received %d", all[0].End.Result.Size, len(text))
	}
}
