package daemon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A crm is an upstream with personal data, and with tools that accept some.
type crm struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // arguments of send and post
}

// customer is the data of one person. The name is personal because the tool's schema says so.
const customer = `{"name":"Ada Lovelace","email":"Ada@Example.com","phone":2125550147,"card":"4111 1111 1111 1111",` +
	`"note":"call +44 20 7946 0958, order 4111-22"}`

func newCRM(t *testing.T) *crm {
	c := &crm{}
	s := mcp.NewServer(&mcp.Implementation{Name: "crm", Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object"}`)
	text := func(isError bool, t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{IsError: isError, Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	s.AddTool(&mcp.Tool{Name: "find", InputSchema: object, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		OutputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","x-pii":true}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if r.Params.GetProgressToken() != nil {
				_ = r.Session.NotifyProgress(t.Context(),
					&mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1,
						Message: "looking for Ada@Example.com"})
			}
			out := text(false, customer)
			out.StructuredContent = json.RawMessage(customer)
			out.Meta = mcp.Meta{"asked-by": "Ada@Example.com"}
			return out, nil
		})
	s.AddTool(&mcp.Tool{Name: "fail", InputSchema: object},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(true, "no mailbox ada@example.com at 020 7946 0958"), nil
		})
	s.AddTool(&mcp.Tool{Name: "photo", InputSchema: object},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png",
				Data: []byte("ada@example.com")}}}, nil
		})
	for _, name := range []string{"send", "post"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: object},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.got = append(c.got, name+" "+string(r.Params.Arguments))
				return text(false, "ok"), nil
			})
	}
	c.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() { c.CloseClientConnections(); c.Close() })
	return c
}

// last returns the arguments of the upstream's last call.
func (c *crm) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) == 0 {
		return ""
	}
	return c.got[len(c.got)-1]
}

const revealPolicy = `
permit (principal, action in [Action::"call", Action::"execute"], resource);
@id("mail-may-have-it") permit (principal, action == Action::"reveal", resource == Tool::"crm.send") unless { context.kinds.contains("card") };
`

// real matches any of the customer's data.
var real = regexp.MustCompile(`(?i)ada@example|Ada Lovelace|2125550147|4111 1111|7946`)

func newPrivate(t *testing.T) (c *crm, dir, text string) {
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "policies"), 0o700); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policies", "p.cedar"), []byte(revealPolicy), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	c = newCRM(t)
	return c, dir, "policy: ./policies\nprivacy: tokenize\nmcpServers: { crm: { url: '" + c.URL + "' } }"
}

// shows runs a program, and returns its output for an agent, which must have no real data.
func shows(t *testing.T, c *api.Client, r api.RunRequest) string {
	t.Helper()
	x, err := c.Run(t.Context(), r)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	if m := real.Find(raw); m != nil {
		t.Fatalf("%s shows %q:\n%s", r.Code, m, raw)
	}
	return string(raw)
}

// model connects to the daemon as an agent.
func model(t *testing.T, d *daemon.Daemon, progress func(string)) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"},
		&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
			r *mcp.ProgressNotificationClientRequest) {
			progress(r.Params.Message)
		}})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + d.Addr() + "/mcp"}, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestModelsSeeTokens follows a customer's data. The model sees tokens, the program computes with
// the data, and only the tool that policy permits gets the data. The same holds in sessions, in
// their copies, and after a restart.
func TestModelsSeeTokens(t *testing.T) {
	t.Parallel()
	c, dir, text := newPrivate(t)
	d, stop := run(t, dir, text)
	local := d.Client()

	out := shows(t, local, api.RunRequest{Session: "work", Code: `const a = await crm.find({}); console.log(a.note, ` +
		`"for", a.name); return { a, n: a.email.length, [a.email]: 1 }`})
	for _, want := range []string{`[EMAIL_1]`, `[PHONE_1]`, `[CARD_1]`, `[FIELD_1]`, `\"n\":15`, "order 4111-22"} {
		if !strings.Contains(out, want) && !strings.Contains(out, strings.ReplaceAll(want, `\`, "")) {
			t.Fatalf("no %s in %s", want, out)
		}
	}
	send := func(d *daemon.Daemon, session, tool, args, want string) {
		t.Helper()
		note := shows(t, d.Client(),
			api.RunRequest{Session: session, Code: fmt.Sprintf(`await crm.%s(%s)`, tool, args)})
		if got := c.last(); got != tool+" "+want {
			t.Fatalf("the upstream got %s, want %s", got, want)
		}
		if strings.Contains(want, "_1]") && !strings.Contains(note, "as it stands") {
			t.Errorf("the answer says nothing of tokens that stay: %s", note)
		}
	}
	send(d, "work", "send", `{ to: "[EMAIL_1]", body: "Dear [FIELD_1], [EMAIL_99] [EMAIL_1]", raw: JSON.stringify({ `+
		`to: "[EMAIL_1]" }) }`,
		`{"to":"Ada@Example.com","body":"Dear Ada Lovelace, [EMAIL_99] Ada@Example.com",`+
			`"raw":"{\"to\":\"Ada@Example.com\"}"}`)
	send(d, "work", "send", `{ dial: "[PHONE_1]" }`, `{"dial":2125550147}`)
	// all or none
	send(d, "work", "send", `{ to: "[EMAIL_1]", card: "[CARD_1]" }`, `{"to":"[EMAIL_1]","card":"[CARD_1]"}`)
	send(d, "work", "post", `{ to: "[EMAIL_1]" }`, `{"to":"[EMAIL_1]"}`)
	send(d, "other", "send", `{ to: "x [EMAIL_1]" }`, `{"to":"x [EMAIL_1]"}`) // of another session

	// A copy of the session knows its tokens, and so does the next process.
	if _, err := local.Sessions().Fork(t.Context(), "work", "copy"); err != nil {
		t.Fatalf("ForkSession: %v", err)
	}
	stop()
	d, _ = run(t, dir, text)
	send(d, "copy", "send", `{ to: "[EMAIL_1]" }`, `{"to":"Ada@Example.com"}`)
	send(d, "work", "send", `{ to: "[EMAIL_1]" }`, `{"to":"Ada@Example.com"}`)
	if out := shows(t, d.Client(), api.RunRequest{Session: "work", Code: `a.email.toLowerCase()`}); !strings.Contains(
		out, "[EMAIL_1]") {
		t.Errorf("another spelling has another token: %s", out)
	}
	var file bytes.Buffer
	if err := d.Client().Sessions().Export(t.Context(), "work", "a passphrase of some length", &file); err != nil {
		t.Fatalf("ExportSession: %v", err)
	}
	if _, err := d.Client().Sessions().Import(t.Context(), "brought", "a passphrase of some length",
		&file); err != nil {
		t.Fatalf("ImportSession: %v", err)
	}
	send(d, "brought", "send", `{ to: "[EMAIL_1]" }`, `{"to":"Ada@Example.com"}`)
	if err := d.Client().Sessions().End(t.Context(), "work"); err != nil {
		t.Fatalf("EndSession: %v", err)
	}
	send(d, "work", "send", `{ to: "z [EMAIL_1]" }`, `{"to":"z [EMAIL_1]"}`) // it was deleted with its session
}

// TestNothingThatIsNotTransformedGetsOut tries all ways out of a program.
func TestNothingThatIsNotTransformedGetsOut(t *testing.T) {
	t.Parallel()
	_, dir, text := newPrivate(t)
	d, _ := run(t, dir, text+"\nsandbox: { output_tokens: 300 }")
	for _, code := range []string{
		`throw new Error("lost " + (await crm.find({})).email)`,
		`throw await crm.find({})`,
		`await crm.fail({})`,
		`try { await crm.fail({}) } catch (e) { console.error(e); return e }`,
		`const a = await crm.find({}); return new Map([[a.email, [a.name, a.phone]]])`,
		`const a = await crm.find({}); return { [a.email]: { ["x " + a.name]: [JSON.stringify(JSON.stringify(a))] } }`,
		`const a = await crm.find({}); return "x".repeat(900) + "\n" + (a.email + "\n" + a.card + "\n").repeat(400)`,
		`const a = await crm.find({}); for (let i = 0; i < 300; i++) console.log("y".repeat(i % 40), a.email, ` +
			`a.phone, a.name)`,
		`const a = await crm.find({}); console.log("z".repeat(100000 - 9) + a.email)`,
		`const a = await crm.find({}); await callTool("crm." + a.email, {})`,
		`const a = await crm.find({}); await crm.nothing({ to: a.email, text: "x".repeat(100) + a.name })`,
		`const a = await crm.find({}); await crm.send({ pad: "p".repeat(130), to: a.email }); throw new Error("after")`,
		`import { writeFile } from "node:fs/promises"; const a = await crm.find({}); await ` +
			`writeFile("./workspace/a.csv", "name,mail\n" + a.name + "," + a.email); emit("./workspace/a.csv")`,
		`emit(await crm.photo({}))`,
		`return await crm.photo({})`,
		`const a = await crm.find({}); return Promise.reject(new TypeError(a.note))`,
	} {
		x := shows(t, d.Client(), api.RunRequest{Code: code})
		if strings.Contains(x, base64.StdEncoding.EncodeToString([]byte("ada@example.com"))) {
			t.Errorf("%s shows an image: %s", code, x)
		}
	}
	// Later programs read a large value unchanged; models see tokens.
	x, err := d.Client().Run(t.Context(),
		api.RunRequest{Code: `const a = await crm.find({}); return Array.from({ length: 500 }, (_, i) => ({ i, to: ` +
			`a.email }))`})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	a := model(t, d, func(string) {})
	res, err := a.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "resume", Arguments: map[string]any{"execution": x.ID}})
	if err != nil {
		t.Fatalf("CallTool: %v", err)
	}
	raw, _ := json.Marshal(res)
	handle := regexp.MustCompile(`res_[a-z0-9]+`).Find(raw)
	if handle == nil || real.Match(raw) || !bytes.Contains(raw, []byte("[EMAIL_1]")) {
		t.Fatalf(`raw = %s, want handle != nil && !real.Match(raw) && bytes.Contains(raw, []byte("[EMAIL_1]"))`, raw)
	}
	if out := shows(t, d.Client(),
		api.RunRequest{Code: fmt.Sprintf(
			`const r = await readResult(%q, { offset: 3, limit: 2 }); return [r, r[0].to.length]`,
			handle)}); !strings.Contains(out, "15") {
		t.Errorf(`out = %s, want strings.Contains(out, "15")`, out)
	}
}

// TestNamesAreKnownInOtherSessions passes the data of one session's program to another session, by
// a correction and by a handle.
func TestNamesAreKnownInOtherSessions(t *testing.T) {
	t.Parallel()
	_, dir, text := newPrivate(t)
	d, _ := run(t, dir, text+"\nsandbox: { output_tokens: 300 }")
	first, err := d.Client().Run(t.Context(),
		api.RunRequest{Session: "one", Code: `const c = await crm.find({}); return Array.from({ length: 500 }, (_, ` +
			`i) => ({ i, n: c.name, p: c.phone }))`})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	tokens := regexp.MustCompile(`for \[FIELD_\d+\] at \[PHONE_\d+\]`)
	for _, session := range []string{"two", ""} {
		out := shows(t, d.Client(), api.RunRequest{Session: session, After: first.ID,
			Code: `const c = await crm.find({}); console.log("for " + c.name + " at " + c.phone)`})
		if !strings.Contains(out, `"from"`) || !tokens.MatchString(out) {
			t.Errorf("out = %s, want strings.Contains(out, `\"from\"`) && tokens.MatchString(out)", out)
		}
	}
	a := model(t, d, func(string) {})
	res, err := a.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "resume", Arguments: map[string]any{"execution": first.ID}})
	if err != nil {
		t.Fatalf("CallTool: %v", err)
	}
	raw, _ := json.Marshal(res)
	handle := regexp.MustCompile(`res_[a-z0-9]+`).Find(raw)
	out := shows(t, d.Client(),
		api.RunRequest{Session: "three",
			Code: fmt.Sprintf(
				`const r = await readResult(%q, { limit: 2 }); console.log("for " + r[0].n + " at " + r[0].p)`,
				handle)})
	if !tokens.MatchString(out) {
		t.Errorf("out = %s, want tokens.MatchString(out)", out)
	}
}

// TestDirectCallsShowTokens calls tools directly.
func TestDirectCallsShowTokens(t *testing.T) {
	t.Parallel()
	c, dir, text := newPrivate(t)
	d, _ := run(t, dir, text+"\nmode: direct")
	told := make(chan string, 100_000)
	a := model(t, d, func(m string) { told <- m })
	call := func(name string, args map[string]any) string {
		t.Helper()
		p := &mcp.CallToolParams{Name: name, Arguments: args}
		p.SetProgressToken("p1")
		res, err := a.CallTool(t.Context(), p)
		if err != nil {
			t.Fatalf("CallTool: %v", err)
		}
		raw, err := json.Marshal(res)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		if m := real.Find(raw); m != nil {
			t.Fatalf("%s shows %q: %s", name, m, raw)
		}
		return string(raw)
	}
	if out := call("crm.find", nil); !strings.Contains(out, "[EMAIL_1]") || !strings.Contains(out, "[FIELD_1]") ||
		!strings.Contains(out, `"asked-by"`) {
		t.Errorf("out = %s", out)
	}
	for deadline := time.Now().Add(2 * time.Minute); len(told) == 0 && time.Now().Before(deadline); {
		call("crm.find", nil) // an immediate answer may overtake earlier notifications
	}
	if len(told) == 0 {
		t.Error("no progress was told")
	} else if m := <-told; !strings.Contains(m, "[EMAIL_1]") {
		t.Errorf("progress: %s", m)
	}
	call("crm.fail", nil)
	if out := call("crm.photo", nil); !strings.Contains(out, "omitted") || strings.Contains(out, `"type":"image"`) {
		t.Errorf("out = %s, want strings.Contains(out, \"omitted\") && !strings.Contains(out, "+
			"`\"type\":\"image\"`)", out)
	}
	call("crm.send", map[string]any{"to": "[EMAIL_1]"})
	if got := c.last(); got != `send {"to":"Ada@Example.com"}` {
		t.Errorf("the upstream got %s", got)
	}
	// Programs outside of sessions have the same tokens.
	x := shows(t, d.Client(), api.RunRequest{Code: `await crm.send({ to: "[EMAIL_1]" })`})
	if got := c.last(); got != `send {"to":"Ada@Example.com"}` {
		t.Errorf("the upstream got %s (%s)", got, x)
	}
}

// TestWhatProgramsWroteIsHidden has a program write personal data that is shown in other answers
// than its own.
func TestWhatProgramsWroteIsHidden(t *testing.T) {
	t.Parallel()
	_, dir, text := newPrivate(t)
	text = strings.Replace(text, "policy: ./policies", "policy: open", 1)
	d, _ := run(t, dir, text)
	shows(t, d.Client(), api.RunRequest{Code: `import { writeFile } from "node:fs/promises"; const a = await crm.find({});
await writeFile("./skills/mail.ts", "/** Mails the customer " + a.email + ", phone 020 7946 0958. */\nexport function mail(to = \"" + a.email + "\") { return to }\n")`})
	agent := model(t, d, func(string) {})
	for _, c := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"search", map[string]any{"query": "mail the customer"}, "[EMAIL_"},
		{"search", map[string]any{"query": "mail the customer", "detail": "brief"}, "[EMAIL_"},
		{"search", map[string]any{}, "mail.ts"},
		{"resume", map[string]any{"execution": "ada@example.com"}, "[EMAIL_"},
		{"execute", map[string]any{"code": `import { mail } from "./skills/mail"; return mail().length`}, "15"},
		{"execute", map[string]any{"code": `import { mail } from "./skills/mail"; return mail()`}, "[EMAIL_"},
		{"execute", map[string]any{"code": "1", "session": "ada@example.com"}, ""},
		{"execute", map[string]any{"code": "1", "session": "020-7946-0958"}, "[PHONE_"},
		{"execute", map[string]any{"code": "1", "after": "ada@example.com"}, ""},
	} {
		r, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: c.name, Arguments: c.args})
		raw, _ := json.Marshal(r)
		shown := string(raw) + fmt.Sprint(err)
		if m := real.FindString(shown); m != "" || !strings.Contains(shown, c.want) {
			t.Errorf("%s %v shows %q, want %q:\n%s", c.name, c.args, m, c.want, shown)
		}
	}
}
