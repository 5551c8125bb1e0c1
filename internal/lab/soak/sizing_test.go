package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sizingProgram makes ten calls.
const sizingProgram = `const all = [];
for (let i = 0; i < 10; i++) all.push(await bench.read({ text: "call " + i }));
return all.length;`

// TestSizing prints the figures of docs/operations.md, for BIPLANE_SIZING calls in executions of
// ten. It runs the program BIPLANE_BIN as an operator does. Only the data is not made by programs,
// which would take hours: each execution is a copy of a real one with a new id, and its calls are
// recorded as the gateway records them.
func TestSizing(t *testing.T) {
	calls, _ := strconv.Atoi(os.Getenv("BIPLANE_SIZING"))
	if calls < 10 {
		t.Skip("BIPLANE_SIZING is not set to a number of calls: see make sizing")
	}
	s := &sizing{t: t, bin: os.Getenv("BIPLANE_BIN"), dir: filepath.Join(t.TempDir(), "data")}
	s.config = filepath.Join(filepath.Dir(s.dir), "biplane.yaml")
	text := "auth: { keys: true }\nmcpServers:\n  bench: { command: '" + s.bin + "', args: [demo, serve, bench, x] }\n"
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	s.run("run", "-c", sizingProgram)
	credential := strings.TrimSpace(s.run("keys", "create", "admin", "--role", "admin", "--scope", "api"))
	s.fill(calls)
	s.report("calls", calls)
	s.report("data folder", fmt.Sprintf("%.0f MB", float64(s.bytes(s.dir))/1e6))
	s.time("audit verify", func() { s.run("audit", "verify") })
	s.serve(credential)
	passphrase := filepath.Join(filepath.Dir(s.dir), "secret.txt")
	if err := os.WriteFile(passphrase, []byte("a passphrase of several words\n"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	file := filepath.Join(filepath.Dir(s.dir), "monday.backup")
	s.time("backup", func() { s.run("backup", file, "--passphrase-file", passphrase) })
	s.report("backup's size", fmt.Sprintf("%.0f MB", float64(s.bytes(filepath.Dir(file))-s.bytes(s.dir))/1e6))
	s.dir = filepath.Join(filepath.Dir(s.dir), "restored")
	s.time("restore, with its verification", func() { s.run("restore", file, "--passphrase-file", passphrase) })
}

// A sizing measures one data folder.
type sizing struct {
	t                *testing.T
	bin, dir, config string
}

func (s *sizing) report(what string, value any) { s.t.Logf("%-34s %v", what, value) }

func (s *sizing) time(what string, do func()) {
	began := time.Now()
	do()
	s.report(what, time.Since(began).Round(time.Millisecond))
}

// command returns a command of Biplane for the data folder.
func (s *sizing) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, s.bin, append(args, "--config", s.config, "--data-dir", s.dir)...)
	c.Stderr = os.Stderr
	return c
}

func (s *sizing) run(args ...string) string {
	s.t.Helper()
	out, err := s.command(s.t.Context(), args...).Output()
	if err != nil {
		s.t.Fatalf("biplane %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// bytes returns the size of the files below a folder.
func (s *sizing) bytes(dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		n += fi.Size()
		return err
	})
	if err != nil {
		s.t.Fatalf("filepath.WalkDir: %v", err)
	}
	return n
}

// fill adds executions of ten calls to the data folder.
func (s *sizing) fill(calls int) {
	t := s.t
	db, err := store.Open(t.Context(), store.Config{Path: s.dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	key, err := secret.Open(filepath.Join(s.dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	stored, err := db.Audit(t.Context(), key)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	settings, err := config.Parse(s.config, nil, func(string) (string, bool) { return "", false }, tool.Tier(0))
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	log := audit.New(audit.Config{Store: stored, Key: key, Retention: settings.Audit.Retention})
	copies := db.Executions(key)
	found, err := copies.List(t.Context(), journal.Query{Limit: 1})
	if err != nil || len(found) != 1 {
		t.Fatalf("List: %d executions, %v; want one", len(found), err)
	}
	parts, err := copies.Parts(t.Context(), found[0].ID)
	if err != nil {
		t.Fatalf("Parts: %v", err)
	}
	errs := make(chan error, 64)
	next := make(chan int)
	var wg sync.WaitGroup
	for range cap(errs) {
		wg.Go(func() {
			for i := range next {
				if err := addExecution(t.Context(), log, copies, found[0], parts, i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range calls / 10 {
		select {
		case next <- i:
		case err := <-errs:
			t.Fatalf("fill: %v", err)
		}
	}
	close(next)
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// addExecution adds a copy of an execution, and records its calls.
func addExecution(ctx context.Context, log *audit.Log, to *store.Executions, r journal.Record, parts [][]byte,
	i int) error {
	r.ID = fmt.Sprintf("ex_%020d", i)
	r.Principal = fmt.Sprintf("key:agent-%d", i%97)
	r.Started = time.Now()
	r.Ended = r.Started.Add(10 * time.Millisecond)
	var pending journal.Pending
	for n, p := range parts {
		w := &journal.Write{ID: r.ID, Seq: n + 1, Part: p}
		if n == 0 {
			w.Record, w.New = &r, true
		}
		pending = to.Write(w)
	}
	yes := true
	for n := range 10 {
		k := (i*10 + n) % 50
		e, err := log.Begin(ctx, &tool.Call{
			ID: fmt.Sprintf("call_%d", n), By: &tool.Program{Execution: r.ID},
			Tool: &tool.Tool{Upstream: fmt.Sprintf("upstream-%d", k%5), Name: fmt.Sprintf("tool_%d", k),
				Annotations: tool.Annotations{ReadOnly: &yes}},
			Arguments: fmt.Appendf(nil, `{"text":"call %d of %d"}`, n, i),
			Principal: tool.Principal{ID: r.Principal, Client: "agent/1.2.3"},
		}, audit.Decision{Effect: "allow", Policy: "open", Reason: "the open policy allows every call"})
		if err != nil {
			return err
		}
		if err := e.End(ctx, tool.Text(false, fmt.Sprintf("call %d of %d", n, i)), nil); err != nil {
			return err
		}
	}
	return pending.Wait()
}

// serve measures a process that serves the data folder: its start, lists and pages.
func (s *sizing) serve(credential string) {
	t := s.t
	ctx, stop := context.WithCancel(t.Context())
	c := s.command(ctx, "serve", "--listen", "127.0.0.1:0")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatalf("start biplane serve: %v", err)
	}
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("biplane serve printed no address: %v", err)
	}
	base := strings.TrimSpace(string(line[:n]))
	s.report("start of biplane serve", time.Since(began).Round(time.Millisecond))
	client := &api.Client{Base: base, HTTP: &http.Client{Transport: bearer(credential)}}
	s.measureLists(client)
	s.measurePages(base, credential)
	stop()
	_, _ = io.Copy(io.Discard, out)
	if err := c.Wait(); err != nil && ctx.Err() == nil {
		t.Fatalf("biplane serve: %v", err)
	}
}

// bearer adds a credential to requests.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// median reports the median and the worst time of some rounds, after one.
func (s *sizing) median(what string, do func() error) {
	var took []time.Duration
	for i := range 12 {
		began := time.Now()
		if err := do(); err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if i > 0 {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	const round = 100 * time.Microsecond
	s.report(what, fmt.Sprintf("%v, at most %v", took[len(took)/2].Round(round), took[len(took)-1].Round(round)))
}

func (s *sizing) measureLists(client *api.Client) {
	ctx := s.t.Context()
	for _, q := range []struct {
		name string
		api.AuditQuery
	}{
		{"none", api.AuditQuery{}},
		{"tool", api.AuditQuery{Tool: "upstream-2.tool_17"}},
		{"upstream", api.AuditQuery{Upstream: "upstream-2"}},
		{"principal", api.AuditQuery{Principal: "key:agent-42"}},
		{"execution", api.AuditQuery{Execution: fmt.Sprintf("ex_%020d", 7)}},
		{"kind", api.AuditQuery{Kind: "key"}},
		{"outcome", api.AuditQuery{Outcome: "failed"}},
		{"effect", api.AuditQuery{Effect: "deny"}},
		{"since", api.AuditQuery{Since: time.Now().Add(-time.Minute)}},
		{"until", api.AuditQuery{Until: time.Now().Add(-24 * time.Hour)}},
		{"tool and principal", api.AuditQuery{Tool: "upstream-2.tool_17", Principal: "key:agent-42"}},
		{"an absent tool", api.AuditQuery{Tool: "upstream-2.none"}},
	} {
		s.median("records, filter "+q.name, func() error {
			_, err := client.Audit().ListRecords(ctx, q.AuditQuery)
			return err
		})
	}
	for _, q := range []struct {
		name string
		api.ExecutionFilter
	}{
		{"none", api.ExecutionFilter{}},
		{"state", api.ExecutionFilter{States: []string{api.StateFailed}}},
		{"session", api.ExecutionFilter{Session: "none"}},
		{"since", api.ExecutionFilter{Since: time.Now().Add(-time.Minute)}},
	} {
		s.median("executions, filter "+q.name, func() error {
			_, err := client.Executions(ctx, q.ExecutionFilter)
			return err
		})
	}
}

// measurePages loads pages of the console as a signed-in admin.
func (s *sizing) measurePages(base, credential string) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatalf("cookiejar.New: %v", err)
	}
	browser := &http.Client{Jar: jar}
	resp, err := browser.PostForm(base+"/sign-in", url.Values{"key": {credential}, "next": {"/"}})
	if err != nil {
		s.t.Fatalf("sign in: %v", err)
	}
	resp.Body.Close()
	for _, path := range []string{"/", "/executions", "/audit", "/usage"} {
		s.median("page "+path, func() error {
			resp, err := browser.Get(base + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err == nil && (resp.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`name="key"`))) {
				err = fmt.Errorf("%s: %s", path, resp.Status)
			}
			return err
		})
	}
}
