package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A stronger is the embedded engine as a driver of another tier, with builds of its own, as far as
// anything outside can tell.
type stronger struct {
	*wasm.Driver
	tier tool.Tier
}

func newStronger() (sandbox.Driver, error) { return newDriverOf(tool.Process) }

func newStrongest() (sandbox.Driver, error) { return newDriverOf(tool.GVisor) }

func newDriverOf(tier tool.Tier) (sandbox.Driver, error) {
	d, err := wasm.New(wasm.Config{})
	if err != nil {
		return nil, err
	}
	return stronger{d, tier}, nil
}

func (s stronger) Probe(ctx context.Context) (sandbox.Capabilities, error) {
	c, err := s.Driver.Probe(ctx)
	c.Driver, c.Tier, c.Engine, c.Engines, c.Builds = "strong", s.tier, "strong engine", nil, nil
	return c, err
}

const tierPolicies = `
@id("programs") permit (principal, action == Action::"execute", resource);
@id("strong-programs") @tier("process") permit (principal, action == Action::"execute", resource)
when { context.arguments has session && context.arguments.session like "strong*" };
@id("reads") permit (principal, action == Action::"call", resource) when { resource.readOnly };
@id("writes") @tier("process") permit (principal, action == Action::"call", resource) unless { resource.readOnly };
@id("files") permit (principal, action == Action::"read", resource is File);
@id("saves") @tier("process") permit (principal, action == Action::"write", resource is File);
`

// anyTier permits everything at any tier.
const anyTier = "permit (principal, action, resource);\n"

// A tierRig runs daemons with a folder of policies and an upstream.
type tierRig struct {
	t       *testing.T
	dir     string
	log     *bytes.Buffer // of the current daemon; read it after its stop only
	url     string
	reached chan struct{} // the tool slow was called
	release chan struct{} // closed: slow answers
	// hostPackages enables the sandboxes that are processes of this host.
	more         string // of the configuration
	hostPackages bool
	clock        *wallclock.Clock // of executions and sessions; nil: the system's
	d            *daemon.Daemon
	stop         func()
}

func newTierRig(t *testing.T) *tierRig {
	r := &tierRig{t: t, dir: t.TempDir(), reached: make(chan struct{}, 2), release: make(chan struct{})}
	s := mcp.NewServer(&mcp.Implementation{Name: "box", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	done := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}
	s.AddTool(&mcp.Tool{Name: "put", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return done, nil })
	s.AddTool(&mcp.Tool{Name: "slow", InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r.reached <- struct{}{}
			select {
			case <-r.release:
			case <-ctx.Done():
			}
			return done, nil
		})
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	r.url = h.URL
	return r
}

// start runs a daemon with policies. It has a driver of tier process unless create is nil.
func (r *tierRig) start(policies string, create func() (sandbox.Driver, error)) {
	r.t.Helper()
	folder := filepath.Join(r.dir, "policies")
	if err := errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "p.cedar"), []byte(policies), 0o600)); err != nil {
		r.t.Fatalf("errors.Join: %v", err)
	}
	strongest := tool.WASM
	if create != nil {
		strongest = tool.Process
	}
	text := fmt.Sprintf("sandbox: { host_packages: %t }\npolicy: ./policies\nmcpServers:\n  box: { url: '%s' }\n",
		r.hostPackages, r.url) + r.more
	s, err := config.Parse(filepath.Join(r.dir, "biplane.yaml"), []byte(text), env, strongest)
	if err != nil {
		r.t.Fatalf("config.Parse: %v", err)
	}
	r.log = &bytes.Buffer{}
	c := daemon.Config{Settings: s, DataDir: r.dir, Listen: "127.0.0.1:0", Version: "test", Recover: true,
		Log: slog.New(slog.NewTextHandler(r.log, nil))}
	c.SetClock(r.clock)
	if create != nil {
		c.AddDriver("strong", tool.Process, create)
	}
	r.d, r.stop = runWith(r.t, c)
}

// execute runs a program as an agent does. It returns the answer's texts and the tier that it
// names.
func (r *tierRig) execute(session, code string) (text, tier string, failed bool) {
	r.t.Helper()
	args := map[string]any{"code": code}
	if session != "" {
		args["session"] = session
	}
	res, err := model(r.t, r.d, func(string) {}).CallTool(r.t.Context(),
		&mcp.CallToolParams{Name: "execute", Arguments: args})
	if err != nil {
		r.t.Fatalf("CallTool: %v", err)
	}
	for _, c := range res.Content {
		text += c.(*mcp.TextContent).Text + "\n"
	}
	m, _ := res.Meta["biplane.dev/execution"].(map[string]any)
	tier, _ = m["tier"].(string)
	return text, tier, res.IsError
}

// want runs a program, and checks the tier at which it ran and a part of its answer.
func (r *tierRig) want(session, code, tier, part string) {
	r.t.Helper()
	text, got, _ := r.execute(session, code)
	if got != tier || !strings.Contains(text, part) ||
		strings.Contains(text, "ran in a sandbox of tier "+tier) != (tier != "") {
		r.t.Errorf("session %q: ran at %q, want %q and %q: %s", session, got, tier, part, text)
	}
}

// TestTiersOfPolicies follows the tier from the text of policies to the sandbox. A program runs at
// the tier that the policies require, its calls are decided at this tier, and its session stays in
// its driver when the policies no longer require that.
func TestTiersOfPolicies(t *testing.T) {
	t.Parallel()
	r := newTierRig(t)
	r.start(tierPolicies, newStronger)
	put := `return await callTool("box.put", {})`
	r.want("", `return 6 * 7`, "", "42")
	r.want("", put, "", "it needs a program that runs at tier process, and this one runs at wasm")
	r.want("strong", `var n = 6; `+put, "process", "done")
	r.want("weak", `var n = 7; return n`, "", "7")
	save := `return (await import("node:fs")).writeFileSync("./workspace/a", "x")`
	r.want("weak", save, "", "policy saves: it needs a program that runs at tier process")
	r.want("strong", save, "process", "no value")
	if x, err := r.d.Client().Run(t.Context(), api.RunRequest{Code: `return n`, Session: "strong"}); err != nil ||
		x.Tier != "process" {
		t.Errorf("the API: %+v, %v", x, err)
	}
	var names []string
	for _, c := range r.d.Sandboxes(t.Context()) {
		names = append(names, c.Driver+" "+c.Tier)
	}
	if got := strings.Join(names, ", "); got != "wasm wasm, process process, strong process" {
		t.Errorf("the sandboxes are %s", got)
	}
	r.stop()
	r.start(anyTier, newStronger)
	r.want("strong", `return n`, "process", "6")
	r.want("weak", `return n`, "", "7")
	r.stop()
	if warned := r.log.String(); strings.Contains(warned, "no sandbox here is of this tier") {
		t.Errorf("logged %s", warned)
	}
	r.start(`@tier("process") `+anyTier, newStronger)
	r.want("weak", `return n`, "", `session "weak" stays in the kind of sandbox in which it began (wasm)`)
	r.want("strong", `return n + 1`, "process", "7")
}

// TestRecoveryKeepsTheTier checks that an execution that the next process recovers stays in its
// driver, though the policies no longer require that.
func TestRecoveryKeepsTheTier(t *testing.T) {
	t.Parallel()
	r := newTierRig(t)
	r.start(tierPolicies, newStronger)
	answer := make(chan string, 1)
	go func() {
		text, _, _ := r.execute("strong", `return await callTool("box.slow", {})`)
		answer <- text
	}()
	<-r.reached
	r.stop()
	text := <-answer
	id := regexp.MustCompile(`ex_[a-z0-9]+`).FindString(text)
	if id == "" {
		t.Fatalf("answered %s", text)
	}
	close(r.release)
	r.start(anyTier, newStronger)
	res, err := model(t, r.d, func(string) {}).CallTool(t.Context(),
		&mcp.CallToolParams{Name: "resume", Arguments: map[string]any{"execution": id}})
	if err != nil || res.IsError {
		t.Fatalf("res = %+v, err = %v, want err == nil && !res.IsError", res, err)
	}
	x, err := r.d.Client().Execution(t.Context(), id)
	if err != nil || x.Tier != "process" || string(x.Value) != `"done"` {
		t.Errorf("recovered: %+v, %v", x, err)
	}
}

// TestTierThatNoDriverHas checks that a program doesn't run if no driver is strong enough for the
// policies, that the error says why for each, and that a check and the log warn beforehand.
func TestTierThatNoDriverHas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tier   string
		create func() (sandbox.Driver, error)
		want   []string
		warned bool
	}{
		"only-wasm": {"process", nil, []string{"a sandbox of tier process or stronger", "wasm is only of tier wasm"},
			true},
		"weaker": {"gvisor", newStronger, []string{
			"a sandbox of tier gvisor or stronger", "wasm is only of tier wasm; process is only of tier process"},
			true},
		"broken": {"process", func() (sandbox.Driver, error) { return nil, errors.New("user namespaces are disabled") },
			[]string{"wasm is only of tier wasm", "strong can't run here: user namespaces are disabled"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTierRig(t)
			r.start(`@id("all") @tier("`+c.tier+`") `+anyTier, c.create)
			text, _, failed := r.execute("", `return 1`)
			if !failed {
				t.Errorf("it ran: %s", text)
			}
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in: %s", part, text)
				}
			}
			x, err := r.d.Client().Run(t.Context(), api.RunRequest{Code: `return 1`})
			if err != nil || x.Error == nil || x.Error.Kind != string(tool.Unavailable) {
				t.Errorf("the API: %+v, %v", x, err)
			}
			report, err := r.d.Client().Policies().Check(t.Context(), nil)
			if err != nil {
				t.Fatalf("CheckPolicy: %v", err)
			}
			all := ""
			for _, w := range report.Warnings {
				all += w.Message
			}
			r.stop()
			warning := "all requires tier " + c.tier + ", and no sandbox here is of this tier"
			if strings.Contains(all, warning) != c.warned || strings.Contains(r.log.String(), warning) != c.warned {
				t.Errorf("check warns %q, and the log has %s", all, r.log)
			}
		})
	}
}

// TestConfiguredTier checks that sandbox.tier keeps programs out of weaker drivers.
func TestConfiguredTier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte("policy: open\nsandbox: { tier: gvisor }\n"),
		env, tool.GVisor)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	c := daemon.Config{Settings: s, DataDir: dir, Version: "test"}
	if _, err := daemon.New(t.Context(), c); err == nil ||
		!strings.Contains(err.Error(), "no sandbox here is of tier gvisor") {
		t.Errorf("without such a driver: %v", err)
	}
	c.AddDriver("gvisor", tool.GVisor, newStrongest)
	d, _ := runWith(t, c)
	x, err := d.Client().Run(t.Context(), api.RunRequest{Code: `return 1`})
	if err != nil || x.Tier != "gvisor" || string(x.Value) != "1" {
		t.Errorf(`x = %+v, err = %v, want err == nil && x.Tier == "gvisor" && string(x.Value) == "1"`, x, err)
	}
	if all := d.Sandboxes(t.Context()); len(all) != 3 ||
		!strings.Contains(all[0].Reason, "sandbox.tier in the configuration requires gvisor") {
		t.Errorf("all = %+v, want len(all) == 3 && strings.Contains(all[0].Reason, \"sandbox.tier in "+
			"the configuration requires gvisor\")", all)
	}
}
