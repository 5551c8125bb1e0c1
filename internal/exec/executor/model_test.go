package executor_test

import (
	"flag"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"pgregory.net/rapid"
)

// A truth is the expected state of a session.
type truth struct {
	vars  map[string]string // by language and name
	files map[string]string
	runs  int
}

func (t *truth) clone() *truth {
	return &truth{maps.Clone(t.vars), maps.Clone(t.files), t.runs}
}

// TestSessionsAgainstModel checks that after any sequence of operations, sessions hold exactly the
// results of their successful programs.
func TestSessionsAgainstModel(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	base := newStage(t, nil)
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // a check runs a few dozen programs
		defer f.Value.Set(f.DefValue)
		_ = f.Value.Set("25")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &stage{t: base.t, dir: base.dir, key: base.key, p: &puppet{engine: "1"}, slow: make(chan struct{}),
			gate: make(chan struct{})}
		s.tweak = func(c *executor.Config) {
			c.Limits.Sessions.Hot, c.Limits.Sessions.Idle = 2, time.Hour
			c.Limits.Sessions.SuspendAfter = time.Millisecond
		}
		base.stop()
		s.start()
		defer s.stop()
		model := map[string]*truth{}
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		exports := map[string][]byte{}
		truths := map[string]*truth{}
		steps := map[string]func(*rapid.T){
			"run": func(t *rapid.T) {
				name := names.Draw(t, "session")
				language := rapid.SampledFrom([]string{"typescript", "python"}).Draw(t, "language")
				next := &truth{map[string]string{}, map[string]string{}, 0}
				if was := model[name]; was != nil {
					next = was.clone()
				}
				over := make(chan struct{})
				list, fails := randomOps(t, next, language, s, over)
				o := s.try(base.t.Context(), ann, name, ops(list...), "language", language)
				close(over)
				if o.failed != fails {
					t.Fatalf("%s failed: %v: %s %v", name, o.failed, o.text, o.err)
				}
				if !fails {
					next.runs++
					model[name] = next
				}
			},
			"fork": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				_, err := s.x.Sessions().Fork(base.t.Context(), ann, from, to)
				if ok := model[from] != nil && model[to] == nil; ok != (err == nil) {
					t.Fatalf("fork %s to %s: %v", from, to, err)
				} else if ok {
					model[to] = model[from].clone()
				}
			},
			"end": func(t *rapid.T) {
				name := names.Draw(t, "session")
				if err := s.x.Sessions().End(base.t.Context(), ann, name); (err == nil) != (model[name] != nil) {
					t.Fatalf("end %s: %v", name, err)
				}
				delete(model, name)
			},
			"write": func(t *rapid.T) {
				name, path := names.Draw(t, "session"), rapid.SampledFrom([]string{"f", "g"}).Draw(t, "path")
				_, err := s.file(name, sandbox.File{Op: "write", Path: path, Data: "from outside"})
				if (err == nil) != (model[name] != nil) {
					t.Fatalf("write to %s: %v", name, err)
				}
				if err == nil {
					model[name].files[path] = "from outside"
				}
			},
			"export": func(t *rapid.T) {
				if name := names.Draw(t, "session"); model[name] != nil {
					exports[name], truths[name] = s.export(name, ""), model[name].clone()
				}
			},
			"import": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				if exports[from] == nil {
					return
				}
				_, err := s.load(to, exports[from], "")
				if (err == nil) != (model[to] == nil) {
					t.Fatalf("import %s: %v", to, err)
				}
				if err == nil {
					model[to] = truths[from].clone()
				}
			},
			"restart": func(*rapid.T) { s.restart() },
			"upgrade": func(*rapid.T) {
				s.stop()
				s.p.engine += "'"
				s.start()
			},
			"": func(t *rapid.T) { agree(t, s, model) },
		}
		t.Repeat(steps)
		for name := range model {
			if err := s.x.Sessions().End(base.t.Context(), ann, name); err != nil {
				t.Fatalf("End: %v", err)
			}
		}
		if n := blobs(base.t, s); n != 0 {
			t.Fatalf("%d blobs are left", n)
		}
	})
}

// randomOps generates a program, and applies its effects to next. over is closed when the program
// has ended.
func randomOps(t *rapid.T, next *truth, language string, s *stage, over <-chan struct{}) (list []op, fails bool) {
	for range rapid.IntRange(0, 6).Draw(t, "ops") {
		name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")
		text := rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "text")
		switch rapid.SampledFrom([]string{"set", "add", "write", "append", "rm", "call", "ask", "slow", "fail"}).Draw(t,
			"op") {
		case "set":
			list, next.vars[language+name] = append(list, op{Set: name + "=" + text}), text
		case "add":
			list = append(list, op{Set: name + "=+" + text})
			next.vars[language+name] += text
		case "write":
			list, next.files[name] = append(list, writeTo(name, text)), text
		case "append":
			list = append(list, op{File: &sandbox.File{Op: "write", Path: name, Data: text, Flag: "a"}, Ask: true})
			next.files[name] += text
		case "rm":
			list = append(list, op{File: &sandbox.File{Op: "rm", Path: name, Force: true}})
			delete(next.files, name)
		case "call":
			list = append(list, op{Call: "box.quick"}, op{Set: "_="})
		case "ask":
			list = append(list, op{Call: "box.quick", Ask: true}, op{Set: "_="})
		case "slow":
			time.AfterFunc(3*time.Millisecond, func() {
				select {
				case s.slow <- struct{}{}:
				case <-over: // the program failed earlier
				}
			})
			list = append(list, op{Call: "box.slow"}, op{Set: "_="})
		case "fail":
			if rapid.Bool().Draw(t, "really") {
				return append(list, op{Fail: "on purpose"}), true
			}
		}
	}
	return list, false
}

// agree compares the list of sessions, and one session's files and variables, with the model.
func agree(t *rapid.T, s *stage, model map[string]*truth) {
	all, err := s.x.Sessions().List(s.t.Context(), ann)
	if err != nil || len(all) != len(model) {
		t.Fatalf("%d sessions, want %d: %v", len(all), len(model), err)
	}
	for _, i := range all {
		m := model[i.Name]
		if m == nil || m.runs != i.Programs || len(m.files) != i.Files {
			t.Fatalf("%+v, want %+v", i, m)
		}
	}
	if len(all) == 0 {
		return
	}
	i := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
	m := model[i.Name]
	list, err := s.file(i.Name, sandbox.File{Op: "list", Path: "workspace"})
	if err != nil || strings.Count(list, `"name"`) != len(m.files) {
		t.Fatalf("%s: %s %v, want %v", i.Name, list, err, m.files)
	}
	for path, want := range m.files {
		if got, err := s.file(i.Name, sandbox.File{Op: "read", Path: path}); err != nil || got != want {
			t.Fatalf("%s: %s is %q, want %q: %v", i.Name, path, got, want, err)
		}
	}
	for _, language := range i.Languages {
		o := s.try(s.t.Context(), ann, i.Name, ops(op{Get: "x"}, op{Get: "y"}), "language", language)
		if want := m.vars[language+"x"] + "," + m.vars[language+"y"]; o.value != want {
			t.Fatalf("%s, %s: %q, want %q: %s", i.Name, language, o.value, want, o.text)
		}
		m.runs++
	}
}
