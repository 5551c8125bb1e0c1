//go:build unix

package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// raw starts the scripted server over stdio.
func raw(t testing.TB, mode string) *upstreamtest.Running {
	t.Helper()
	cfg := self(t, "raw:"+mode)
	cfg.MaxMessage = 1 << 20
	cfg.Timeout = 20 * time.Second
	cfg.Timeouts = map[string]time.Duration{"never": 50 * time.Millisecond}
	return start(t, mcp.Hasten(cfg))
}

// kindOf returns the kind of err if it is a *tool.Error.
func kindOf(err error) tool.Kind {
	var e *tool.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Kind
}

// working checks that a call succeeds.
func working(t testing.TB, r *upstreamtest.Running) {
	t.Helper()
	const args = `{"content":[],"n":1}`
	res, err := r.Do(t.Context(), "echo", args)
	if err != nil || string(res.Raw) != args {
		t.Fatalf("it does not work any more: %v, %+v", err, r.Snapshot().Health)
	}
}

// TestHostileAnswers checks that an invalid answer affects only its call.
func TestHostileAnswers(t *testing.T) {
	r := raw(t, "")
	r.Ready(t)
	for _, c := range []struct {
		tool string
		kind tool.Kind // "" for an answer
		msg  string
	}{
		{"garbage", "", ""},
		{"wrong ids", "", ""},
		{"twice", "", ""},
		{"batch", "", ""},
		{"crlf", "", ""},
		{"slowly", "", ""},
		{"flood", "", ""},
		{"no version", "", ""},
		{"huge", tool.Limit, "answered with more than 1 MiB: ask for less"},
		{"huge, id last", tool.Limit, "answered with more than 1 MiB"},
		{"deep", tool.Unavailable, "nests deeper than 512 levels"},
		{"never", tool.Timeout, "no answer within 50ms; whether it took effect is unknown"},
		{"odd error", tool.Unavailable, "it is broken"},
		{"odder error", tool.Unavailable, "no such file"},
		{"no result", tool.Unavailable, "neither a result nor an error"},
		{"result is a list", tool.Unavailable, "invalid tool result"},
		{"result is null", tool.Unavailable, "invalid tool result"},
		{"result is text", tool.Unavailable, "invalid tool result"},
		{"content is text", tool.Unavailable, "invalid tool result"},
		{"no-such", tool.NotFound, "Unknown tool: no-such"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			res, err := r.Do(t.Context(), c.tool, `{}`)
			switch {
			case c.kind == "" && (err != nil || !strings.Contains(string(res.Raw), "fine")):
				t.Errorf("got %v %v", res, err)
			case c.kind != "" && (kindOf(err) != c.kind || !strings.Contains(err.Error(), c.msg)):
				t.Errorf("got %v (%s), want %s with %q", err, kindOf(err), c.kind, c.msg)
			}
			working(t, r)
			if s := r.Snapshot(); s.Health.State != tool.Ready {
				t.Errorf("now it is %+v", s.Health)
			}
		})
	}
}

// TestHostileLogs checks which lines are kept from a server that prints to its standard output.
func TestHostileLogs(t *testing.T) {
	r := raw(t, "")
	r.Ready(t)
	if _, err := r.Do(t.Context(), "garbage", `{}`); err != nil {
		t.Fatalf("Do: %v", err)
	}
	lines := r.Snapshot().Stderr
	for _, want := range []string{"stdout: Listening on port 3000", "stdout: [info] started", "stdout: red"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not among %q", want, lines)
		}
	}
	for _, l := range lines {
		if strings.ContainsAny(l, "\x1b\x00\r\n") {
			t.Errorf("control characters in %q", l)
		}
	}
}

// TestDeath checks that a server that ends during a call fails that call with the reason, and is
// restarted.
func TestDeath(t *testing.T) {
	for _, c := range []struct{ tool, want string }{
		{"die", `exited with status 3; the last line on its standard error: "fatal: out of luck"; whether peer.die ` +
			`took effect is unknown`},
		{"half", "exited with status 0"},
		{"close output", "closed its standard output"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			r := raw(t, "")
			r.Ready(t)
			_, err := r.Do(t.Context(), c.tool, `{}`)
			if kindOf(err) != tool.Unavailable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			working(t, r) // the call waits for the new process
			r.Ready(t)
		})
	}
}

// TestDeaf checks that a server that stops reading is detected and restarted.
func TestDeaf(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Timeout, cfg.Timeouts = 100*time.Millisecond, map[string]time.Duration{"go deaf": 20 * time.Second}
	r := start(t, mcp.Hasten(cfg))
	r.Ready(t)
	if _, err := r.Do(t.Context(), "go deaf", `{}`); err != nil {
		t.Fatalf("Do: %v", err)
	}
	big := `{"content":[],"x":"` + strings.Repeat("x", 1<<20) + `"}` // more than a pipe holds
	if _, err := r.Do(t.Context(), "echo", big); err == nil {
		t.Fatal("a server that reads nothing answered")
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		_, err := r.Do(t.Context(), "echo", `{"content":[]}`)
		if err == nil {
			return // a new process answered
		}
		if time.Now().After(deadline) {
			t.Fatalf("err = %v, want !time.Now().After(deadline)", err)
		}
	}
}

// TestBackoff checks that a server that can't start is retried ever less often, and that calls fail
// at once with the reason.
func TestBackoff(t *testing.T) {
	r := raw(t, "broken")
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if want := `exited with status 3; the last line on its standard error: "Error: no configuration"`; !strings.Contains(s.Health.Reason, want) {
		t.Errorf("reason %q, want %q", s.Health.Reason, want)
	}
	if len(s.Tools) != 0 || s.Health.Stale {
		t.Errorf("tools %v, %+v", s.Tools, s.Health)
	}
	_, err := r.Do(t.Context(), "echo", `{}`)
	if kindOf(err) != tool.Unavailable || !strings.Contains(err.Error(), `upstream "peer" is down: `) {
		t.Errorf("got %v", err)
	}
}

func TestMissingCommand(t *testing.T) {
	r := start(t, mcp.Config{Command: "no-such-command-anywhere", Environ: []string{"PATH=/usr/bin"}})
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if want := `can't be started: command "no-such-command-anywhere" is not in PATH: install it, or give its full path`; s.Health.Reason != want {
		t.Errorf("reason %q", s.Health.Reason)
	}
}

// TestRevisions checks the negotiated revision for various servers.
func TestRevisions(t *testing.T) {
	for mode, want := range map[string]string{
		"":          "2025-11-25",
		"modern":    "2026-07-28",
		"silent":    "2025-11-25",
		"strict":    "2025-11-25",
		"old":       "2024-11-05",
		"older":     "2025-03-26",
		"slowstart": "2025-11-25",
	} {
		t.Run("mode "+mode, func(t *testing.T) {
			r := raw(t, mode)
			if s := r.Ready(t); s.Protocol != want || s.Server != "raw 1" {
				t.Errorf("protocol %q, want %q; server %q", s.Protocol, want, s.Server)
			}
			working(t, r)
		})
	}
}

func TestUnknownRevision(t *testing.T) {
	r := raw(t, "future")
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if !strings.Contains(s.Health.Reason, `speaks revision "2031-01-01" of MCP`) {
		t.Errorf("reason %q", s.Health.Reason)
	}
}

func TestMute(t *testing.T) {
	cfg := self(t, "raw:mute")
	cfg.ConnectTimeout = 300 * time.Millisecond
	r := start(t, cfg)
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if s.Health.Reason != "was not ready within 300ms" {
		t.Errorf("reason %q", s.Health.Reason)
	}
}

// TestProbeIsRemembered checks that a server that has to be started twice to detect its revision is
// started once afterwards.
func TestProbeIsRemembered(t *testing.T) {
	r := raw(t, "")
	r.Ready(t)
	_, _ = r.Do(t.Context(), "die", `{}`)
	working(t, r)
	if v := report(t, r); slices.Contains(v.Seen, "server/discover") {
		t.Errorf("it was asked again what it speaks: %v", v.Seen)
	}
}

// A reported is the scripted server's report on itself.
type reported struct {
	Seen, Cancelled, Env []string
	Pgid, Pid            int
}

func report(t testing.TB, r *upstreamtest.Running) (v reported) {
	t.Helper()
	res, err := r.Do(t.Context(), "report", `{}`)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	if err := json.Unmarshal(res.Raw, &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return v
}

// TestCancelOverStdio checks that the server receives a cancellation for a call that timed out.
func TestCancelOverStdio(t *testing.T) {
	for _, mode := range []string{"", "modern"} {
		r := raw(t, mode)
		r.Ready(t)
		if _, err := r.Do(t.Context(), "never", `{}`); kindOf(err) != tool.Timeout {
			t.Fatalf("err = %v, want kindOf(err) == tool.Timeout", err)
		}
		deadline := time.Now().Add(2 * time.Minute)
		for v := report(t, r); len(v.Cancelled) != 1; v = report(t, r) {
			if time.Now().After(deadline) {
				t.Fatalf("cancelled: %v", v.Cancelled)
			}
		}
		r.Close(t)
	}
}

// TestEnvironment checks which environment variables a server inherits.
func TestEnvironment(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Env["GIVEN"], cfg.Env["HOME"] = "yes", "/elsewhere"
	cfg.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/me", "LC_ALL=C", "XDG_DATA_HOME=/d",
		"AWS_SECRET_ACCESS_KEY=s", "GITHUB_TOKEN=t", "LANG=() { :; }"}
	r := start(t, cfg)
	r.Ready(t)
	v := report(t, r)
	want := []string{peerMode + "=raw:", "GORACE=" + quickExit, "GIVEN=yes", "HOME=/elsewhere", "LC_ALL=C",
		"PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=/d"}
	slices.Sort(want)
	if slices.Sort(v.Env); !slices.Equal(v.Env, want) {
		t.Errorf("environment %q, want %q", v.Env, want)
	}
	if v.Pgid != v.Pid {
		t.Errorf("process %d is in group %d, not in one of its own", v.Pid, v.Pgid)
	}
}

// alive reports whether a process is running.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ") && syscall.Kill(pid, 0) == nil
}

// TestOrphans checks that the processes that a server starts end with it.
func TestOrphans(t *testing.T) {
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("no /proc here")
	}
	for _, how := range []string{"close", "die"} {
		t.Run(how, func(t *testing.T) {
			r := raw(t, "")
			r.Ready(t)
			res, err := r.Do(t.Context(), "orphan", `{}`)
			if err != nil {
				t.Fatalf("Do: %v", err)
			}
			var v struct{ Pid int }
			if err := json.Unmarshal(res.Raw, &v); err != nil || !alive(v.Pid) {
				t.Fatalf("no child: %s", res.Raw)
			}
			if how == "close" {
				r.Close(t)
			} else {
				_, _ = r.Do(t.Context(), "die", `{}`)
			}
			for deadline := time.Now().Add(2 * time.Minute); alive(v.Pid); <-time.After(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the child lives")
				}
			}
		})
	}
}

// TestStubborn checks that a server that ignores all requests to exit is killed.
func TestStubborn(t *testing.T) {
	r := raw(t, "stubborn")
	r.Ready(t)
	working(t, r)
	r.Close(t) // Start checks that the process is gone
}

func TestServerAsks(t *testing.T) {
	r := raw(t, "")
	r.Ready(t)
	res, err := r.Do(t.Context(), "asks", `{}`)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	var v struct{ Answers []string }
	if err := json.Unmarshal(res.Raw, &v); err != nil || len(v.Answers) != 5 {
		t.Fatalf("err = %v, res.Raw = %s, want err == nil && len(v.Answers) == 5", err, res.Raw)
	}
	if v.Answers[0] != "{}" {
		t.Errorf("ping was answered %s", v.Answers[0])
	}
	for _, a := range v.Answers[1:] {
		if !strings.Contains(a, `"code":-32601`) {
			t.Errorf("answered %s", a)
		}
	}
}

// TestDefinitions checks that an invalid definition affects only its tool.
func TestDefinitions(t *testing.T) {
	cfg := self(t, "raw:definitions")
	r := start(t, cfg)
	s := r.Ready(t)
	var names []string
	for _, x := range s.Tools {
		names = append(names, x.Name)
	}
	if want := []string{"good", "no schema", "null schema", "untyped", "types", "wörter/mit.punkt",
		"shady"}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	good := s.Tools[0]
	yes := true
	if good.Title != "Good" || good.Description != "d" ||
		!strings.Contains(string(good.InputSchema), "9007199254740993") || good.OutputSchema == nil ||
		good.Annotations.ReadOnly == nil || *good.Annotations.ReadOnly != yes || good.Annotations.Destructive != nil ||
		!strings.Contains(string(good.Raw), `"x":1.0`) {
		t.Errorf("good is %+v", good)
	}
	if string(s.Tools[1].InputSchema) != `{"type":"object"}` || string(s.Tools[2].InputSchema) != `{"type":"object"}` ||
		s.Tools[4].OutputSchema != nil {
		t.Errorf("schemas %s %s %s", s.Tools[1].InputSchema, s.Tools[2].InputSchema, s.Tools[4].OutputSchema)
	}
	// Invisible text is removed from every field.
	shady := s.Tools[6]
	if want := `{"name":"shady","title":"ab","description":"cd","annotations":{"title":"ef","readOnlyHint":true},` +
		`"inputSchema":{"type":"object","properties":{"a":{"description":"gh","enum":["one"]}}}}`; string(
		shady.Raw) != want {
		t.Errorf("shady is %s", shady.Raw)
	}
	if shady.Title != "ab" || shady.Description != "cd" ||
		string(shady.InputSchema) != `{"type":"object","properties":{"a":{"description":"gh","enum":["one"]}}}` {
		t.Errorf("shady is %+v", shady)
	}
	for i, want := range []string{"same name", "no name", "no name", "control character", "control character",
		"longer than 256", "not an object", `type "array"`, "not an object",
		"deeper than 128", "larger than 1 MiB", "task", "not an object", "not an object", "not an object",
		"not an object", "hidden character U+202E"} {
		if i >= len(s.Broken) || !strings.Contains(s.Broken[i].Reason, want) {
			t.Fatalf("broken %d: want %q in %+v", i, want, s.Broken)
		}
	}
	if len(s.Broken) != 17 || s.Broken[7].Tool != "array type" || s.Broken[12].Tool != "#19" {
		t.Errorf("broken %+v", s.Broken)
	}
}

// TestEndlessLists checks that an endless list is cut short, and still served.
func TestEndlessLists(t *testing.T) {
	for mode, want := range map[string]string{"endless": "more than 500 pages", "samecursor": "same cursor twice"} {
		t.Run(mode, func(t *testing.T) {
			r := raw(t, mode)
			s := r.Wait(t, "degraded", func(s upstream.Snapshot) bool { return s.Health.State == tool.Degraded })
			if !strings.Contains(s.Health.Reason, want) || len(s.Tools) == 0 {
				t.Errorf("%+v, %d tools", s.Health, len(s.Tools))
			}
			working(t, r)
		})
	}
}

// TestHostileOffers checks that lists of resources, templates and prompts are bounded, and that
// invalid ones affect neither each other nor the tools.
func TestHostileOffers(t *testing.T) {
	r := raw(t, "offers")
	s := r.Wait(t, "ready", func(s upstream.Snapshot) bool { return s.Health.State == tool.Ready })
	if o := s.Offers; len(o.Resources) != 1000 || len(o.Templates) != 0 || len(o.Tools) != 5 {
		t.Errorf("%d resources, %d templates, %d tools", len(o.Resources), len(o.Templates), len(o.Tools))
	}
	if p := s.Offers.Prompts; len(p) != 1 || p[0].Key != "good" || strings.Contains(string(p[0].Raw), `202e`) {
		t.Errorf("prompts %s", p)
	}
	working(t, r)
}

// TestUnlistable checks that a server whose list is invalid can still be called.
func TestUnlistable(t *testing.T) {
	r := raw(t, "unlistable")
	s := r.Wait(t, "degraded", func(s upstream.Snapshot) bool { return s.Health.State == tool.Degraded })
	if !strings.Contains(s.Health.Reason, "its tools can't be listed: sent an invalid list of tools") ||
		s.Health.Stale {
		t.Errorf("s.Health = %+v", s.Health)
	}
	working(t, r)
}

// TestQuestions checks what a server of 2025-11-25 may ask the client of a call, and that questions
// are refused if it can't be asked.
func TestQuestions(t *testing.T) {
	cfg := self(t, "raw:")
	cfg.Questions = true
	r := start(t, mcp.Hasten(cfg))
	r.Ready(t)
	call := func(o tool.Observer) string {
		t.Helper()
		res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "asks"}, Observer: o})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		return string(res.Raw)
	}
	o := &answering{capabilities: `{"elicitation":{},"roots":{}}`}
	if got := call(o); strings.Count(got, "decline") != 1 || strings.Count(got, "-32601") != 3 || o.rounds != 1 {
		t.Errorf("got %s after %d rounds", got, o.rounds)
	}
	o = &answering{capabilities: `{"sampling":{}}`}
	if got := call(o); strings.Count(got, "decline") != 1 || strings.Count(got, "cancel") != 1 || o.rounds != 1 {
		t.Errorf("got %s after %d rounds", got, o.rounds)
	}
	if got := call(nil); strings.Count(got, "cancel") != 1 || strings.Count(got, "-32601") != 3 {
		t.Errorf("got %s", got)
	}
}

func TestInputRequired(t *testing.T) {
	r := raw(t, "modern")
	r.Ready(t)
	_, err := r.Do(t.Context(), "input", `{}`)
	if kindOf(err) != tool.Conflict || !strings.Contains(err.Error(), "elicitation/create: Which account?") {
		t.Errorf("got %v", err)
	}
	o := &answering{capabilities: `{"elicitation":{}}`}
	res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: "input"}, Observer: o})
	want := `{"content":[],"state":null,"answers":{"a":{"action":"decline"}},"capabilities":{"elicitation":{}}}`
	if err != nil || string(res.Raw) != want {
		t.Errorf("res = %v, err = %v, want %s", res, err, want)
	}
	if got := string(o.asked["a"].Params); got != `{"message":"Which account?"}` {
		t.Errorf("o.asked = %s", got)
	}
	for name, able := range map[string]string{"input": `{"sampling":{}}`, "bad link": `{"elicitation":{"url":{}}}`,
		"endless input": `{"elicitation":{}}`} {
		o := &answering{capabilities: able}
		if _, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Name: name}, Observer: o}); err == nil {
			t.Errorf("%s: err == nil, want an error", name)
		}
		if want := map[string]int{"endless input": tool.MaxRounds}[name]; o.rounds != want {
			t.Errorf("%s: asked %d times, want %d", name, o.rounds, want)
		}
	}
	res, err = r.Do(t.Context(), "again", `{"n":1.0}`)
	if want := `{"resultType":"complete","content":[],"state":"s \u00e9 1","arguments":{"n":1.0}}`; err != nil ||
		string(res.Raw) != want {
		t.Errorf("got %v %v, want %s", res, err, want)
	}
	if _, err := r.Do(t.Context(), "again and again", `{}`); kindOf(err) != tool.Unavailable ||
		!strings.Contains(err.Error(), "too often") {
		t.Errorf("got %v", err)
	}
	if _, err := r.Do(t.Context(), "task", `{}`); kindOf(err) != tool.Unavailable ||
		!strings.Contains(err.Error(), `result of unknown type "task"`) {
		t.Errorf("got %v", err)
	}
}
