package executor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sortedDoor wraps the Door like the gateway: it reports which tool a call reaches before sending
// it. box.one only reads.
func sortedDoor(c *executor.Config) {
	yes := true
	door := tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		next := *c
		next.Tool = &tool.Tool{Upstream: "box", Name: strings.TrimPrefix(c.Path, "box.")}
		if c.Path == "box.one" {
			next.Tool.Annotations.ReadOnly = &yes
		}
		if confirm := c.Observe().OnSend(&next, "allow"); confirm != nil {
			if err := confirm(); err != nil {
				return nil, err
			}
		}
		return tool.Text(false, `{"n":1}`), nil
	})
	c.Door = door
}

// TestFailureSaysHowToContinue checks that the answer of a failed program names its execution, and
// that a corrected program sent with after repeats none of its calls.
func TestFailureSaysHowToContinue(t *testing.T) {
	t.Parallel()
	s := realStage(t, sortedDoor)
	for _, c := range []struct {
		language, code, session string
		warned, made            bool
	}{
		{"typescript", `await box.one(); await box.slow({ id: 1 }); throw new Error("no")`, "", true, true},
		{"typescript", `await box.one(); throw new Error("no")`, "", false, true},
		{"typescript", `throw new Error("no")`, "", false, false},
		{"typescript", `const = 1`, "", false, false},
		{"python", "await box.one()\nawait box.slow(id=1)\nraise ValueError('no')", "work", true, true},
		{"python", "await box.one()\nraise ValueError('no')", "work", false, true},
	} {
		o := s.try(t.Context(), ann, c.session, c.code, "language", c.language)
		if !o.failed {
			t.Fatalf("c.code = %s, o.text = %s, want o.failed", c.code, o.text)
		}
		id, _ := idOf(t, o.res)
		texts := textsOf(t, o.res)
		last := texts[len(texts)-1]
		last = last[strings.LastIndex(last, "\n")+1:]
		if strings.Contains(o.text, "must not repeat") != c.warned {
			t.Errorf("c.code = %s, o.text = %s, want strings.Contains(o.text, \"must not repeat\") == "+
				"c.warned", c.code, o.text)
		}
		if c.warned {
			holds(t, o.text, "must not repeat these changes:\n- box.slow ",
				"1 call was made that changed nothing:\n- box.one ")
		}
		if !c.made {
			if last != "execution "+id+": it made no calls" {
				t.Errorf("c.code = %s, o.text = %s, want last == \"execution \"+id+\": it made no "+
					"calls\"", c.code, o.text)
			}
			continue
		}
		holds(t, last, "execution "+id+": to continue, call execute with the corrected program and after: \""+id+"\"")
		fixed := strings.NewReplacer(`throw new Error("no")`, "return 1", "raise ValueError('no')", "1").Replace(c.code)
		o = s.try(t.Context(), ann, c.session, fixed, "language", c.language, "after", id)
		holds(t, o.text, "from "+id+": ", "not made again")
	}
}

// TestReusedCallsChangeNothing checks that a call reused from an earlier execution doesn't count as
// a change of the new program.
func TestReusedCallsChangeNothing(t *testing.T) {
	t.Parallel()
	s := realStage(t, sortedDoor)
	o := s.try(t.Context(), ann, "", `await box.slow(); throw new Error("no")`)
	id, _ := idOf(t, o.res)
	o = s.try(t.Context(), ann, "", `await box.slow(); throw new Error("again")`, "after", id)
	holds(t, o.text, "ok, not made again: from "+id)
	lacks(t, o.text, "must not repeat")
}

// TestFailureWithoutJournal checks that without a journal, the answer says that calls are not kept,
// so that a corrected program repeats them.
func TestFailureWithoutJournal(t *testing.T) {
	t.Parallel()
	r := newRig(t, standard(), nil)
	texts, failed := r.run(`await box.text(); throw new Error("no")`)
	if !failed {
		t.Fatalf("texts = %v, want failed", texts)
	}
	holds(t, texts[len(texts)-1], ": its calls are not stored, so a corrected program makes them again")
}

func TestUnknownExecution(t *testing.T) {
	t.Parallel()
	s := realStage(t, nil)
	_, err := s.x.Resume().Call(t.Context(),
		&tool.Call{Path: "biplane.resume", Arguments: []byte(`{"execution":"ex_none"}`), Principal: ann})
	if err == nil {
		t.Fatal("no error")
	}
	holds(t, err.Error(), `no execution "ex_none"`, "Don't run the program again before you know what it changed",
		"biplane executions list")
	lacks(t, err.Error(), "; run the program again")
}

// TestOtherLanguageInASession checks that a session is reported as new only once, whatever the
// languages of its programs.
func TestOtherLanguageInASession(t *testing.T) {
	t.Parallel()
	s := realStage(t, nil)
	for _, c := range []struct{ language, code, want string }{
		{"typescript", "1", "session work (new)"},
		{"python", "1", "session work (its first program in python: files are shared between languages, variables " +
			"are not)"},
		{"python", "2", "session work"},
		{"typescript", "2", "session work"},
	} {
		o := s.try(t.Context(), ann, "work", c.code, "language", c.language)
		texts := textsOf(t, o.res)
		if got, _, _ := strings.Cut(texts[len(texts)-1], "\n"); o.failed || got != c.want {
			t.Errorf("%s: %q, want %q", c.language, got, c.want)
		}
	}
}
