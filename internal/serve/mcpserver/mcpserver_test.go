package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

func names(t *testing.T, response string) string {
	t.Helper()
	var v struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(response), &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	var out []string
	for _, x := range v.Result.Tools {
		out = append(out, x.Name)
	}
	return strings.Join(out, " ")
}

// allBut is a filter that shows all tools but the one of this name.
type allBut string

func (name allBut) ShowsTool(_ context.Context, _ tool.Principal, t *tool.Tool) bool {
	return t.Name != string(name)
}

func TestWhatMayNotBeSeenIsNotListed(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Filter = allBut("execute")
	peers(t, cfg, func(t *testing.T, p peer, version string) {
		res, _ := p.call(t, "tools/list", "")
		if got := names(t, res); got != "search resume" {
			t.Errorf("tools: %s", got)
		}
	})
}

// withoutTasks removes what tools/list says about tasks to clients of 2025-11-25.
func withoutTasks(list string) string {
	return strings.ReplaceAll(list, `"execution":{"taskSupport":"optional"},`, "")
}

func TestCodeListsThreeTools(t *testing.T) {
	var seen []string
	peers(t, config(newDoor(), mcpserver.Code), func(t *testing.T, p peer, version string) {
		res, _ := p.call(t, "tools/list", "")
		if got := names(t, res); got != "search execute resume" {
			t.Errorf("tools: %s", got)
		}
		seen = append(seen, withoutTasks(string(fieldOf(t, res, "result", "tools"))))
		again, _ := p.call(t, "tools/list", "")
		seen = append(seen, withoutTasks(string(fieldOf(t, again, "result", "tools"))))
		if version >= "2026" {
			if got := string(fieldOf(t, res, "result", "cacheScope")); got != `"private"` {
				t.Errorf("cacheScope: %s", got)
			}
			if got := string(fieldOf(t, res, "result", "ttlMs")); got != "3600000" {
				t.Errorf("ttlMs: %s", got)
			}
		} else if fieldOf(t, res, "result", "cacheScope") != nil {
			t.Errorf("a member of 2026-07-28 in %s", res)
		}
	})
	for _, s := range seen {
		if s != seen[0] {
			t.Errorf("the array of tools differs:\n%s\n%s", seen[0], s)
		}
	}
}

func TestDirectListsUpstreamTools(t *testing.T) {
	peers(t, config(newDoor(), mcpserver.Direct), func(t *testing.T, p peer, version string) {
		res, _ := p.call(t, "tools/list", "")
		if got := names(t, res); got != "up_echo up_other" {
			t.Errorf("tools: %s", got)
		}
		want := strings.Replace(string(upstreamTools()[0].Tool.Raw), `"name":"echo"`, `"name":"up_echo"`, 1)
		if !strings.Contains(withoutTasks(res), want) {
			t.Errorf("the definition changed:\nwant %s\nin   %s", want, res)
		}
	})
}

func TestUnprefixed(t *testing.T) {
	d := newDoor()
	d.handle("up.search", func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "mine"), nil
	})
	cfg := config(d, mcpserver.Direct)
	cfg.Unprefixed = true
	cfg.Catalog = upstreams{list: func() []mcpserver.Listed {
		schema := json.RawMessage(`{"type":"object"}`)
		return []mcpserver.Listed{
			{Name: "up_search", Tool: &tool.Tool{Upstream: "up", Name: "search", InputSchema: schema}},
			{Name: "up_twice", Tool: &tool.Tool{Upstream: "up", Name: "twice", InputSchema: schema}},
			{Name: "b_twice", Tool: &tool.Tool{Upstream: "b", Name: "twice", InputSchema: schema}},
		}
	}}
	p := startStdio(t, mcpserver.New(cfg), "2025-11-25")
	res, _ := p.call(t, "tools/list", "")
	if got := names(t, res); got != "search up_twice b_twice" {
		t.Errorf("tools: %s", got)
	}
	p.call(t, "tools/call", `{"name":"search"}`)
	if got := d.last(t).Path; got != "up.search" {
		t.Errorf("search went to %s", got)
	}
}

func TestPages(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Limits.PageSize = 2
	p := startStdio(t, mcpserver.New(cfg), "2025-11-25")
	first, _ := p.call(t, "tools/list", "")
	if got := names(t, first); got != "search execute" {
		t.Errorf("first page: %s", got)
	}
	second, _ := p.call(t, "tools/list", `{"cursor":`+string(fieldOf(t, first, "result", "nextCursor"))+`}`)
	if got := names(t, second); got != "resume" {
		t.Errorf("second page: %s", got)
	}
	if c := fieldOf(t, second, "result", "nextCursor"); c != nil {
		t.Errorf("a cursor after the last page: %s", c)
	}
	bad, _ := p.call(t, "tools/list", `{"cursor":"nonsense"}`)
	if got := string(fieldOf(t, bad, "error", "code")); got != "-32602" {
		t.Errorf("bad cursor: %s", bad)
	}
}

func TestAutoInlinesSmallCatalogs(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Auto)
	text := "github: list_issues, create_issue"
	cfg.Catalog = upstreams{list: upstreamTools, text: func() string { return text }}
	s := mcpserver.New(cfg)
	p := startStdio(t, s, "2026-07-28")
	res, _ := p.call(t, "tools/list", "")
	if !strings.Contains(res, `"Run a program.\n\n`+text+`"`) {
		t.Errorf("the catalog isn't there: %s", res)
	}
	if strings.Count(res, text) != 1 {
		t.Errorf("the catalog is in other tools too: %s", res)
	}
	text = strings.Repeat("tool name, ", 3000)
	res, _ = p.call(t, "tools/list", "")
	if strings.Contains(res, "tool name") {
		t.Error("a large catalog is inlined")
	}
}

func TestCallsInEveryMode(t *testing.T) {
	for _, mode := range []mcpserver.Mode{mcpserver.Code, mcpserver.Direct, mcpserver.Auto} {
		d := newDoor()
		ok := func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(false, "done"), nil }
		d.handle("up.echo", ok)
		d.handle("biplane.execute", ok)
		p := startStdio(t, mcpserver.New(config(d, mode)), "2025-11-25")
		for name, path := range map[string]string{"up_echo": "up.echo", "up.echo": "up.echo",
			"execute": "biplane.execute"} {
			res, _ := p.call(t, "tools/call", `{"name":"`+name+`","arguments":{"b":9007199254740993, "a":1}}`)
			if got := string(fieldOf(t, res, "result")); got != `{"content":[{"type":"text","text":"done"}]}` {
				t.Errorf("mode = %s, %s, res = %s, want got == "+
					"`{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}`", mode, name, res)
			}
			c := d.last(t)
			if c.Path != path || string(c.Arguments) != `{"b":9007199254740993, "a":1}` {
				t.Errorf("%s: %s: called %s with %s", mode, name, c.Path, c.Arguments)
			}
			if c.Principal.ID != "local:test" || c.Principal.Client != "raw/1" {
				t.Errorf("principal: %+v", c.Principal)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	d := newDoor()
	fail := func(err error) tool.CallerFunc {
		return func(context.Context, *tool.Call) (*tool.Result, error) { return nil, err }
	}
	secret := errors.New("dial unix /secret/path")
	d.handle("up.echo", fail(&tool.Error{Kind: tool.Denied, Msg: "policy denies up.echo: ask an admin",
		RetryAfter: 1500 * time.Millisecond}))
	d.handle("up.other", fail(secret))
	d.handle("biplane.search",
		fail(&tool.Error{Kind: tool.Internal, Msg: "audit record can't be written: the call was not made",
			Err: secret}))
	d.handle("biplane.execute", fail(tool.Errorf(tool.Internal, "internal: %w", secret)))
	d.handle("biplane.resume", fail(tool.Errorf(tool.NotFound, "no execution x_1")))
	peers(t, config(d, mcpserver.Code), func(t *testing.T, p peer, version string) {
		for _, c := range []struct{ name, kind, text string }{
			{"up_echo", "denied", "policy denies up.echo: ask an admin"},
			{"up_other", "internal", "internal error: the call failed inside Biplane, whose log says why"},
			{"search", "internal", "audit record can't be written: the call was not made"},
			{"execute", "internal", "internal error: the call failed inside Biplane, whose log says why"},
			{"resume", "not_found", "no execution x_1"},
		} {
			res, _ := p.call(t, "tools/call", `{"name":"`+c.name+`"}`)
			if got := string(fieldOf(t, res, "result", "isError")); got != "true" {
				t.Errorf("%s: isError %s in %s", c.name, got, res)
			}
			var text string
			json.Unmarshal(fieldOf(t, strings.Trim(string(fieldOf(t, res, "result", "content")), "[]"), "text"), &text)
			if text != c.text {
				t.Errorf("%s: text %q", c.name, text)
			}
			if got := string(fieldOf(t, res, "result", "_meta", mcpserver.MetaError, "kind")); got != `"`+c.kind+`"` {
				t.Errorf("%s: kind %s", c.name, got)
			}
			if c.kind == "denied" &&
				string(fieldOf(t, res, "result", "_meta", mcpserver.MetaError, "retry_after")) != "2" {
				t.Errorf("%s: it doesn't say when to try again: %s", c.name, res)
			}
			if strings.Contains(res, "/secret/path") {
				t.Errorf("%s: the cause leaked: %s", c.name, res)
			}
		}
		for params, code := range map[string]string{
			`{"name":"nonesuch"}`:                   "-32602",
			`{"name":"up_echo","arguments":[1,2]}`:  "-32602",
			`{"name":"up_echo","arguments":"text"}`: "-32602",
			`{"name":17}`:                           "-32602",
		} {
			if p, ok := p.(*httpPeer); ok && version >= "2026" && params == `{"name":17}` {
				_ = p
				continue // its header can't be written; see TestHeaders
			}
			res, _ := p.call(t, "tools/call", params)
			if got := string(fieldOf(t, res, "error", "code")); got != code {
				t.Errorf("params = %s, res = %s, want got == code", params, res)
			}
		}
		res, _ := p.call(t, "tools/call", `{"name":"nonesuch"}`)
		if !strings.Contains(res, "did you mean up.echo?") {
			t.Errorf("no hint: %s", res)
		}
		for _, m := range []string{"prompts/list", "resources/list", "completion/complete", "nonesuch/method"} {
			res, _ := p.call(t, m, `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`)
			if got := string(fieldOf(t, res, "error", "code")); got != "-32601" {
				t.Errorf(`m = %s, res = %s, want got == "-32601"`, m, res)
			}
		}
	})
}

func TestBrokenResultIsAnswered(t *testing.T) {
	for _, raw := range []string{"", "null", "[1]", "{broken", `"text"`} {
		d := newDoor()
		d.handle("up.echo", func(context.Context, *tool.Call) (*tool.Result, error) {
			return &tool.Result{Raw: json.RawMessage(raw)}, nil
		})
		p := startStdio(t, mcpserver.New(config(d, mcpserver.Code)), "2026-07-28")
		res, _ := p.call(t, "tools/call", `{"name":"up_echo"}`)
		if got := string(fieldOf(t, res, "result", "isError")); got != "true" {
			t.Errorf(`raw = %q, res = %s, want got == "true"`, raw, res)
		}
	}
}

func TestProgress(t *testing.T) {
	d := newDoor()
	d.handle("up.echo", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if !c.Observe().WantsProgress() {
			return tool.Text(false, "unasked"), nil
		}
		for _, n := range []float64{0, 50, 50, 40, 100} {
			c.Observe().OnProgress(t.Context(), tool.Progress{Done: n, Total: 100, Message: "step"})
		}
		return tool.Text(false, "done"), nil
	})
	peers(t, config(d, mcpserver.Code), func(t *testing.T, p peer, version string) {
		for _, token := range []string{`"a-token"`, `7`} {
			res, notes := p.call(t, "tools/call", `{"name":"up_echo","_meta":{"progressToken":`+token+`}}`)
			if !strings.Contains(res, "done") {
				t.Errorf("result: %s", res)
			}
			var got []string
			for _, n := range notes {
				if string(fieldOf(t, n, "params", "progressToken")) != token {
					t.Errorf("token in %s", n)
				}
				got = append(got, string(fieldOf(t, n, "params", "progress")))
			}
			if strings.Join(got, " ") != "0 50 100" {
				t.Errorf("progress %v", got)
			}
		}
		if res, _ := p.call(t, "tools/call", `{"name":"up_echo"}`); !strings.Contains(res, "unasked") {
			t.Errorf("result: %s", res)
		}
	})
}

func TestLog(t *testing.T) {
	d := newDoor()
	data := `{"big":9007199254740993,"z":1,"a":2}`
	report := func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if !c.Observe().WantsLogs() {
			return tool.Text(false, "unasked"), nil
		}
		for _, level := range []string{"debug", "info", "nonsense", "error"} {
			c.Observe().OnLog(t.Context(), tool.Log{Level: level,
				Raw: json.RawMessage(`{"level":"` + level + `","logger":"l","data":` + data + `}`)})
		}
		c.Observe().OnLog(t.Context(), tool.Log{Level: "error", Raw: json.RawMessage(`broken`)})
		c.Observe().OnProgress(t.Context(), tool.Progress{Done: 1})
		return tool.StructuredResult(json.RawMessage(`{"done":true}`))
	}
	requests := map[string]string{"tools/call": `"name":"up_echo"`, "resources/read": `"uri":"x://a"`,
		"prompts/get": `"name":"a"`, "completion/complete": `"ref":{"type":"ref/prompt","name":"a"},` +
			`"argument":{"name":"k","value":"v"}`}
	for _, path := range []string{"up.echo", "a.resources.read", "a.prompts.get", "a.completion.complete"} {
		d.handle(path, report)
	}
	cfg := config(d, mcpserver.Direct)
	cfg.Catalog = upstreams{list: upstreamTools, offers: []*tool.Offers{offersOf("a")}}
	peers(t, cfg, func(t *testing.T, p peer, version string) {
		if res, _ := p.call(t, "tools/call", `{"name":"up_echo"}`); !strings.Contains(res, "unasked") {
			t.Errorf("without a level: %s", res)
		}
		meta := `"_meta":{"io.modelcontextprotocol/logLevel":"info"}`
		if version < "2026" {
			meta = `"_meta":{}`
			if res, _ := p.call(t, "logging/setLevel", `{"level":"nonsense"}`); string(
				fieldOf(t, res, "error", "code")) != "-32602" {
				t.Errorf("unknown level: %s", res)
			}
			if res, _ := p.call(t, "logging/setLevel", `{"level":"info"}`); string(fieldOf(t, res, "result")) != "{}" {
				t.Errorf("level: %s", res)
			}
		}
		meta = strings.Replace(strings.Replace(meta, "{", `{"progressToken":"p",`, 1), ",}", "}", 1)
		for method, params := range requests {
			_, notes := p.call(t, method, `{`+params+`,`+meta+`}`)
			var got []string
			for _, n := range notes {
				if progress := fieldOf(t, n, "params", "progress"); progress != nil {
					got = append(got, string(progress))
					continue
				}
				got = append(got, string(fieldOf(t, n, "params", "level")))
				if string(fieldOf(t, n, "params", "data")) != data ||
					string(fieldOf(t, n, "params", "logger")) != `"l"` {
					t.Errorf("log: %s", n)
				}
			}
			if strings.Join(got, " ") != `"info" "error" 1` {
				t.Errorf("%s logged %v", method, got)
			}
		}
	})
}

// TestLackingCapability checks that a client learns which capability a tool requires, and nothing
// else of an error that no policy has seen.
func TestLackingCapability(t *testing.T) {
	d := newDoor()
	wire := &jsonrpc.Error{Code: -32021, Message: "secret", Data: json.RawMessage(`{"requiredCapabilities":` +
		`{"sampling":{"tools":{"x":"secret"},"secret":{}},"secret":{}},"more":"secret"}`)}
	d.handle("up.echo", func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, &tool.Error{Kind: tool.Unavailable, Msg: "up.echo failed: needs sampling", Err: wire}
	})
	peers(t, config(d, mcpserver.Code), func(t *testing.T, p peer, version string) {
		res, _ := p.call(t, "tools/call", `{"name":"up_echo"}`)
		if version < "2026" {
			if !strings.Contains(res, `"isError":true`) {
				t.Errorf("before 2026-07-28: %s", res)
			}
		} else if got := string(fieldOf(t, res, "error")); got != `{"code":-32021,"message":"up.echo failed: needs `+
			`sampling","data":{"requiredCapabilities":{"sampling":{"tools":{}}}}}` {
			t.Errorf("error: %s", got)
		}
	})
}

func TestOlderRevisions(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18"} {
		s := mcpserver.New(config(newDoor(), mcpserver.Code))
		stdio, web := startStdio(t, s, version), startHTTP(t, s, version)
		for _, p := range []peer{stdio, web} {
			if res, _ := p.call(t, "tools/list", ""); names(t, res) != "search execute resume" {
				t.Errorf(`version = %s, res = %s, want names(t, res) == "search execute resume"`, version, res)
			}
		}
		// Before 2025-06-18 a client didn't repeat its revision.
		res := web.post(t, request(1, "tools/list", "", version), map[string]string{"MCP-Protocol-Version": ""})
		if body := drain(t, res); res.StatusCode != 200 {
			t.Errorf("%s without its header: %d %s", version, res.StatusCode, body)
		}
	}
	// An unknown revision is answered with the newest one that has a handshake (2025-11-25,
	// basic/lifecycle).
	p := startStdio(t, mcpserver.New(config(newDoor(), mcpserver.Code)), "2026-07-28")
	p.write(t, strings.Replace(strings.Split(hello, "\n")[0], "2025-11-25", "2031-01-01", 1))
	if got := string(fieldOf(t, p.read(t), "result", "protocolVersion")); got != `"2025-11-25"` {
		t.Errorf("negotiated %s", got)
	}
}
