package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/cli"
	"github.com/biplane-dev/biplane/internal/lab/demo"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestMain makes this test binary act as the command biplane if its arguments are those of a
// command: test flags begin with "-". (An environment variable would not work: Biplane doesn't pass
// its own to upstreams.)
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(cli.Main(cli.Process{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: "test"}))
	}
	os.Exit(m.Run())
}

// biplane returns a Config that runs this test binary as biplane, and the folder of its temporary
// files.
func biplane(t *testing.T) (demo.Config, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	return demo.Config{Biplane: []string{self}, ServeArgs: []string{"demo", "serve"}}, dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "biplane-demo-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestRun runs the whole demonstration: real servers, real Biplane, real sandbox.
func TestRun(t *testing.T) {
	cfg, dir := biplane(t)
	var progress bytes.Buffer
	cfg.Progress = &progress
	r, err := demo.Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("demo.Run: %v", err)
	}
	empty(t, dir)
	if len(r.Ways) != 3 || len(r.Deactivated) != 15 {
		t.Fatalf("%d ways, %d deactivated", len(r.Ways), len(r.Deactivated))
	}
	one, parallel, program := r.Ways[0], r.Ways[1], r.Ways[2]
	for _, w := range r.Ways {
		k := w.Tokens
		if w.Deactivated != 15 || k.Context != k.Definitions+k.Job+k.Calls+k.Results+k.Answer ||
			k.Written != k.Calls+k.Answer || k.Read < k.Context-k.Answer {
			t.Errorf("w.Name = %s, w = %+v", w.Name, w)
		}
	}
	if one.Turns != one.Calls+1 || one.Calls != 2+32+15 || parallel.Calls != one.Calls || parallel.Turns != 5 {
		t.Errorf("tool by tool: %d turns, %d calls; parallel %d, %d", one.Turns, one.Calls, parallel.Turns,
			parallel.Calls)
	}
	if program.Turns > 4 || program.Calls > 7 || program.Tools != 3 || one.Tools != 26 {
		t.Errorf("one program: %+v", program)
	}
	if one.Tokens.Definitions != parallel.Tokens.Definitions || one.Tokens.Calls != parallel.Tokens.Calls ||
		one.Tokens.Results != parallel.Tokens.Results {
		t.Error("the parallel calls differ from the others in more than their order")
	}
	if program.Tokens.Context >= parallel.Tokens.Context || program.Tokens.Answer != one.Tokens.Answer {
		t.Errorf("one program: %+v", program.Tokens)
	}
	var out bytes.Buffer
	r.Write(&out)
	for _, want := range []string{"tool by tool", "one program", "o200k_base", "Assumed:", "claude mcp add biplane",
		"mcpServers"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	if !strings.Contains(progress.String(), "checked in the database") {
		t.Errorf("progress: %s", &progress)
	}
	raw, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(raw), `"tokens_per_second":70`) {
		t.Errorf("raw = %s, err = %v, want err == nil && strings.Contains(string(raw), "+
			"`\"tokens_per_second\":70`)", raw, err)
	}
}

// TestInterrupted checks that an interrupted demonstration leaves nothing behind.
func TestInterrupted(t *testing.T) {
	for _, at := range []string{"making", "mode direct", "tool by tool\n", "50 model turns"} {
		t.Run(strings.TrimSpace(at), func(t *testing.T) {
			cfg, dir := biplane(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg.Progress = writerFunc(func(p []byte) {
				if strings.Contains(string(p), at) {
					cancel()
				}
			})
			_, err := demo.Run(ctx, cfg)
			if e := tool.AsError(err); e == nil || e.Kind != tool.Canceled {
				t.Errorf("error %v", err)
			}
			empty(t, dir)
		})
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// TestUnable checks that the error for a Biplane that doesn't start includes its output.
func TestUnable(t *testing.T) {
	cfg, dir := biplane(t)
	cfg.Biplane = append(cfg.Biplane, "version", "--no-such-flag")
	_, err := demo.Run(t.Context(), cfg)
	if e := tool.AsError(err); e == nil || e.Kind != tool.Unavailable || !strings.Contains(e.Msg, "no-such-flag") {
		t.Errorf("error %v", err)
	}
	empty(t, dir)
}
