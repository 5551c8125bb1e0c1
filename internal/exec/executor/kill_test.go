package executor_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestMain lets the test binary act as a process that runs programs in sessions of a data folder
// until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EXECUTOR_TEST_RUN"); dir != "" {
		if err := runUntilKilled(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runUntilKilled runs programs in a few sessions, one at a time in each. The n-th program of a
// session appends n to a variable and to a file that is too large for the database. A line is
// printed before and after each program.
func runUntilKilled(dir string) error {
	ctx := context.Background()
	key, err := secret.NewKey([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{Path: dir})
	if err != nil {
		return err
	}
	sessions, err := db.Sessions(ctx, key)
	if err != nil {
		return err
	}
	door := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "x"), c.Observe().OnLabels([]string{"pii"})
	})
	x, err := executor.New(executor.Config{
		Drivers: sandbox.OnlyDriver(&puppet{engine: "1"}), Door: door,
		Programs: verbatim{}, Store: sessions, Key: key,
	})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for _, name := range []string{"a", "b", "c"} {
		go func() { errs <- runForever(ctx, x, name) }()
	}
	return <-errs
}

func runForever(ctx context.Context, x *executor.Executor, name string) error {
	p := tool.Principal{ID: ann.ID}
	first := 1
	if i, err := x.Sessions().Get(ctx, p, name); err == nil {
		first = i.Programs + 1
	}
	for n := first; ; n++ {
		code := ops(op{Set: fmt.Sprintf("x=+%d,", n)}, op{Call: "box.one"},
			op{File: &sandbox.File{Op: "write", Path: "large",
				Data: fmt.Sprintf("%d,", n) + strings.Repeat("z", n%2*300_000)}})
		args, err := tool.Marshal(map[string]string{"code": code, "session": name})
		if err != nil {
			return err
		}
		fmt.Printf("begin %s %d\n", name, n)
		res, err := x.Execute().Call(ctx, &tool.Call{Arguments: args, Principal: p})
		if err != nil || res.IsError {
			return fmt.Errorf("%s %d: %v %s", name, n, err, res.Raw)
		}
		fmt.Printf("done %s %d\n", name, n)
	}
}

// TestKill checks that after the process is killed at any time, all acknowledged changes exist, and
// at most those of one more program.
func TestKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := newStage(t, nil)
	s.stop()
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	done, begun := map[string]int{}, map[string]int{}
	for range 6 {
		killAtRandom(t, s.dir, 5+random.IntN(120), done, begun)
		s.start()
		for name := range begun {
			i, err := s.x.Sessions().Get(t.Context(), ann, name)
			if err != nil {
				if done[name] > 0 {
					t.Fatalf("session %s with %d programs is lost: %v", name, done[name], err)
				}
				continue
			}
			if i.Programs < done[name] || i.Programs > begun[name] {
				t.Fatalf("session %s: %d programs, %d were acknowledged, %d begun", name, i.Programs,
					done[name], begun[name])
			}
			if len(i.Labels) != 1 || i.Labels[0] != "pii" {
				t.Fatalf("session %s: %d programs read what is labelled pii, and it has %q", name, i.Programs, i.Labels)
			}
			done[name] = i.Programs
			s.wantAll(name, i.Programs)
		}
		if err := s.x.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		s.stop()
	}
	if done["a"]+done["b"]+done["c"] < 10 {
		t.Errorf("only %d programs ran", done["a"])
	}
	s.start()
	for name := range begun {
		if err := s.x.Sessions().End(t.Context(), ann, name); err != nil {
			t.Errorf("End: %v", err)
		}
	}
	if n := blobs(t, s); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

// wantAll checks the results of n programs. It reads them in a fork, so as not to add a program to
// the session.
func (s *stage) wantAll(name string, n int) {
	s.t.Helper()
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "%d,", i+1)
	}
	if _, err := s.x.Sessions().Fork(s.t.Context(), ann, name, "copy"); err != nil {
		s.t.Fatalf("Fork: %v", err)
	}
	if o := s.do("copy", op{Get: "x"}); o.value != want.String() {
		s.t.Fatalf("session %s: %q, want %q", name, o.value, want.String())
	}
	two := int64(len(strconv.Itoa(n)) + 1)
	if v, err := s.file("copy", sandbox.File{Op: "read", Path: "large", Length: &two}); err != nil ||
		v != fmt.Sprintf("%d,", n) {
		s.t.Fatalf("session %s: file %q %v, want the one of %d", name, v, err, n)
	}
	if err := s.x.Sessions().End(s.t.Context(), ann, "copy"); err != nil {
		s.t.Fatalf("End: %v", err)
	}
}

// killAtRandom runs the other process until it has printed lines lines, and kills it.
func killAtRandom(t *testing.T, dir string, lines int, done, begun map[string]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EXECUTOR_TEST_RUN="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	in := bufio.NewScanner(out)
	for in.Scan() {
		var what, name string
		var n int
		if _, err := fmt.Sscan(in.Text(), &what, &name, &n); err != nil {
			t.Errorf("in.Text() = %v, want err == nil", in.Text())
		}
		switch what {
		case "done":
			done[name] = n
		case "begin":
			begun[name] = n
		}
		if lines--; lines == 0 {
			if err := cmd.Process.Kill(); err != nil { // its output so far is read to the end
				t.Errorf("Kill: %v", err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
}
