package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A till is an upstream whose tool put writes. It stores its arguments byte for byte.
type till struct {
	*httptest.Server
	mcp *mcp.Server
	mu  sync.Mutex
	got []string
}

func newTill(t *testing.T) *till {
	p := &till{mcp: mcp.NewServer(&mcp.Implementation{Name: "till", Version: "1"}, nil)}
	p.define("Books")
	p.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return p.mcp }, nil))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// define adds or replaces the tool put.
func (p *till) define(description string) {
	p.mcp.AddTool(&mcp.Tool{Name: "put", Description: description,
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.got = append(p.got, string(r.Params.Arguments))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "booked"}}}, nil
		})
}

// booked checks what was sent to the upstream, in any order.
func (p *till) booked(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	got, want := slices.Sorted(slices.Values(p.got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("booked %v, want %v", got, want)
	}
}

// An asker is an agent's client with a user who answers forms.
type asker struct {
	*mcp.ClientSession
	mu    sync.Mutex
	forms []string // the forms shown
}

func (a *asker) shown() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.forms)
}

// options returns the options of a client whose user answers with answer.
func (a *asker) options(answer func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult,
		error) {
		a.mu.Lock()
		a.forms = append(a.forms, r.Params.Message)
		a.mu.Unlock()
		return answer(ctx, r.Params), nil
	}}
}

// accept returns an answer with the fields that the user filled in, as pairs of name and value.
// Each answer has its own content, since the client writes the form's defaults into it.
func accept(fields ...string) func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
	return func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
		content := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			content[fields[i]] = fields[i+1]
		}
		return &mcp.ElicitResult{Action: "accept", Content: content}
	}
}

func action(name string) func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult {
	return func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: name} }
}

// channels are the protocol versions, by the way in which they ask a client.
var channels = map[string]string{"elicitation": "2025-11-25", "elicitation of 2025-06-18": "2025-06-18",
	"input_required": "2026-07-28"}

// overHTTP connects a client with a key and a protocol version.
func overHTTP(t *testing.T, d *daemon.Daemon, key, version string,
	answer func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult) *asker {
	t.Helper()
	a := &asker{}
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, a.options(answer))
	var err error
	a.ClientSession, err = c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: d.URL() + "/mcp",
		HTTPClient: &http.Client{Transport: bearer(key)}, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// overStdio connects a client of the local user.
func overStdio(t *testing.T, d *daemon.Daemon, version string,
	answer func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult) *asker {
	t.Helper()
	a := &asker{}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.ServeStdio(ctx, inR, outW) }()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, a.options(answer))
	var err error
	a.ClientSession, err = c.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { a.Close(); cancel(); <-done })
	return a
}

// runTill runs a daemon with an upstream whose writes all need approval.
func runTill(t *testing.T, dir, more string) (*daemon.Daemon, *till, func()) {
	t.Helper()
	p := newTill(t)
	d, stop := run(t, dir, "policy: ask-for-writes\nmcpServers: { till: { url: '"+p.URL+"' } }\n"+more)
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	return d, p, stop
}

const mayDecide = "auth: { keys: true }\napprovals: { in_client: true }\n"

func approverKey(t *testing.T, d *daemon.Daemon) string {
	return makeKey(t, d, api.KeyRequest{Name: "ann", Scopes: []string{"mcp", "api"},
		Roles: []string{"user", "approver"}})
}

const putOne = `return await callTool("till.put", { n: 1 })`
const putThree = `const r = await Promise.allSettled([1, 2, 3].map(n => callTool("till.put", { n }))); return ` +
	`r.map(x => x.status + (x.reason?.message ?? ""))`

func program(code string) map[string]any { return map[string]any{"code": code} }

// pending waits for n open requests, and returns them.
func pending(t *testing.T, d *daemon.Daemon, n int) (all []api.Approval) {
	t.Helper()
	until(t, func() (ok bool) {
		var err error
		if all, err = d.Client().Approvals().ListFor(t.Context(), "", false); err != nil {
			t.Fatalf("Approvals: %v", err)
		}
		return len(all) == n
	})
	return all
}

// TestDecidedAtTheClient checks decisions in the agent's own client, for each way to ask there.
func TestDecidedAtTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config string
		answer func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult
		code   string
		text   string   // in the answer
		booked []string // by that time
		left   int      // requests that still wait
		forms  int
	}{
		{"approved", mayDecide, accept("decision", "approve"), putOne, "booked", []string{`{"n":1}`}, 0, 1},
		{"denied", mayDecide, accept("decision", "deny", "note", "ask finance"), putOne, "ask finance", nil, 0, 1},
		{"declined", mayDecide, action("decline"), putOne, "waits for a person", nil, 1, 1},
		{"canceled", mayDecide, action("cancel"), putOne, "waits for a person", nil, 1, 1},
		{"all of many", mayDecide, accept("decision", "approve all"), putThree, "fulfilled",
			[]string{`{"n":1}`, `{"n":2}`, `{"n":3}`}, 0, 1},
		{"none of many", mayDecide, accept("decision", "deny all"), putThree, "was denied by key:ann", nil, 0, 1},
		{"some of many", mayDecide, accept("decision", "as chosen below", "call_1", "approve", "call_2", "deny",
			"call_3", "approve"), putThree,
			`"fulfilled","rejected`, []string{`{"n":1}`, `{"n":3}`}, 0, 1},
		{"some left", mayDecide, accept("decision", "as chosen below", "call_1", "approve"), putThree,
			"waits for a person", []string{`{"n":1}`}, 2, 1},
		{"two meanings", mayDecide, accept("decision", "approve all", "call_2", "deny"), putThree, "", nil, 3, 1},
		{"one after the other", mayDecide, accept("decision", "approve"),
			`await callTool("till.put", { n: 1 }); await callTool("till.put", { n: 2 }); return "both"`, "both",
			[]string{`{"n":1}`, `{"n":2}`}, 0, 2},
		{"own request", mayDecide + "", accept("decision", "approve"), putOne, "booked", []string{`{"n":1}`}, 0, 1},
		{"own request, separated", "auth: { keys: true }\napprovals: { in_client: true, separate: true }\n",
			accept("decision", "approve"), putOne, "waits for a person", nil, 1, 0},
		{"not configured", "auth: { keys: true }\n", accept("decision", "approve"), putOne,
			"waits for a person", nil, 1, 0},
		{"turned off", "auth: { keys: true }\napprovals: { in_client: false }\n", accept("decision", "approve"), putOne,
			"waits for a person", nil, 1, 0},
	} {
		for channel, version := range channels {
			t.Run(c.name+"/"+channel, func(t *testing.T) {
				t.Parallel()
				d, p, _ := runTill(t, t.TempDir(), c.config)
				a := overHTTP(t, d, approverKey(t, d), version, c.answer)
				text, err := call(t, a.ClientSession, "execute", program(c.code))
				if err != nil || !strings.Contains(text, c.text) {
					t.Errorf("answered %q, %v", text, err)
				}
				if got := a.shown(); len(got) != c.forms {
					t.Errorf("asked %d times: %v", len(got), got)
				}
				pending(t, d, c.left)
				p.booked(t, c.booked...)
			})
		}
	}
}

// TestWhoIsAskedAtTheClient checks that only users who may decide are asked.
func TestWhoIsAskedAtTheClient(t *testing.T) {
	t.Parallel()
	t.Run("not an approver", func(t *testing.T) {
		t.Parallel()
		d, p, _ := runTill(t, t.TempDir(), mayDecide)
		key := makeKey(t, d, api.KeyRequest{Name: "bob", Scopes: []string{"mcp"}, Roles: []string{"user"}})
		for _, version := range channels {
			a := overHTTP(t, d, key, version, accept("decision", "approve"))
			text, err := call(t, a.ClientSession, "execute", program(putOne))
			if err != nil || !strings.Contains(text, "waits for a person") || len(a.shown()) > 0 {
				t.Errorf("%q %v, asked %v", text, err, a.shown())
			}
		}
		p.booked(t)
	})
	t.Run("no sign-in", func(t *testing.T) {
		t.Parallel()
		d, p, _ := runTill(t, t.TempDir(), "approvals: { in_client: true }\n") // any user of this machine
		a := overHTTP(t, d, "", "2025-11-25", accept("decision", "approve"))
		if text, err := call(t, a.ClientSession, "execute", program(putOne)); err != nil ||
			!strings.Contains(text, "waits for a person") || len(a.shown()) > 0 {
			t.Errorf("%q %v, asked %v", text, err, a.shown())
		}
		p.booked(t)
	})
	for channel, version := range channels {
		t.Run("the local user/"+channel, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d, p, stop := runTill(t, dir, "")
			a := overStdio(t, d, version, accept("decision", "approve", "note", "mine"))
			if text, err := call(t, a.ClientSession, "execute", program(putOne)); err != nil ||
				!strings.Contains(text, "booked") {
				t.Errorf(`text = %q, err = %v, want err == nil && strings.Contains(text, "booked")`, text, err)
			}
			p.booked(t, `{"n":1}`)
			a.Close()
			stop()
			all := recorded(t, dir, audit.KindApproval)
			if len(all) != 1 || all[0].Detail["channel"] != "client" || all[0].Decision.Reason != "mine" {
				t.Errorf("recorded %+v", all)
			}
		})
	}
}

// TestCallsAtTheClient is the same for direct calls of a client.
func TestCallsAtTheClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer func(context.Context, *mcp.ElicitParams) *mcp.ElicitResult
		text   string
		booked []string
		left   int
	}{
		{"approved", accept("decision", "approve"), "booked", []string{`{"n":9007199254740993}`}, 0},
		{"denied", accept("decision", "deny"), "was denied", nil, 0},
		{"declined", action("decline"), "has not decided", nil, 1},
	} {
		for channel, version := range channels {
			t.Run(c.name+"/"+channel, func(t *testing.T) {
				t.Parallel()
				d, p, _ := runTill(t, t.TempDir(), "mode: direct\n"+mayDecide)
				a := overHTTP(t, d, approverKey(t, d), version, c.answer)
				res, err := a.CallTool(t.Context(),
					&mcp.CallToolParams{Name: "till_put", Arguments: json.RawMessage(`{"n":9007199254740993}`)})
				if err != nil {
					t.Fatalf("CallTool: %v", err)
				}
				if text := fmt.Sprint(textOf(res)); !strings.Contains(text, c.text) || len(a.shown()) != 1 ||
					!strings.Contains(a.shown()[0], `{"n":9007199254740993}`) {
					t.Errorf("%q, asked %q", text, a.shown())
				}
				pending(t, d, c.left)
				p.booked(t, c.booked...)
			})
		}
	}
}

func textOf(r *mcp.CallToolResult) (text string) {
	for _, c := range r.Content {
		if b, ok := c.(*mcp.TextContent); ok {
			text += b.Text
		}
	}
	return text
}

// TestDecidedElsewhere checks that an open form is canceled when the request is decided elsewhere.
func TestDecidedElsewhere(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]string{"program": "code", "call": "direct"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, p, _ := runTill(t, t.TempDir(), "mode: "+mode+"\n")
			gone := make(chan struct{})
			a := overStdio(t, d, "2025-11-25", func(ctx context.Context, _ *mcp.ElicitParams) *mcp.ElicitResult {
				<-ctx.Done()
				close(gone)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "deny"}}
			})
			answered := make(chan string, 1)
			go func() {
				params := &mcp.CallToolParams{Name: "till_put", Arguments: map[string]any{"n": 1}}
				if mode == "code" {
					params = &mcp.CallToolParams{Name: "execute", Arguments: program(putOne)}
				}
				res, err := a.CallTool(t.Context(), params)
				if err != nil {
					answered <- err.Error()
					return
				}
				answered <- textOf(res)
			}()
			r := pending(t, d, 1)[0]
			until(t, func() bool { return len(a.shown()) == 1 })
			if _, err := d.Client().Approvals().Decide(t.Context(), r.ID,
				api.Decision{Approve: true, Digest: r.Digest}); err != nil {
				t.Fatalf("Decide: %v", err)
			}
			if text := <-answered; !strings.Contains(text, "booked") && !strings.Contains(text, "waits for") {
				t.Errorf("answered %q", text)
			}
			<-gone
			until(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.got) == 1 })
		})
	}
}

// raw posts a call of revision 2026-07-28, with additional parameters in more, and returns the body
// of the answer.
func raw(t *testing.T, d *daemon.Daemon, key, name, args, more string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + more +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL()+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json",
		"Accept":               "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name} {
		req.Header.Set(k, v)
	}
	resp, err := (&http.Client{Transport: bearer(key)}).Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	return string(text)
}

var stateText = regexp.MustCompile(`"requestState":"([^"]+)"`)

// state returns the state of the form in an answer.
func state(t *testing.T, answer string) string {
	t.Helper()
	m := stateText.FindStringSubmatch(answer)
	if m == nil || !strings.Contains(answer, `"resultType":"input_required"`) ||
		!strings.Contains(answer, `"elicitation/create"`) {
		t.Fatalf("no form in %s", answer)
	}
	return m[1]
}

// answer returns what a client adds to a repeated call.
func answer(state, content string) string {
	return `,"requestState":"` + state + `","inputResponses":{"approval":{"action":"accept","content":` + content + `}}`
}

// TestAnswersToAnotherQuestion checks that an answer decides only what its form showed, only for
// the user to whom it was shown, and only once.
func TestAnswersToAnotherQuestion(t *testing.T) {
	t.Parallel()
	const yes = `{"decision":"approve"}`
	dir := t.TempDir()
	d, p, stop := runTill(t, dir, mayDecide)
	ann := approverKey(t, d)
	eve := makeKey(t, d, api.KeyRequest{Name: "eve", Scopes: []string{"mcp"}, Roles: []string{"user", "approver"}})
	code := func(n int) string {
		text, err := json.Marshal(
			map[string]string{"code": fmt.Sprintf(`return await callTool("till.put", { n: %d })`, n)})
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		return string(text)
	}
	s := state(t, raw(t, d, ann, "execute", code(1), ""))
	other := state(t, raw(t, d, ann, "execute", code(2), ""))
	for name, got := range map[string]string{
		"somebody else":   raw(t, d, eve, "execute", code(1), answer(s, yes)),
		"other arguments": raw(t, d, ann, "execute", code(3), answer(s, yes)),
		"another form":    raw(t, d, ann, "execute", code(1), answer(other, yes)),
		"another tool":    raw(t, d, ann, "resume", `{"execution":"ex_1"}`, answer(s, yes)),
		"forged":          raw(t, d, ann, "execute", code(1), answer("QUFB"+s, yes)),
		"cut":             raw(t, d, ann, "execute", code(1), answer(s[:len(s)-8], yes)),
		"huge":            raw(t, d, ann, "execute", code(1), answer(strings.Repeat("A", 100_000), yes)),
		"nothing picked":  raw(t, d, ann, "execute", code(1), answer(s, `{}`)),
		"something else":  raw(t, d, ann, "execute", code(1), answer(s, `{"decision":"approve all"}`)),
		"more than asked": raw(t, d, ann, "execute", code(1),
			answer(s, `{"decision":"approve","call_2":"approve"}`)),
		"not a text":         raw(t, d, ann, "execute", code(1), answer(s, `{"decision":true}`)),
		"no state":           raw(t, d, ann, "execute", code(1), `,"requestState":"x"`),
		"an unknown request": raw(t, d, ann, "execute", code(1), answer(s, `{"decision":"approve","request":"apr_1"}`)),
	} {
		if strings.Contains(got, `"resultType":"input_required"`) || !strings.Contains(got, `"isError":true`) ||
			!strings.Contains(got, "nothing was decided") && !strings.Contains(got, "nothing was called") {
			t.Errorf("%s, got = %s", name, got)
		}
	}
	if all := pending(t, d, 2); len(all) != 2 {
		t.Errorf("all = %+v, want len(all) == 2", all)
	}
	p.booked(t)
	// Without an answer the form is sent again. A new process accepts the answer to the first one.
	second := state(t, raw(t, d, ann, "execute", code(1), `,"requestState":"`+s+`"`))
	stop()
	d = again(t, dir, p)
	if got := raw(t, d, ann, "execute", code(1), answer(s, yes)); !strings.Contains(got, "booked") {
		t.Errorf("after a restart: %s", got)
	}
	p.booked(t, `{"n":1}`)
	// Neither is accepted twice.
	for _, old := range []string{s, second} {
		if got := raw(t, d, ann, "execute", code(1), answer(old, yes)); strings.Contains(got, `"input_required"`) {
			t.Errorf("replayed: %s", got)
		}
	}
	p.booked(t, `{"n":1}`)
	pending(t, d, 1)
}

// TestReplayedCalls checks that an answer to a direct call allows only one call.
func TestReplayedCalls(t *testing.T) {
	t.Parallel()
	d, p, _ := runTill(t, t.TempDir(), "mode: direct\n"+mayDecide)
	ann := approverKey(t, d)
	const args, yes = `{"n":7}`, `{"decision":"approve"}`
	s := state(t, raw(t, d, ann, "till_put", args, ""))
	if got := raw(t, d, ann, "till_put", `{"n":8}`, answer(s, yes)); !strings.Contains(got, "nothing was decided") {
		t.Errorf("other arguments: %s", got)
	}
	if got := raw(t, d, ann, "till_put", args, answer(s, yes)); !strings.Contains(got, "booked") {
		t.Fatalf(`got = %v, want strings.Contains(got, "booked")`, got)
	}
	if got := raw(t, d, ann, "till_put", args, answer(s, yes)); strings.Contains(got, `booked`) ||
		strings.Contains(got, "input_required") {
		t.Errorf("replayed: %s", got)
	}
	p.booked(t, args)
	state(t, raw(t, d, ann, "till_put", args, "")) // it is asked about again
}

// TestPlansAtTheClient checks that a plan is one question, which shows all of its writes.
func TestPlansAtTheClient(t *testing.T) {
	t.Parallel()
	for channel, version := range channels {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			d, p, _ := runTill(t, t.TempDir(), mayDecide)
			a := overHTTP(t, d, approverKey(t, d), version, accept("decision", "approve"))
			text, err := call(t, a.ClientSession, "execute",
				map[string]any{"mode": "plan",
					"code": `await callTool("till.put", { n: 1 }); await callTool("till.put", { n: 2 }); return "both"`})
			if err != nil || !strings.Contains(text, "both") {
				t.Errorf(`text = %q, err = %v, want err == nil && strings.Contains(text, "both")`, text, err)
			}
			if f := a.shown(); len(f) != 1 || !strings.Contains(f[0], `  1. till.put {"n":1}`) ||
				!strings.Contains(f[0], `  2. till.put {"n":2}`) {
				t.Errorf("asked %q", f)
			}
			p.booked(t, `{"n":1}`, `{"n":2}`)
		})
	}
}

// TestARealClientIsAsked runs the TypeScript SDK's client in both eras of the protocol.
func TestARealClientIsAsked(t *testing.T) {
	t.Parallel()
	node, module := peertest.Node(t), peertest.Module(t, "@modelcontextprotocol/client/dist/index.mjs")
	d, p, _ := runTill(t, t.TempDir(), mayDecide)
	key := approverKey(t, d)
	for i, mode := range []string{"legacy", "auto"} {
		code := fmt.Sprintf(`const r = await Promise.allSettled([1, 2].map(n => callTool("till.put", { n: n + 10 * `+
			`%d }))); return r.map(x => x.status)`, i)
		out, err := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "asked.mjs"), module,
			d.URL()+"/mcp", key, mode, code).CombinedOutput()
		var got struct {
			Forms []string
			Text  string
		}
		if err != nil || json.Unmarshal(out, &got) != nil || len(got.Forms) != 1 ||
			!strings.Contains(got.Text, `["fulfilled","rejected"]`) {
			t.Errorf("mode = %s, err = %v, out = %s", mode, err, out)
		}
	}
	p.booked(t, `{"n":1}`, `{"n":11}`)
}

// TestWhatHappensBetween checks changes before the user answers: to what was asked about, by a
// decision elsewhere, or by a restart.
func TestWhatHappensBetween(t *testing.T) {
	t.Parallel()
	const args, yes = `{"n":1}`, `{"decision":"approve"}`
	code := `{"code":"return await callTool(\"till.put\", { n: 1 })"}`
	for _, c := range []struct {
		name   string
		tool   string
		args   string
		change func(t *testing.T, d *daemon.Daemon, p *till, r api.Approval)
		says   string
		booked []string
	}{
		{"denied elsewhere, program", "execute", code, decideElsewhere(false), "was denied by local:", nil},
		{"denied elsewhere, call", "till_put", args, decideElsewhere(false), "is already denied by local:", nil},
		{"approved elsewhere, call", "till_put", args, decideElsewhere(true), "booked", []string{args}},
		{"approved elsewhere, program", "execute", code, decideElsewhere(true), "booked", []string{args}},
		{"another tool, program", "execute", code, redefine, "no longer applies", nil},
		// asked about again, in its current form
		{"another tool, call", "till_put", args, redefine, "input_required", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, p, _ := runTill(t, t.TempDir(), "mode: direct\n"+mayDecide)
			key := approverKey(t, d)
			s := state(t, raw(t, d, key, c.tool, c.args, ""))
			c.change(t, d, p, pending(t, d, 1)[0])
			if got := raw(t, d, key, c.tool, c.args, answer(s, yes)); !strings.Contains(got, c.says) {
				t.Errorf("got = %s, want strings.Contains(got, c.says)", got)
			}
			p.booked(t, c.booked...)
		})
	}
	for channel, version := range channels {
		t.Run("resumed after a restart/"+channel, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d, p, stop := runTill(t, dir, mayDecide)
			key := approverKey(t, d)
			x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: putOne})
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			stop()
			d = again(t, dir, p)
			a := overHTTP(t, d, key, version, accept("decision", "approve"))
			if text, err := call(t, a.ClientSession, "resume", map[string]any{"execution": x.ID}); err != nil ||
				!strings.Contains(text, "booked") || len(a.shown()) != 1 {
				t.Errorf("%q %v, asked %q", text, err, a.shown())
			}
			p.booked(t, `{"n":1}`)
		})
	}
}

// decideElsewhere decides through the API of the daemon.
func decideElsewhere(approve bool) func(*testing.T, *daemon.Daemon, *till, api.Approval) {
	return func(t *testing.T, d *daemon.Daemon, _ *till, r api.Approval) {
		if _, err := d.Client().Approvals().Decide(t.Context(), r.ID,
			api.Decision{Approve: approve, Digest: r.Digest}); err != nil {
			t.Fatalf("Decide: %v", err)
		}
	}
}

// redefine replaces the tool put, and waits until the daemon knows.
func redefine(t *testing.T, d *daemon.Daemon, p *till, _ api.Approval) {
	p.define("Books, and tells everybody")
	until(t, func() bool {
		x, err := d.Client().Tool(t.Context(), "till.put")
		return err == nil && strings.Contains(x.Description, "tells everybody")
	})
}

// again starts another daemon in a folder, as serve does.
func again(t *testing.T, dir string, p *till) *daemon.Daemon {
	t.Helper()
	settings, err := config.Parse(filepath.Join(dir, "biplane.yaml"),
		[]byte("policy: ask-for-writes\nmcpServers: { till: { url: '"+p.URL+"' } }\n"+mayDecide), env, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	d, _ := runWith(t, daemon.Config{Settings: settings, DataDir: dir, Listen: "127.0.0.1:0", Version: "test",
		Recover: true})
	return d
}
