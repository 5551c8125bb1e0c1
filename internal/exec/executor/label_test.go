package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A customs is a door whose tools box.LABEL return data with that label, and which records the
// labels of the calls.
type customs struct {
	mu  sync.Mutex
	saw []string // labels at each call of box.out, separated by commas
}

func (c *customs) door(cfg *executor.Config) {
	door := tool.CallerFunc(func(_ context.Context, call *tool.Call) (*tool.Result, error) {
		name := strings.TrimPrefix(call.Path, "box.")
		if name == "out" {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.saw = append(c.saw, strings.Join(call.Labels, ","))
			return tool.Text(false, "gone"), nil
		}
		if err := call.Observe().OnLabels([]string{name}); err != nil {
			return nil, err
		}
		return tool.Text(false, "data"), nil
	})
	cfg.Door = door
}

// last returns the labels of the last call of box.out.
func (c *customs) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.saw) == 0 {
		return "nothing called"
	}
	return c.saw[len(c.saw)-1]
}

// from runs a program on a connection that carries labels.
func (s *stage) from(conn *tool.Labels, args map[string]any) (*tool.Result, error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		s.t.Fatalf("tool.Marshal: %v", err)
	}
	return s.x.Execute().Call(s.t.Context(),
		&tool.Call{Path: "biplane.execute", Arguments: raw, Principal: ann, Labels: conn.All(),
			Observer: watch{labels: func(l []string) error { conn.Add(l); return nil }}})
}

func read1(label string) op { return op{Call: "box." + label} }

var out = op{Call: "box.out"}

func (s *stage) labels(name string) string {
	s.t.Helper()
	i, err := s.x.Sessions().Get(s.t.Context(), ann, name)
	if err != nil {
		s.t.Fatalf("Get: %v", err)
	}
	return strings.Join(i.Labels, ",")
}

func TestSessionsCarryLabels(t *testing.T) {
	t.Parallel()
	c := &customs{}
	s := newStage(t, c.door)
	s.do("work", out, read1("pii"), out)
	if c.saw[0] != "" || c.saw[1] != "pii" || s.labels("work") != "pii" {
		t.Fatalf("saw %q, session %q", c.saw, s.labels("work"))
	}
	s.bad("work", read1("untrusted"), op{Fail: "on purpose"})
	if got := s.labels("work"); got != "pii,untrusted" {
		t.Errorf("after a program that failed: %q", got)
	}
	s.restart()
	s.do("work", out)
	if c.last() != "pii,untrusted" {
		t.Errorf("after a restart: %q", c.last())
	}
	file := s.export("work", "")
	if _, err := s.x.Sessions().Fork(t.Context(), ann, "work", "copy"); err != nil {
		t.Fatalf("Fork: %v", err)
	}
	if i, err := s.load("again", file, ""); err != nil || len(i.Labels) != 2 {
		t.Fatalf("the imported session: %+v, %v, want its two labels", i, err)
	}
	for _, name := range []string{"copy", "again"} {
		if s.do(name, out); c.last() != "pii,untrusted" || s.labels(name) != "pii,untrusted" {
			t.Errorf("%s, c.last() = %q, s.labels(name) = %q, want c.last() == \"pii,untrusted\" && "+
				"s.labels(name) == \"pii,untrusted\"", name, c.last(), s.labels(name))
		}
	}
	if s.do("", out); c.last() != "" {
		t.Errorf("a program without a session: %q", c.last())
	}
	if err := s.x.Sessions().End(t.Context(), ann, "work"); err != nil {
		t.Fatalf("End: %v", err)
	}
	if s.do("work", out); c.last() != "" {
		t.Errorf("a new session of the name: %q", c.last())
	}
}

// TestLateAnswersCarryLabels checks that the labels of answers that arrive after a program has
// ended are added to its session.
func TestLateAnswersCarryLabels(t *testing.T) {
	t.Parallel()
	inside, ended := make(chan struct{}), make(chan struct{})
	s := newStage(t, func(cfg *executor.Config) {
		door := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Path == "box.meet" {
				<-inside
				return tool.Text(false, "it is under way"), nil
			}
			close(inside)
			<-ended
			return tool.Text(false, "data"), c.Observe().OnLabels([]string{"pii"})
		})
		cfg.Door = door
	})
	over := make(chan outcome, 1)
	go func() {
		over <- s.try(context.Background(), ann, "work",
			ops(op{Call: "box.late", Stray: true}, op{Call: "box.meet"}, op{Set: "x=1"}))
	}()
	<-inside
	eventually(t, "the program has ended", func() bool { return s.x.Spoke(ann.ID) })
	close(ended)
	if o := <-over; o.failed || s.labels("work") != "pii" {
		t.Errorf("after the call that the program left: %+v, labels %q, want no failure and the label pii",
			o, s.labels("work"))
	}
}

// TestLabelsOfSessionsThatNeverCameToBe checks a session whose first program fails. The session
// does not exist then, but the next program that names it carries the labels of what the first one
// read.
func TestLabelsOfSessionsThatNeverCameToBe(t *testing.T) {
	t.Parallel()
	c := &customs{}
	s := newStage(t, c.door)
	s.bad("work", read1("confidential"), op{Fail: "on purpose"})
	s.restart()
	s.do("work", out)
	if c.last() != "confidential" {
		t.Errorf(`c.last() = %q, want "confidential"`, c.last())
	}
	s.bad("other", read1("pii"), op{Fail: "on purpose"})
	s.clock.Advance(40 * 24 * 3600e9)
	s.bad("third", read1("pii"), op{Fail: "on purpose"}) // expired entries are removed on the way
	s.restart()
	if s.do("other", out); c.last() != "" {
		t.Errorf("after 40 days: %q", c.last())
	}
}

// TestLabelsOfTheStateAreSealed checks that a session that was modified in the store can't lose the
// labels of its data.
func TestLabelsOfTheStateAreSealed(t *testing.T) {
	t.Parallel()
	c := &customs{}
	s := newStage(t, c.door)
	s.do("work", read1("pii"))
	s.stop()
	s.execSQL(`DELETE FROM session_label`)
	s.start()
	s.bad("work", out) // it is unknown which of them are missing
	if c.last() != "nothing called" {
		t.Errorf(`c.last() = %q, want "nothing called"`, c.last())
	}
	if err := s.x.Sessions().End(t.Context(), ann, "work"); err != nil {
		t.Errorf("End: %v", err)
	}
	if s.do("work", read1("untrusted"), out); c.last() != "untrusted" {
		t.Errorf(`c.last() = %q, want "untrusted"`, c.last())
	}
}

func TestConnectionsCarryLabels(t *testing.T) {
	t.Parallel()
	c, conn := &customs{}, &tool.Labels{}
	s := newStage(t, c.door)
	all := func(l *tool.Labels) string { return strings.Join(l.All(), ",") }
	if _, err := s.from(conn, map[string]any{"code": ops(read1("pii"))}); err != nil || all(conn) != "pii" {
		t.Fatalf("labels of the connection: %q, error %v, want pii", all(conn), err)
	}
	if _, err := s.from(conn, map[string]any{"code": ops(out), "session": "work"}); err != nil || c.last() != "pii" ||
		s.labels("work") != "pii" {
		t.Fatalf("the next program: %q, %q, %v", c.last(), s.labels("work"), err)
	}
	res, err := s.from(&tool.Labels{}, map[string]any{"code": ops(read1("untrusted"), op{Fail: "on purpose"})})
	if err != nil {
		t.Fatalf("from: %v", err)
	}
	id, _ := idOf(t, res)
	if _, err = s.from(&tool.Labels{}, map[string]any{"code": ops(out), "after": id}); err != nil ||
		c.last() != "untrusted" {
		t.Errorf("a correction: %q, %v", c.last(), err)
	}
	resume := func() string {
		later := &tool.Labels{}
		_, err := s.x.Resume().Call(t.Context(),
			&tool.Call{Arguments: []byte(fmt.Sprintf(`{"execution":%q}`, id)), Principal: ann,
				Observer: watch{labels: func(l []string) error { later.Add(l); return nil }}})
		if err != nil {
			t.Errorf("Call: %v", err)
		}
		return all(later)
	}
	if got := resume(); got != "untrusted" {
		t.Errorf("resumed: %q", got)
	}
	s.restart()
	if got := resume(); got != "untrusted" {
		t.Errorf("resumed after a restart: %q", got)
	}
	if d, err := s.x.Details(t.Context(), ann, id); err != nil || strings.Join(d.Labels, ",") != "untrusted" ||
		len(d.Calls) != 1 || len(d.Calls[0].Labels) != 1 {
		t.Errorf("d = %+v, err = %v, want err == nil && strings.Join(d.Labels, \",\") == \"untrusted\" "+
			"&& len(d.Calls) == 1 && len(d.Calls[0].Labels) == 1", d, err)
	}
}

// TestWithoutLabelsNothingIsTold checks that data is not returned if its labels can't be stored.
func TestWithoutLabelsNothingIsTold(t *testing.T) {
	t.Parallel()
	c := &customs{}
	s := newStage(t, c.door)
	raw, err := tool.Marshal(map[string]any{"code": ops(read1("pii"))})
	if err != nil {
		t.Fatalf("tool.Marshal: %v", err)
	}
	res, err := s.x.Execute().Call(t.Context(), &tool.Call{Arguments: raw, Principal: ann,
		Observer: watch{labels: func([]string) error { return tool.Errorf(tool.Internal, "no room") }}})
	if res != nil || err == nil || !strings.Contains(err.Error(), "is withheld") {
		t.Errorf("a caller that can't store labels: answer %v, error %v, want no answer, and an error that it is "+
			"withheld", res, err)
	}
}

// TestLeftoversCarryLabels checks that readers of a leftover receive its labels.
func TestLeftoversCarryLabels(t *testing.T) {
	t.Parallel()
	a := standard()
	a["pii"] = func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text(false, strings.Repeat("secret ", 9000)), c.Observe().OnLabels([]string{"pii"})
	}
	r := newRig(t, a, nil)
	texts, failed := r.run(`return await box.pii()`)
	_, h, found := strings.Cut(texts[0], `readResult("`)
	if h, _, _ = strings.Cut(h, `"`); failed || !found {
		t.Fatalf("the answer with a large result: %v, want a handle for readResult", texts[0])
	}
	for _, code := range []string{`await readResult(%q, {offset: 0, limit: 5}); await box.echo({})`,
		`import { writeFile } from "node:fs/promises"; await writeFile("f", { handle: %q } as any); await box.echo({})`} {
		r.mu.Lock()
		r.calls = nil
		r.mu.Unlock()
		if texts, failed := r.run(fmt.Sprintf(code, h)); failed {
			t.Fatalf("texts = %v, want !failed", texts)
		}
		if !slices.Equal(r.calls[len(r.calls)-1].Labels, []string{"pii"}) {
			t.Errorf("code = %s, r.calls[len(r.calls)-1].Labels = %v, want "+
				"slices.Equal(r.calls[len(r.calls)-1].Labels, []string{\"pii\"})",
				code, r.calls[len(r.calls)-1].Labels)
		}
	}
}

// TestLabelsOnlyGrow checks that for any sequence of programs, forks, failures and restarts, labels
// only grow, and each call carries all of them.
func TestLabelsOnlyGrow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	base, c, round := t, &customs{}, 0
	s := newStage(t, c.door)
	rapid.Check(t, func(t *rapid.T) {
		round++
		names := rapid.Map(rapid.SampledFrom([]string{"a", "b", "c"}), func(n string) string {
			return fmt.Sprint(n, round)
		})
		model, there := map[string][]string{}, map[string]bool{}
		var file []byte
		var filed []string
		t.Repeat(map[string]func(*rapid.T){
			"run": func(t *rapid.T) {
				name, conn := names.Draw(t, "session"), &tool.Labels{}
				conn.Add(rapid.SliceOfDistinct(rapid.SampledFrom([]string{"confidential", "untrusted"}),
					rapid.ID).Draw(t, "connection"))
				has := tool.JoinLabels(model[name], conn.All())
				var list []op
				var want []string
				for range rapid.IntRange(0, 4).Draw(t, "calls") {
					what := rapid.SampledFrom([]string{"out", "out", "pii", "confidential", "untrusted"}).Draw(t,
						"call")
					list = append(list, op{Call: "box." + what, Ask: rapid.Bool().Draw(t, "ask")}, op{Set: "_="})
					if what == "out" {
						want = append(want, strings.Join(has, ","))
					} else {
						has = tool.JoinLabels(has, []string{what})
					}
				}
				fails := rapid.Bool().Draw(t, "fails")
				if fails {
					list = append(list, op{Fail: "on purpose"})
				}
				c.saw = nil
				res, err := s.from(conn, map[string]any{"code": ops(list...), "session": name})
				if err != nil || res.IsError != fails {
					t.Fatalf("a program of the model: answer %v, error %v, want it to fail as the model does",
						res, err)
				}
				if !slices.Equal(c.saw, want) || !slices.Equal(conn.All(), has) {
					t.Fatalf("%v: calls said %q, want %q; the connection has %q, want %q", list, c.saw, want,
						conn.All(), has)
				}
				if model[name] = has; !fails {
					there[name] = true
				}
			},
			"fork": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				if _, err := s.x.Sessions().Fork(base.Context(), ann, from, to); err == nil {
					model[to], there[to] = tool.JoinLabels(model[to], model[from]), true
				}
			},
			"export": func(t *rapid.T) {
				if name := names.Draw(t, "session"); there[name] {
					file, filed = s.export(name, ""), model[name]
				}
			},
			"import": func(t *rapid.T) {
				name := names.Draw(t, "session")
				if file == nil || there[name] {
					return
				}
				if _, err := s.load(name, file, ""); err != nil {
					t.Fatalf("load: %v", err)
				}
				model[name], there[name] = tool.JoinLabels(model[name], filed), true
			},
			"end": func(t *rapid.T) {
				if name := names.Draw(t, "session"); there[name] {
					if err := s.x.Sessions().End(base.Context(), ann, name); err != nil {
						t.Fatalf("End: %v", err)
					}
					delete(model, name)
					delete(there, name)
				}
			},
			"write": func(t *rapid.T) {
				_, _ = s.file(names.Draw(t, "session"), sandbox.File{Op: "write", Path: "f", Data: "x"})
			},
			"restart": func(t *rapid.T) {
				if rapid.IntRange(0, 4).Draw(t, "really") == 4 { // it takes longer than everything else
					s.restart()
				}
			},
			"": func(t *rapid.T) {
				all, err := s.x.Sessions().List(base.Context(), ann)
				if err != nil || len(all) != len(there) {
					t.Fatalf("%d sessions, want %v: %v", len(all), there, err)
				}
				for _, i := range all {
					if !there[i.Name] {
						t.Fatalf("there is a session %s", i.Name)
					}
					if !slices.Equal(i.Labels, append([]string{}, model[i.Name]...)) {
						t.Fatalf("%s has %q, want %q", i.Name, i.Labels, model[i.Name])
					}
				}
			},
		})
		for name := range there {
			if err := s.x.Sessions().End(base.Context(), ann, name); err != nil {
				t.Fatalf("End: %v", err)
			}
		}
	})
}

// TestLabelsSurviveACrash checks that a program that is recovered after a crash still carries the
// labels of what it had read, and so does its session.
func TestLabelsSurviveACrash(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "work"} {
		var mu sync.Mutex
		var saw [][]string
		s := newScene(t, func(c *executor.Config) {
			next := c.Door
			door := tool.CallerFunc(func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
				if call.Path == "box.image" {
					mu.Lock()
					saw = append(saw, call.Labels)
					mu.Unlock()
				}
				res, err := next.Call(ctx, call)
				if err == nil && call.Path == "box.read" {
					err = call.Observe().OnLabels([]string{"pii"})
				}
				return res, err
			})
			c.Door = door
		})
		s.hold["box.image"] = make(chan struct{})
		s.reach = make(chan string, 100)
		args := map[string]any{"code": `await box.read({}); await box.image({}); "over"`}
		if session != "" {
			args["session"] = session
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _, _ = s.execute(args) // its process crashes
		}()
		for <-s.reach != "box.image {}" {
		}
		all, err := s.x.Executions(t.Context(), s.who, journal.Query{})
		if err != nil || len(all) != 1 {
			t.Fatalf("%d executions, %v", len(all), err)
		}
		s.crash(0)
		<-over
		close(s.hold["box.image"])
		d := s.ended(all[0].ID)
		mu.Lock()
		if len(saw) != 2 || !slices.Equal(saw[0], saw[1]) || !slices.Equal(d.Labels, []string{"pii"}) ||
			!slices.Equal(saw[0], d.Labels) {
			t.Errorf("before and after %q, at the end %q", saw, d.Labels)
		}
		mu.Unlock()
		if session != "" {
			if i, err := s.x.Sessions().Get(t.Context(), s.who, session); err != nil ||
				!slices.Equal(i.Labels, []string{"pii"}) {
				t.Errorf("the session after the program: %+v, %v, want the label pii", i, err)
			}
		}
	}
}
