package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/sink"
	"github.com/biplane-dev/biplane/internal/tool"
)

func note(origin string, size int64) string {
	return fmt.Sprintf("%s\n%d\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n— %s "+
		"Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n", origin,
		size, origin)
}

func checkpoint(size int64) sink.Checkpoint {
	return sink.Checkpoint{Origin: "biplane/k7", Size: size, Text: note("biplane/k7", size)}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	f := &sink.File{Path: path}
	for _, size := range []int64{1, 1, 5, 900} {
		if err := f.Put(t.Context(), checkpoint(size)); err != nil {
			t.Fatalf("Put: %v", err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	want := []string{note("biplane/k7", 1), note("biplane/k7", 5), note("biplane/k7", 900)}
	if got := sink.SplitNotes(string(text)); !slices.Equal(got, want) {
		t.Errorf("the file holds %q", got)
	}
	missing := &sink.File{Path: filepath.Join(t.TempDir(), "no", "folder")}
	if err := missing.Put(t.Context(), checkpoint(1)); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a folder: %v", err)
	}
}

func TestSplit(t *testing.T) {
	one, two := note("a", 1), note("b", 2)
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil}, {"words\nwithout\n\nsignature", nil}, {one, []string{one}}, {one + two, []string{one, two}},
		{"\n\n" + one + "\n\n\n" + two + "\n", []string{one, two}},
		{strings.TrimSuffix(one, "\n"), []string{one}},
		{one + "— witness abc\n" + two, []string{one + "— witness abc\n", two}},
	} {
		if got := sink.SplitNotes(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("tt.text = %q, got = %q, want slices.Equal(got, tt.want)", tt.text, got)
		}
	}
}

func TestWebhook(t *testing.T) {
	var got struct {
		Origin, Checkpoint string
		Size               int64
	}
	status := http.StatusNoContent
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got); err != nil || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("r.Method = %s, body = %q, err = %v, want err == nil && r.Method == "+
				"http.MethodPost && r.Header.Get(\"Content-Type\") == \"application/json\"", r.Method, body, err)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer srv.Close()
	w := &sink.Webhook{URL: srv.URL + "/hook/secret-token"}
	if err := w.Put(t.Context(), checkpoint(7)); err != nil || got.Origin != "biplane/k7" || got.Size != 7 ||
		got.Checkpoint != note("biplane/k7", 7) {
		t.Errorf("got = %+v, err = %v, want err == nil && got.Origin == \"biplane/k7\" && got.Size == 7 "+
			"&& got.Checkpoint == note(\"biplane/k7\", 7)", got, err)
	}
	for _, status = range []int{http.StatusFound, http.StatusInternalServerError} {
		if err := w.Put(t.Context(), checkpoint(7)); err == nil || strings.Contains(err.Error(), "secret-token") {
			t.Errorf("answered %d: %v", status, err)
		}
	}
	srv.Close()
	if err := w.Put(t.Context(), checkpoint(7)); err == nil || strings.Contains(err.Error(), "secret-token") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on the PATH")
	}
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	remote := t.TempDir()
	run(remote, "init", "-q", "--bare", ".")
	g := &sink.Git{Repository: remote, Work: filepath.Join(t.TempDir(), "work")}
	for _, size := range []int64{3, 3, 8} {
		if err := g.Put(t.Context(), checkpoint(size)); err != nil {
			t.Fatalf("Put: %v", err)
		}
	}
	// Another client adds to the branch, and this work folder is lost.
	g.Work = filepath.Join(t.TempDir(), "another")
	if err := g.Put(t.Context(), checkpoint(9)); err != nil {
		t.Fatalf("Put: %v", err)
	}
	if got := strings.Count(run(remote, "log", "--oneline", "biplane-checkpoints"), "\n"); got != 3 {
		t.Errorf("%d commits", got)
	}
	if got := run(remote, "show", "biplane-checkpoints:biplane-k7/00000000000000000008"); got != note("biplane/k7", 8) {
		t.Errorf("committed %q", got)
	}
	// Another client may add to the branch, but a branch that lost a checkpoint isn't continued.
	other := filepath.Join(t.TempDir(), "other")
	run(remote, "clone", "-q", "-b", "biplane-checkpoints", remote, other)
	git := func(args ...string) {
		run(other, append([]string{"-c", "user.name=eve", "-c", "user.email=eve@example.com"}, args...)...)
	}
	git("commit", "-q", "--allow-empty", "-m", "nothing")
	git("push", "-q", "origin", "biplane-checkpoints")
	if err := g.Put(t.Context(), checkpoint(10)); err != nil {
		t.Fatalf("Put: %v", err)
	}
	git("rm", "-q", "biplane-k7/00000000000000000009")
	git("commit", "-q", "--amend", "-m", "rewritten")
	git("push", "-q", "--force", "origin", "biplane-checkpoints")
	if err := g.Put(t.Context(), checkpoint(11)); err == nil || tool.AsError(err).Kind != tool.Conflict ||
		!strings.Contains(err.Error(), "was rewritten: it lacks biplane-k7/00000000000000000009") {
		t.Errorf("a rewritten branch: %v", err)
	}
	run(remote, "update-ref", "-d", "refs/heads/biplane-checkpoints")
	if err := g.Put(t.Context(), checkpoint(11)); err == nil || tool.AsError(err).Kind != tool.Conflict ||
		!strings.Contains(err.Error(), "was removed") {
		t.Errorf("a removed branch: %v", err)
	}
	g.Repository = t.TempDir()
	run(g.Repository, "init", "-q", "--bare", ".")
	if err := g.Put(t.Context(), checkpoint(11)); err != nil {
		t.Errorf("another repository: %v", err)
	}
	g.Repository = filepath.Join(t.TempDir(), "nothing")
	if err := g.Put(t.Context(), checkpoint(10)); err == nil || !strings.Contains(err.Error(), "ls-remote") {
		t.Errorf("no repository: %v", err)
	}
	if name := (&sink.Git{Repository: "https://user:pass@git.example/a.git"}).Name(); name != "git https://git.example/a.git" {
		t.Errorf(`%v, want name == "git https://git.example/a.git"`, name)
	}
}

// flaky is a Sink that fails a given number of times.
type flaky struct {
	fail atomic.Int32
	puts atomic.Int32
	last atomic.Int64
}

func (f *flaky) Name() string { return "flaky" }

func (f *flaky) Put(_ context.Context, c sink.Checkpoint) error {
	f.puts.Add(1)
	if f.fail.Add(-1) >= 0 {
		return tool.Errorf(tool.Unavailable, "not today")
	}
	f.last.Store(c.Size)
	return nil
}

// sizes makes checkpoints of the size that is set, and fails if that is negative.
type sizes struct{ atomic.Int64 }

func (s *sizes) MakeCheckpoint(context.Context) (sink.Checkpoint, error) {
	if s.Load() < 0 {
		return sink.Checkpoint{}, errors.New("disk full")
	}
	return checkpoint(s.Load()), nil
}

func TestSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &flaky{}, &flaky{}
		bad.fail.Store(1 << 20)
		var size sizes
		size.Store(1)
		s := sink.NewSender(sink.Config{Every: time.Hour, Sinks: []sink.Sink{bad, good}, Maker: &size})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()

		synctest.Wait()
		if good.last.Load() != 1 {
			t.Fatal("nothing was sent at the start")
		}
		time.Sleep(30 * time.Minute) // of the test's clock
		states, err := s.States()
		if err != nil || states[0].Sent != -1 || !states[0].Waiting || states[0].Error != "not today" ||
			states[0].Failures < 8 || states[0].Failures > 40 {
			t.Errorf("the bad one: %+v, %v", states[0], err)
		}
		if states[1].Sent != 1 || states[1].Waiting || states[1].Failures != 0 || good.puts.Load() != 1 {
			t.Errorf("the good one: %+v", states[1])
		}
		size.Store(5)
		bad.fail.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait()
		states, _ = s.States()
		if good.last.Load() != 5 || bad.last.Load() != 5 || states[0].Waiting || states[0].Error != "" {
			t.Errorf("sent %d and %d: %+v", good.last.Load(), bad.last.Load(), states)
		}
		puts := good.puts.Load()
		time.Sleep(3 * time.Hour) // nothing new
		if good.puts.Load() != puts {
			t.Error("what hadn't changed was sent again")
		}
		size.Store(-1)
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, err := s.States(); err == nil {
			t.Error("a checkpoint that can't be made is not told of")
		}
		size.Store(9)
		if c, err := s.SendNow(ctx); err != nil || c.Size != 9 || good.last.Load() != 9 || bad.last.Load() != 9 {
			t.Errorf("now: %d, %v", c.Size, err)
		}
		stop()
		<-ended
	})
}
