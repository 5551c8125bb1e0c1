package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestMain allows the test binary to be another process that owns a data folder. With
// STORE_TEST_OWN it opens that folder, records a complete call and one that has only begun, prints
// a line, and waits to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_OWN"); dir != "" {
		own(dir)
		return
	}
	os.Exit(m.Run())
}

func own(dir string) {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Config{Path: dir, Owner: store.Owner{Config: "/etc/other.yaml"}})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	stored, err := s.Audit(ctx, key)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	signer, err := stored.Signer(ctx, "")
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	l := audit.New(audit.Config{Store: stored, Key: key, Signer: signer})
	for _, id := range []string{"one", "two"} {
		e, err := l.Begin(ctx, &tool.Call{ID: id, Path: "a.b"}, audit.Decision{Effect: "allow"})
		if err == nil && id == "one" {
			err = e.End(ctx, tool.Text(false, "fine"), nil)
		}
		if err != nil {
			fmt.Println("error:", err)
			return
		}
	}
	if os.Getenv("STORE_TEST_HAMMER") != "" {
		hammer(ctx, l)
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

// hammer records calls forever, many at once, and prints each checkpoint as one line.
func hammer(ctx context.Context, l *audit.Log) {
	yes := true
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				c := &tool.Call{Path: "a.b", By: &tool.Program{Execution: "ex"},
					Arguments: fmt.Appendf(nil, `{"n":%d}`, i)}
				if i%4 > 0 {
					c.Tool = &tool.Tool{Upstream: "a", Name: "b", Annotations: tool.Annotations{ReadOnly: &yes}}
				}
				e, err := l.Begin(ctx, c, audit.Decision{Effect: "allow"})
				if err == nil {
					err = e.End(ctx, tool.Text(false, "fine"), nil)
				}
				if err != nil {
					fmt.Println("error:", err)
					return
				}
			}
		})
	}
	for {
		p, err := l.Checkpoint(ctx)
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		fmt.Printf("%q\n", p.Text)
	}
}

// copied returns a copy of the folder of a closed store.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatalf("os.CopyFS: %v", err)
	}
	return to
}

// newDatabase returns the database of a new folder. It is created once, because running all
// migrations takes longer than most tests.
var newDatabase = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "biplane-store")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(context.Background(), store.Config{Path: dir})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, store.File))
})

func openDatabase(t testing.TB, dir string) *store.Store {
	t.Helper()
	if there, err := os.ReadDir(dir); err == nil && len(there) == 0 {
		data, err := newDatabase()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, store.File), data, 0o600)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// stored returns the record of a store, under a key that is the same in all tests.
func stored(t testing.TB, s *store.Store) *store.Audit {
	t.Helper()
	a, err := s.Audit(t.Context(), testKey(t))
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	return a
}

func testKey(t testing.TB) *secret.Key {
	t.Helper()
	k, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	return k
}

// auditLog returns the log in a store.
func auditLog(t testing.TB, s *store.Store) *audit.Log {
	t.Helper()
	a := stored(t, s)
	signer, err := a.Signer(t.Context(), "")
	if err != nil {
		t.Fatalf("Signer: %v", err)
	}
	return audit.New(audit.Config{Store: a, Key: testKey(t), Signer: signer})
}

// A closer is a record that closes its store.
type closer struct {
	*store.Audit
	s *store.Store
}

func (c closer) Close() error { return c.s.Close() }

func TestAudit(t *testing.T) {
	audittest.Run(t, func(t *testing.T) audittest.Store {
		s := openDatabase(t, filepath.Join(t.TempDir(), "a #folder?with%20odd=name"))
		return closer{stored(t, s), s}
	})
}

func TestSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_OWN="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("StdinPipe: %v", err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf(`line = %v, err = %v, want line == "ready\n"`, line, err)
	}

	_, err = store.Open(t.Context(), store.Config{Path: dir})
	var te *tool.Error
	var owned *store.OwnedError
	if !errors.As(err, &te) || te.Kind != tool.Conflict || !errors.As(err, &owned) ||
		owned.Owner.PID != cmd.Process.Pid || owned.Owner.Config != "/etc/other.yaml" {
		t.Errorf("second owner: %v", err)
	}
	for _, part := range []string{dir, fmt.Sprint(cmd.Process.Pid), "/etc/other.yaml", "--data-dir"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	cmd.Wait()
	s := openDatabase(t, dir)
	got, err := auditLog(t, s).Records(t.Context(), audit.Query{})
	if err != nil || len(got) != 2 {
		t.Fatalf("got = %v, err = %v, want err == nil && len(got) == 2", got, err)
	}
	if got[0].Subject.Call != "two" || got[0].End.Outcome != audit.Unfinished || got[1].Subject.Call != "one" ||
		got[1].End.Outcome != audit.OK {
		t.Errorf("records after kill -9: %+v", got)
	}
}

// A process that is killed while it records leaves a log that verifies, and has everything that its
// last checkpoint signed.
func TestKilledWhileRecording(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STORE_TEST_OWN="+dir, "STORE_TEST_HAMMER=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatalf("StdoutPipe: %v", err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("Start: %v", err)
		}
		lines := bufio.NewReader(out)
		text := ""
		for range 2 + 5*round {
			line, err := lines.ReadString('\n')
			if err == nil {
				text, err = strconv.Unquote(strings.TrimSpace(line))
			}
			if err != nil {
				cmd.Process.Kill()
				t.Fatalf("line = %v, err = %v, want nil", line, err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatalf("Kill: %v", err)
		}
		cmd.Wait()
		s := openDatabase(t, dir)
		l := auditLog(t, s)
		r, err := l.Verify(t.Context(), text)
		if err != nil || !r.OK() || !r.Outside[0].OK || r.Records == 0 || l.Inspect(t.Context()) != nil {
			t.Fatalf("killed in round %d: %+v, %v, %v", round, r, err, l.Broken())
		}
		t.Logf("%d leaves, %d of them signed, %d calls without an end", r.Size, r.Covered, r.Unfinished)
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := openDatabase(t, dir)
	auditLog(t, s).Begin(t.Context(), &tool.Call{Path: "a.b"}, audit.Decision{Effect: "allow"})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("entries = %v, err = %v, want err == nil && len(entries) >= 3", entries, err)
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v %v", e.Name(), fi.Mode(), err)
		}
	}
	if fi, _ := os.Stat(dir); fi.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", fi.Mode())
	}
}

func TestFolderRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	for _, path := range []string{"", open, file} {
		if s, err := store.Open(t.Context(), store.Config{Path: path}); err == nil {
			s.Close()
			t.Errorf("opened %q", path)
		}
	}
}

func TestAppendOnly(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	e, err := auditLog(t, s).Begin(t.Context(), &tool.Call{Path: "a.b"}, audit.Decision{Effect: "allow"})
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if err := e.End(t.Context(), tool.Text(false, "x"), nil); err != nil {
		t.Fatalf("End: %v", err)
	}
	if _, err := auditLog(t, s).Checkpoint(t.Context()); err != nil {
		t.Fatalf("Checkpoint: %v", err)
	}
	for _, q := range []string{
		"UPDATE audit_leaf SET leaf = '{}'", "DELETE FROM audit_leaf",
		"INSERT OR REPLACE INTO audit_leaf SELECT * FROM audit_leaf",
		"INSERT INTO audit_leaf VALUES (7, x'', '{}', NULL)",
		"INSERT INTO audit_leaf VALUES (-1, x'', '{}', NULL)",
		"UPDATE audit_checkpoint SET text = ''", "DELETE FROM audit_checkpoint",
		"INSERT OR REPLACE INTO audit_checkpoint SELECT * FROM audit_checkpoint",
	} {
		if err := s.Exec(t.Context(), q); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf(`q = %s, err = %v, want err != nil && strings.Contains(err.Error(), "append-only")`, q, err)
		}
	}
}

func TestFull(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	if err := s.Exec(t.Context(), "PRAGMA max_page_count = 20"); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	args := []byte(`"` + strings.Repeat("x", 15000) + `"`)
	begun := int64(0)
	var err error
	for ; begun < 500; begun++ {
		if _, err = l.Begin(t.Context(), &tool.Call{Path: "a.b", Arguments: args},
			audit.Decision{Effect: "allow"}); err != nil {
			break
		}
		_ = s.Settle(t.Context()) // everything in the write-ahead file is written to the record
	}
	var te *tool.Error
	if !errors.As(err, &te) || te.Kind != tool.Unavailable || !strings.Contains(te.Msg, "full") {
		t.Fatalf("a full store: %v", err)
	}
	if err := s.Exec(t.Context(), "PRAGMA max_page_count = 100000"); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	if _, err := l.Begin(t.Context(), &tool.Call{Path: "a.b"}, audit.Decision{Effect: "allow"}); err != nil {
		t.Fatalf("after space came back: %v", err)
	}
	if r := sound(t, l); r.Records != begun+1 {
		t.Errorf("%d records of %d calls", r.Records, begun+1)
	}
}

func TestCloseWhileWriting(t *testing.T) {
	s := openDatabase(t, t.TempDir())
	l := auditLog(t, s)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for {
				e, err := l.Begin(context.Background(), &tool.Call{Path: "a.b"}, audit.Decision{Effect: "allow"})
				if err != nil {
					return
				}
				e.End(context.Background(), tool.Text(false, "x"), nil)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	s.Close()
}

func TestNewerSchema(t *testing.T) {
	dir := t.TempDir()
	s := openDatabase(t, dir)
	if err := s.Exec(t.Context(),
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatalf("Exec: %v", err)
	}
	s.Close()
	_, err := store.Open(t.Context(), store.Config{Path: dir})
	if err == nil || !strings.Contains(err.Error(), "newer biplane") {
		t.Fatalf(`err = %v, want err != nil && strings.Contains(err.Error(), "newer biplane")`, err)
	}
}

func TestNoDatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "biplane.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("something else\n", 1000)), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	_, err := store.Open(t.Context(), store.Config{Path: dir})
	if err == nil || !strings.Contains(err.Error(),
		path+" is damaged, or is not a database: move its whole folder away") {
		t.Fatalf("err = %v", err)
	}
}

// BenchmarkAudit measures the cost of the record for a program that makes 100 calls at once: the
// time until all have begun and ended.
func BenchmarkAudit(b *testing.B) {
	yes := true
	for _, kind := range []struct {
		name string
		tool *tool.Tool
	}{
		{"write", &tool.Tool{Upstream: "a", Name: "b"}},
		{"read", &tool.Tool{Upstream: "a", Name: "b", Annotations: tool.Annotations{ReadOnly: &yes}}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := openDatabase(b, b.TempDir())
			l := auditLog(b, s)
			res := tool.Text(false, strings.Repeat("x", 2000))
			for b.Loop() {
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						e, err := l.Begin(b.Context(),
							&tool.Call{Path: "a.b", Tool: kind.tool, Arguments: []byte(`{"q":"some arguments"}`)},
							audit.Decision{Effect: "allow"})
						if err != nil {
							b.Errorf("Begin: %v", err)
							return
						}
						if err := e.End(b.Context(), res, nil); err != nil {
							b.Errorf("End: %v", err)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/100calls")
		})
	}
}

// BenchmarkAhead measures what the write-ahead file is worth: one write call after the other, whose
// records wait for the file, and for the database.
func BenchmarkAhead(b *testing.B) {
	write := &tool.Tool{Upstream: "a", Name: "b"}
	for _, name := range []string{"file", "database"} {
		b.Run(name, func(b *testing.B) {
			s := openDatabase(b, b.TempDir())
			l := auditLog(b, s)
			res := tool.Text(false, strings.Repeat("x", 2000))
			for b.Loop() {
				if name == "database" {
					s.DisableAhead()
				}
				call := &tool.Call{Path: "a.b", Tool: write, Arguments: []byte(`{"q":"some arguments"}`)}
				e, err := l.Begin(b.Context(), call, audit.Decision{Effect: "allow"})
				if err != nil {
					b.Fatalf("Begin: %v", err)
				}
				if name == "database" {
					s.DisableAhead()
				}
				if err := e.End(b.Context(), res, nil); err != nil {
					b.Fatalf("End: %v", err)
				}
			}
		})
	}
}
