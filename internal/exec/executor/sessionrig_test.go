package executor_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A stage is an executor with a real store, and puppets or another driver's guests.
type stage struct {
	t      testing.TB
	dir    string
	key    *secret.Key
	db     *store.Store
	x      *executor.Executor
	p      *puppet
	tweak  func(*executor.Config)
	slow   chan struct{}   // tool box.slow answers when it can receive from this
	gate   chan struct{}   // the same for box.gate
	inside atomic.Int64    // calls under way
	clock  wallclock.Clock // zero: real time
	grant  tool.Grant
}

func newStage(t testing.TB, tweak func(*executor.Config)) *stage {
	t.Helper()
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s := &stage{t: t, dir: t.TempDir(), key: key, p: &puppet{engine: "1"}, tweak: tweak, slow: make(chan struct{}),
		gate: make(chan struct{})}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start opens the store and creates the executor.
func (s *stage) start() {
	s.t.Helper()
	var err error
	if s.db, err = store.Open(context.Background(), store.Config{Path: s.dir}); err != nil {
		s.t.Fatalf("store.Open: %v", err)
	}
	sessions, err := s.db.Sessions(context.Background(), s.key)
	if err != nil {
		s.t.Fatalf("Sessions: %v", err)
	}
	door := tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		s.inside.Add(1)
		defer s.inside.Add(-1)
		if wait := map[string]chan struct{}{"box.slow": s.slow, "box.gate": s.gate}[c.Path]; wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return tool.Text(false, "answer of "+c.Path), nil
	})
	cfg := executor.Config{
		Drivers: sandbox.OnlyDriver(s.p), Door: door, Programs: verbatim{}, Store: sessions,
		Journal: s.db.Executions(s.key), Key: s.key, Clock: &s.clock}
	cfg.Limits.Sessions.SuspendAfter = -1
	if s.tweak != nil {
		s.tweak(&cfg)
	}
	if s.x, err = executor.New(cfg); err != nil {
		s.t.Fatalf("executor.New: %v", err)
	}
}

// stop closes both, and checks for leaks.
func (s *stage) stop() {
	s.t.Helper()
	if s.x == nil {
		return
	}
	if err := s.x.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	s.x = nil
	if err := s.db.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	if n := s.p.open.Load(); n != 0 {
		s.t.Errorf("%d sandboxes are still open", n)
	}
}

func (s *stage) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

var bob = tool.Principal{ID: "local:bob"}

// An outcome is an answer of execute.
type outcome struct {
	value  string // of a successful program
	text   string // all blocks
	failed bool
	from   string // where the session came from
	res    *tool.Result
	err    error
}

func (s *stage) try(ctx context.Context, p tool.Principal, session, code string, more ...string) outcome {
	args := map[string]any{"code": code}
	if session != "" {
		args["session"] = session
	}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	raw, err := tool.Marshal(args)
	if err != nil {
		s.t.Fatalf("tool.Marshal: %v", err)
	}
	res, err := s.x.Execute().Call(ctx,
		&tool.Call{Path: "biplane.execute", Arguments: raw, Principal: p, Grant: s.grant})
	if err != nil {
		return outcome{err: err, failed: true}
	}
	return read(s.t, res)
}

func read(t testing.TB, res *tool.Result) outcome {
	texts := textsOf(t, res)
	o := outcome{text: strings.Join(texts, "\n"), failed: res.IsError, res: res}
	if !o.failed {
		_ = json.Unmarshal([]byte(texts[0]), &o.value)
	}
	var v struct {
		Meta map[string]struct {
			Session struct{ Name, From string }
		} `json:"_meta"`
	}
	if err := json.Unmarshal(res.Raw, &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	o.from = v.Meta["biplane.dev/execution"].Session.From
	return o
}

// do runs a program that must succeed.
func (s *stage) do(session string, list ...op) outcome {
	s.t.Helper()
	o := s.try(s.t.Context(), ann, session, ops(list...))
	if o.failed {
		s.t.Fatalf("list = %v, o.err = %v, o.text = %s, want !o.failed", list, o.err, o.text)
	}
	return o
}

// bad runs a program that must fail.
func (s *stage) bad(session string, list ...op) outcome {
	s.t.Helper()
	o := s.try(s.t.Context(), ann, session, ops(list...))
	if !o.failed {
		s.t.Fatalf("%v did not fail: %s", list, o.text)
	}
	return o
}

func (s *stage) want(session, variable, value, from string) {
	s.t.Helper()
	o := s.do(session, op{Get: variable})
	if o.value != value || from != "" && o.from != from {
		s.t.Errorf("session %s: %s is %q from %s, want %q from %s", session, variable, o.value, o.from, value, from)
	}
}

func (s *stage) file(session string, f sandbox.File) (string, error) {
	v, err := s.x.Sessions().Do(s.t.Context(), ann, session, f)
	if err != nil || v == nil {
		return "", err
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return string(v), nil
	}
	return text, nil
}

func kindOf(err error) tool.Kind {
	if err == nil {
		return ""
	}
	return tool.AsError(err).Kind
}

// blobs counts the blobs of sessions in the store.
func blobs(t testing.TB, s *stage) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT count(*) FROM session_blob`).Scan(&n); err != nil {
		t.Fatalf("Scan: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "sessions"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("err = %v, want err == nil || os.IsNotExist(err)", err)
	}
	if len(entries) > n {
		t.Errorf("%d files for %d blobs", len(entries), n)
	}
	return n
}

// execSQL modifies the database of a stopped stage.
func (s *stage) execSQL(query string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "biplane.db"))
	if err != nil {
		s.t.Fatalf("sql.Open: %v", err)
	}
	defer db.Close()
	if r, err := db.Exec(query); err != nil {
		s.t.Fatalf("Exec: %v", err)
	} else if n, _ := r.RowsAffected(); n == 0 {
		s.t.Fatalf("%s changed nothing", query)
	}
}

// took returns how long restoring and storing the session took, in milliseconds.
func took(t testing.TB, o outcome) (back, stored float64) {
	var v struct {
		Meta map[string]struct {
			Session struct {
				MS     float64
				SaveMS float64 `json:"save_ms"`
			}
		} `json:"_meta"`
	}
	if err := json.Unmarshal(o.res.Raw, &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	s := v.Meta["biplane.dev/execution"].Session
	return s.MS, s.SaveMS
}
