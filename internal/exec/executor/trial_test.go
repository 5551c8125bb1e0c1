package executor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/execution"
)

// listAnswers returns the numbers of the recorded calls that answered the calls of a trial, and
// the lines of these calls.
func listAnswers(r *execution.Replayed) (recorded, lines []int) {
	for i := range r.Calls {
		recorded = append(recorded, r.Calls[i].Replay.Recorded)
		lines = append(lines, r.Calls[i].Replay.Line)
	}
	return recorded, lines
}

// TestTrial checks how the calls of a changed program are matched with the recorded ones.
func TestTrial(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	id, res, err := s.execute(map[string]any{"code": "const a = await box.write({ n: 1, m: 2 });\n" +
		"const b = await box.read({ n: 2 });\nawait box.read({ n: 2 });\n" +
		"try { await box.fail({}) } catch (e) { console.log(e.message) }\nreturn a.args.n + b.args.n;"})
	if err != nil || res.IsError {
		t.Fatalf("the program to change: error %v, answer %s", err, res.Raw)
	}
	before := len(s.order)
	for _, c := range []struct {
		name, code, state, value string
		recorded, lines          []int
		differs                  string
		left                     int
		changes                  string
	}{
		{name: "unchanged", code: "const a = await box.write({ n: 1, m: 2 });\nconst b = await box.read({ n: 2 });\n" +
			"await box.read({ n: 2 });\ntry { await box.fail({}) } catch (e) { console.log(e.message) }\n" +
			"return a.args.n + b.args.n;",
			state: "done", value: "3", recorded: []int{1, 2, 3, 4}, lines: []int{1, 2, 3, 4}},
		{name: "reordered, with the arguments in another order",
			code: "let m;\ntry { await box.fail({}) } catch (e) { m = e.message }\n" +
				"const b = await box.read({ n: 2 }),\n  c = await box.read({ n: 2 });\n" +
				"const a = await box.write({ m: 2, n: 1 });\nconsole.log(m);\nreturn c.args.n + a.args.n;",
			state: "done", value: "3", recorded: []int{4, 2, 3, 1}, lines: []int{2, 3, 4, 5}},
		{name: "at the same time",
			code: "const [a, b] = await Promise.all([box.write({ n: 1, m: 2 }),\n" +
				"  box.read({ n: 2 })]);\nreturn a.args.n * b.args.n;",
			state: "done", value: "2", recorded: []int{1, 2}, lines: []int{1, 2}, left: 2, changes: "value console"},
		{name: "one removed", code: "return (await box.read({ n: 2 })).args.n + 1;", state: "done", value: "3",
			recorded: []int{2}, lines: []int{1}, left: 3, changes: "console"},
		{name: "one added", code: "await box.read({ n: 2 });\n\nawait box.read({ n: 3 });", state: "diverged",
			value: "null", recorded: []int{2, 0}, lines: []int{1, 3},
			differs: `call 2, box.read {"n":3}, is not among the calls`, left: 3},
		{name: "repeated more often", code: "for (let i = 0; i < 3; i++)\n  await box.read({ n: 2 });",
			state: "diverged", value: "null", recorded: []int{2, 3, 0}, lines: []int{2, 2, 2},
			differs: "call 3, box.read", left: 2},
		{name: "with changed arguments", code: "await box.write({ n: 1, m: 3 });", state: "diverged", value: "null",
			recorded: []int{0}, lines: []int{1}, differs: `call 1, box.write {"n":1,"m":3}`, left: 4},
		{name: "failing", code: "const a = await box.write({ n: 1, m: 2 });\nawait box.fail({});", state: "failed",
			value: "null", recorded: []int{1, 4}, lines: []int{1, 2}, left: 2, changes: "state value error console"},
	} {
		got := s.replayed(id, execution.ReplayOptions{Program: c.code})
		recorded, lines := listAnswers(got)
		if got.State != c.state || string(got.Value) != c.value || !slices.Equal(recorded, c.recorded) ||
			!slices.Equal(lines, c.lines) {
			t.Errorf("%s: %s with the value %s, answered by %v at lines %v; want %s, %s, %v at %v", c.name, got.State,
				got.Value, recorded, lines, c.state, c.value, c.recorded, c.lines)
		}
		if !strings.Contains(got.Differs, c.differs) || (got.Differs == "") != (c.differs == "") ||
			len(got.Left) != c.left || strings.Join(got.Changes, " ") != c.changes {
			t.Errorf("%s: it differs by %q, leaves %d calls, and changes %q; want %q, %d, %q", c.name, got.Differs,
				len(got.Left), got.Changes, c.differs, c.left, c.changes)
		}
	}
	if len(s.order) != before {
		t.Errorf("the trials called %v", s.order[before:])
	}
}

// TestReplayLines checks that a replay finds the line of each call, and how many lines were logged
// before it, in both languages.
func TestReplayLines(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	for language, code := range map[string]string{
		"typescript": "console.log('a');\nawait box.read({ n: 1 });\nconsole.log('b');\n" +
			"console.log('c');\n\nawait box.read({ n: 2 });",
		"python": "print('a')\nawait box.read(n=1)\nprint('b')\nprint('c')\n\nbox.read(n=2)",
	} {
		id, res, err := s.execute(map[string]any{"code": code, "language": language})
		if err != nil || res.IsError {
			t.Fatalf("the %s program: error %v, answer %s", language, err, res.Raw)
		}
		got := s.replayed(id, execution.ReplayOptions{})
		recorded, lines := listAnswers(got)
		if !got.Same || !slices.Equal(recorded, []int{1, 2}) || !slices.Equal(lines, []int{2, 6}) ||
			got.Calls[0].Replay.Lines != 1 || got.Calls[1].Replay.Lines != 3 {
			t.Errorf("the %s program: %+v, with the calls %v at the lines %v", language, got, recorded, lines)
		}
	}
}
