package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

const everyCapability = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`

// askModern calls a tool whose server asks questions, and returns the error.
func askModern(t *testing.T, r interface {
	Call(context.Context, *tool.Call) (*tool.Result, error)
}, o *answering, questions string) error {
	t.Helper()
	_, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "ask modern"}, Observer: o,
		Arguments: json.RawMessage(questions)})
	return err
}

// TestHostileQuestions checks that no client is asked what a person or a client should not see.
func TestHostileQuestions(t *testing.T) {
	r := raw(t, "modern")
	r.Ready(t)
	page := func(address string) string {
		return `{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"` + address + `"}}}`
	}
	form := func(params string) string { return `{"a":{"method":"elicitation/create","params":{` + params + `}}}` }
	many := map[string]tool.Question{}
	for i := range tool.MaxQuestions + 1 {
		many[fmt.Sprint(i)] = tool.Question{Method: "elicitation/create", Params: json.RawMessage(`{"message":"m"}`)}
	}
	flood, err := json.Marshal(many)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	deep := strings.Repeat(`{"items":`, 20) + `{}` + strings.Repeat(`}`, 20)
	for name, questions := range map[string]string{
		"script":             page("javascript:alert(1)"),
		"file":               page("file:///etc/passwd"),
		"data":               page("data:text/html,x"),
		"user":               page("https://bank.example@evil.example/"),
		"backslash":          page(`https://bank.example\\.evil.example/`),
		"other letters":      page("https://b\u0430nk.example/"),
		"other letters, too": page("https://b%D0%B0nk.example/"),
		"line":               page("https://bank.example/\n"),
		"long":               page("https://bank.example/" + strings.Repeat("a", 4096)),
		"no host":            page("https:///x"),
		"no host, a port":    page("https://:80/x"),
		"second name": form(`"mode":"url","message":"m","url":"javascript:alert(1)",` +
			`"URL":"https://bank.example/"`),
		"second value": form(`"mode":"url","message":"m","url":"https://bank.example/","url":"javascript:alert(1)"`),
		"escaped name": form(`"mode":"url","message":"m","url":"https://bank.example/",` +
			`"\u0075rl":"javascript:alert(1)"`),
		"second message":  form(`"message":"m","Message":"n"`),
		"url in capitals": form(`"message":"m","URL":"https://bank.example/"`),
		"unknown mode":    form(`"mode":"spell","message":"m"`),
		"url as a form":   form(`"mode":"form","message":"m","url":"file:///etc/passwd"`),
		"no url":          form(`"mode":"url","message":"m"`),
		"list":            `{"a":{"method":"elicitation/create","params":[]}}`,
		"deep":            form(`"message":"m","requestedSchema":` + deep),
		"large":           form(`"message":"` + strings.Repeat("m", tool.MaxQuestion) + `"`),
		"long key":        `{"` + strings.Repeat("k", 200) + `":{"method":"roots/list"}}`,
		"hidden key":      `{"a\u202eb":{"method":"roots/list"}}`,
		"unknown method":  `{"a":{"method":"tools/call","params":{}}}`,
		"large sampling": `{"a":{"method":"sampling/createMessage","params":{"x":"` +
			strings.Repeat("m", tool.MaxSampling) + `"}}}`,
		"flood": string(flood),
	} {
		o := &answering{capabilities: everyCapability}
		if err := askModern(t, r, o, questions); err == nil || o.rounds != 0 {
			t.Errorf("%s: err = %v, asked %s, want an error and no question", name, err, o.asked)
		}
	}
	for name, questions := range map[string]string{
		"hidden characters": page("https://bank.example/\\u202e"), // removed
		"page":              page("https://bank.example/in?x=%41#y"), "here": page("http://localhost:8080/done"),
		"form": form(`"message":"m","requestedSchema":{"type":"object","properties":{"x":{"type":"array","items":` +
			`{"anyOf":[{"const":"a","title":"A"}]}}}}`),
		"image": `{"a":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":` +
			`{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("AAAA", 50000) + `"}}],"maxTokens":1}}}`,
	} {
		o := &answering{capabilities: everyCapability}
		if err := askModern(t, r, o, questions); err != nil || o.rounds != 1 {
			t.Errorf("%s: err = %v, asked %d times, want one question", name, err, o.rounds)
		}
	}
}

// TestPrivatePages checks that a server on the network can't send a person to a private address.
func TestPrivatePages(t *testing.T) {
	for _, address := range []string{"http://localhost/", "http://LOCALHOST.:80/", "http://127.0.0.1/",
		"http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://[::1]:3000/",
		"http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://192.168.1.1/reboot",
		"http://[::ffff:10.0.0.1]/", "http://metadata.google.internal/", "http://printer.local/"} {
		if mcp.CheckURL(address, false) == nil {
			t.Errorf("%s: err == nil, want an error", address)
		}
		if err := mcp.CheckURL(address, true); err != nil {
			t.Errorf("%s: %v, want no error for a local server", address, err)
		}
	}
	for _, address := range []string{"https://bank.example/a", "https://1.1.1.1/", "https://local.example/",
		"https://[2606:4700::1111]/"} {
		if err := mcp.CheckURL(address, false); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestModes checks that a client is asked only in the ways that it declares.
func TestModes(t *testing.T) {
	r := raw(t, "modern")
	r.Ready(t)
	const (
		page = `{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://a.example/"}}}`
		form = `{"a":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}}`
		tool = `{"a":{"method":"sampling/createMessage","params":{"messages":[],"tools":[],` +
			`"includeContext":"allServers"}}}`
	)
	for _, c := range []struct {
		capabilities, questions string
		rounds                  int
	}{
		{`{"elicitation":{}}`, form, 1}, {`{"elicitation":{}}`, page, 0}, {`{"elicitation":{"form":{}}}`, page, 0},
		{`{"elicitation":{"url":{}}}`, form, 0}, {`{"elicitation":{"url":{}}}`, page, 1},
		{`{"sampling":{}}`, tool, 0}, {`{"sampling":{"tools":{}}}`, tool, 1}, {`{"roots":{}}`, form, 0},
	} {
		o := &answering{capabilities: c.capabilities}
		if err := askModern(t, r, o, c.questions); o.rounds != c.rounds || (err == nil) != (c.rounds > 0) {
			t.Errorf("%s, %s: err = %v, asked %d times, want %d", c.capabilities, c.questions, err, o.rounds, c.rounds)
		}
		if text := string(o.asked["a"].Params); strings.Contains(text, "allServers") {
			t.Errorf("asked %s, want no context of other servers", text)
		}
	}
}

// A large is an answering with a large answer.
type large struct{ answering }

func (o *large) OnQuestions(context.Context, map[string]tool.Question) (map[string]json.RawMessage, error) {
	text := `{"x":"` + strings.Repeat("m", tool.MaxQuestion) + `"}`
	return map[string]json.RawMessage{"a": json.RawMessage(text)}, nil
}

// TestLargeAnswer checks that the answers of clients are bounded, too.
func TestLargeAnswer(t *testing.T) {
	r := raw(t, "modern")
	r.Ready(t)
	o := &large{answering{capabilities: everyCapability}}
	_, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "input"}, Observer: o})
	if kindOf(err) != tool.Invalid || !strings.Contains(err.Error(), "larger than 64 KiB") {
		t.Errorf("err = %v", err)
	}
}

// TestQuestionAfterItsCall checks that a question about a call whose caller has left is not asked
// another principal, where the transport doesn't show which call a question is about.
func TestQuestionAfterItsCall(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Questions = true
	r := start(t, mcp.Hasten(cfg))
	r.Ready(t)
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := r.Call(left, &tool.Call{Tool: &tool.Tool{Name: "never"},
		Principal: tool.Principal{ID: "ann"}}); err == nil {
		t.Fatalf("never: err == nil, want an error")
	}
	for _, who := range []string{"bob", "ann"} {
		o := &answering{capabilities: everyCapability}
		res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "ask"}, Observer: o,
			Principal: tool.Principal{ID: who}})
		if err != nil {
			t.Fatalf("ask: %v", err)
		}
		want := map[string]string{"bob": "cancel", "ann": "decline"}[who]
		if !strings.Contains(string(res.Raw), want) {
			t.Errorf("%s: res = %s, want %s", who, res.Raw, want)
		}
	}
}

// TestEndlessQuestions checks that a server that never stops asking is refused after some
// questions, and that its call goes on.
func TestEndlessQuestions(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Questions = true
	r := start(t, mcp.Hasten(cfg))
	r.Ready(t)
	o := &answering{capabilities: everyCapability}
	res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "ask often"}, Observer: o})
	if err != nil {
		t.Fatalf("ask often: %v", err)
	}
	declined, canceled := strings.Count(string(res.Raw), "decline"), strings.Count(string(res.Raw), "cancel")
	if o.rounds != tool.MaxRounds || declined != tool.MaxRounds || canceled != 5 {
		t.Errorf("asked %d times, %d answers, %d refusals, want %d, %d, 5", o.rounds, declined, canceled,
			tool.MaxRounds, tool.MaxRounds)
	}
}

// TestQuestionBetweenCalls checks that neither of two principals is asked while both have calls
// under way, where the transport doesn't show which call a question is about.
func TestQuestionBetweenCalls(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Questions = true
	r := start(t, mcp.Hasten(cfg))
	r.Ready(t)
	var calls sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		calls.Go(func() {
			o := &answering{capabilities: everyCapability}
			res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "pair"}, Observer: o,
				Principal: tool.Principal{ID: who}})
			if err != nil || o.rounds != 0 || !strings.Contains(string(res.Raw), "cancel") {
				t.Errorf("%s: asked %d times, %+v, %v, want not at all, and a refusal", who, o.rounds, res, err)
			}
		})
	}
	calls.Wait()
}

// A parked is an answering whose client answers when release is closed.
type parked struct {
	answering
	open, release chan struct{}
}

func (o *parked) OnQuestions(ctx context.Context, asked map[string]tool.Question) (map[string]json.RawMessage,
	error) {
	close(o.open)
	<-o.release
	return o.answering.OnQuestions(ctx, asked)
}

// TestQuestionBesideParked checks that a client that doesn't answer doesn't block the questions of
// the principal's other calls, where the transport doesn't show which call a question is about. No
// other principal is asked meanwhile.
func TestQuestionBesideParked(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Questions = true
	r := start(t, mcp.Hasten(cfg))
	r.Ready(t)
	ask := func(who string, o tool.Observer) string {
		res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "ask"}, Observer: o,
			Principal: tool.Principal{ID: who}})
		if err != nil {
			t.Errorf("%s: err = %v", who, err)
			return ""
		}
		return string(res.Raw)
	}
	first := &parked{answering{capabilities: everyCapability}, make(chan struct{}), make(chan struct{})}
	var calls sync.WaitGroup
	calls.Go(func() {
		if got := ask("ann", first); !strings.Contains(got, "decline") {
			t.Errorf("the parked call: got %s, want its answer", got)
		}
	})
	<-first.open
	for who, want := range map[string]string{"ann": "decline", "bob": "cancel"} {
		if got := ask(who, &answering{capabilities: everyCapability}); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", who, got, want)
		}
	}
	close(first.release)
	calls.Wait()
	if first.rounds != 1 {
		t.Errorf("the parked call was asked %d times, want once", first.rounds)
	}
}
