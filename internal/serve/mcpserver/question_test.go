package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// asking returns a door with a tool that asks two questions, one after the other.
func asking() *door {
	d := newDoor()
	d.handle("up.echo", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		o := c.Observe()
		if o.ListCapabilities() == nil {
			return tool.Text(false, "no one to ask"), nil
		}
		text := string(o.ListCapabilities())
		for _, m := range []string{"Name?", "Color?"} {
			answers, err := o.OnQuestions(ctx, map[string]tool.Question{m: {Method: "elicitation/create",
				Params: json.RawMessage(`{"message":"` + m +
					`","requestedSchema":{"type":"object","properties":{"x":{"type":"string"}}}}`)}})
			if err != nil {
				return nil, err
			}
			text += " " + string(answers[m])
		}
		return tool.Text(false, text), nil
	})
	return d
}

const ableToAsk = `"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

// TestQuestions checks that a client of 2026-07-28 is asked by the answers to its requests, and
// that the tool is called once.
func TestQuestions(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			d := asking()
			s := mcpserver.New(config(d, mcpserver.Code))
			t.Cleanup(func() { s.Close() })
			var p peer = startHTTP(t, s, "2026-07-28")
			if transport == "stdio" {
				p = startStdio(t, s, "2026-07-28")
			}
			call := func(more string) string {
				t.Helper()
				res, _ := p.call(t, "tools/call", `{"name":"up_echo",`+ableToAsk+`,`+more+`}`)
				return res
			}
			ask := func(res, question string) (state string) {
				t.Helper()
				got := string(fieldOf(t, res, "result", "inputRequests", question, "params", "message"))
				if want := `"up: ` + question + `"`; got != want {
					t.Fatalf("res = %s, asked %s, want %s", res, got, want)
				}
				return string(fieldOf(t, res, "result", "requestState"))
			}
			first := ask(call(`"arguments":{"a":1}`), "Name?")
			refused := func(why, more string) {
				t.Helper()
				if res := call(more); string(fieldOf(t, res, "error", "code")) != "-32602" {
					t.Errorf("%s: res = %s, want error -32602", why, res)
				}
			}
			refused("another state", `"arguments":{"a":1},"requestState":"ask_x"`)
			refused("other arguments", `"arguments":{"a":2},"requestState":`+first)
			second := ask(call(`"arguments":{"a":1},"inputResponses":{"Name?":{"action":"accept","content":{"x":"Ann"}},`+
				`"more":{"action":"cancel"}},"requestState":`+first), "Color?")
			refused("a state used before", `"arguments":{"a":1},"requestState":`+first)
			res := call(`"arguments":{"a":1},"inputResponses":{"Color?":{"action":"decline"}},"requestState":` + second)
			text := string(fieldOf(t, res, "result", "content"))
			for _, want := range []string{`{\"elicitation\":{\"form\":{}}}`, "Ann", "decline"} {
				if !strings.Contains(text, want) {
					t.Errorf("text = %s, want %s", text, want)
				}
			}
			if len(d.calls) != 1 {
				t.Errorf("len(d.calls) = %d, want 1", len(d.calls))
			}
			res = call(`"arguments":{"a":1},"inputResponses":{"Name?":{"action":"cancel"}}`) // answered before it asks
			state := ask(res, "Color?")
			s.Cut("local:test")
			refused("a principal that was cut off", `"arguments":{"a":1},"requestState":`+state)
		})
	}
}

// TestNoQuestions checks that the server knows when no one can be asked.
func TestNoQuestions(t *testing.T) {
	peers(t, config(asking(), mcpserver.Code), func(t *testing.T, p peer, _ string) {
		res, _ := p.call(t, "tools/call", `{"name":"up_echo"}`)
		if !strings.Contains(res, "no one to ask") {
			t.Errorf("res = %s", res)
		}
	})
}

// TestQuestionsInStream checks that a client of 2025-11-25 is asked while its call waits.
func TestQuestionsInStream(t *testing.T) {
	var asked []string
	answer := func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = append(asked, r.Params.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"x": "blue"}}, nil
	}
	session := atClient(t, asking(), waitingRequest(""), answer)
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "up_echo"})
	if err != nil {
		t.Fatalf("CallTool: %v", err)
	}
	if text := res.Content[0].(*mcp.TextContent).Text; strings.Count(text, `"blue"`) != 2 {
		t.Errorf("text = %s, want two answers", text)
	}
	if got := strings.Join(asked, " "); got != "up: Name? up: Color?" {
		t.Errorf("asked %s", got)
	}
}
