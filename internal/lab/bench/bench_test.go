package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

// engineCommand makes the test binary run an engine process.
const engineCommand = "__bench_engine"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engineCommand {
		if err := child.Main(os.Args[2:], func() (sandbox.Driver, error) {
			return wasm.New(wasm.Config{Relief: true})
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestTimed(t *testing.T) {
	var took []time.Duration
	for i := 100; i > 0; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	if f := durationFigure("cold_start", took); f.Median != 50 || f.P99 != 99 || f.N != 100 || f.Unit != "ms" {
		t.Errorf(`f = %+v, want f.Median == 50 && f.P99 == 99 && f.N == 100 && f.Unit == "ms"`, f)
	}
	if f := durationFigure("tool_call", took[:3]); f.Median != 99_000 || f.P99 != 100_000 || f.N != 3 ||
		f.Unit != "us" {
		t.Errorf(`f = %+v, want f.Median == 99_000 && f.P99 == 100_000 && f.N == 3 && f.Unit == "us"`, f)
	}
	if f := durationFigure("cold_start", nil); f.Why == "" {
		t.Errorf(`f = %+v, want f.Why != ""`, f)
	}
	if took[0] != 100*time.Millisecond {
		t.Error("the samples were put in another order")
	}
	if f := numberFigure("x_tools_list_tokens", 3, 1, 2); f.Median != 2 || f.P99 != 3 || f.Unit != "tokens" {
		t.Errorf(`f = %+v, want f.Median == 2 && f.P99 == 3 && f.Unit == "tokens"`, f)
	}
}

func TestRate(t *testing.T) {
	n, err := countRate(t.Context(), 4, time.Millisecond, func() error { return nil })
	if err != nil || n <= 0 {
		t.Errorf("n = %v, err = %v, want err == nil && n > 0", n, err)
	}
	broken := errors.New("broken")
	if _, err := measureRate(t.Context(), "x", 4, time.Hour, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("err = %v, want errors.Is(err, broken)", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := countRate(ctx, 4, time.Hour, func() error {
		cancel()
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
	}
	if _, err := repeatCalls(ctx, 4, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
	}
}

// Names are for programs: each is unique, has a known unit, and every yardstick belongs to a
// figure.
func TestNames(t *testing.T) {
	units := []string{"ms", "us", "1/s", "bytes", "tokens", "sessions", "percent"}
	seen := map[string]bool{}
	check := func(r row) {
		if seen[r.name] {
			t.Errorf("%s is there twice", r.name)
		}
		seen[r.name] = true
		if !slices.Contains(units, r.unit) || r.what == "" ||
			strings.Trim(r.name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("r = %+v", r)
		}
	}
	for _, g := range listGroups() {
		for _, r := range g.rows {
			check(r)
		}
	}
	for _, y := range listYardsticks() {
		if check(y); y.beside != "" && !seen[y.beside] {
			t.Errorf("%s stands beside %s, which isn't there", y.name, y.beside)
		}
	}
	for _, name := range strings.Fields(
		`cold_start fresh_ts_engine fresh_ts execute_stdio execute_http tool_call parallel_100x50ms session_reuse suspend_ts suspend_py
		resume_ts resume_py resume_memory_ts resume_memory_py fork_ts fork_py suspended_bytes suspended_bytes_py suspended_memory_bytes sessions_per_gib_ts
		sessions_per_gib_py executions_per_second_ts executions_per_second_py executions_per_second_ts_all cpu_fib_ts cpu_aggregate_py fresh_py search_10000 record_write
		record_append_per_second record_verify record_prove record_bytes record_cost_percent`) {
		if !seen[name] {
			t.Errorf("no %s", name)
		}
	}
}

func TestReport(t *testing.T) {
	r := newReport(Config{Version: "v1"})
	r.addGroup(group{title: "start", rows: startRows}, []Figure{
		{Name: "process_start", Unit: "ms", Median: 2, P99: 4000, N: 1100},
		{Name: "cold_start", Unit: "ms", Median: 30, P99: 40, N: 5},
	})
	r.addGroup(group{title: "density", rows: densityRows[2:7]}, []Figure{
		{Name: "suspended_memory_bytes", Unit: "bytes", N: 1},
		{Name: "sessions_per_gib_ts", Unit: "sessions", Median: 6000.123, P99: 6000.123, N: 1},
		{Name: "sessions_per_gib_py", Unit: "sessions", Median: 500, P99: 500, N: 1},
		{Name: "executions_per_second_ts", Unit: "1/s", Why: "no\nclock"},
	})
	r.Yardsticks = []Figure{{Name: "node_start", Unit: "ms", Median: 26, P99: 30, N: 3},
		{Name: "other_call", Unit: "ms", Median: .0125, P99: .02, N: 9}}
	r.notes = []string{"other_call: the round trip of x"}
	var b strings.Builder
	r.Write(&b)
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"biplane v1, ", "cold_start 30 ms 40 ms 5 15 ms × 2 biplane run",
		"first line: store, engine, sandbox, record · node_start 26 ms 30 ms 3 – node,",
		"process_start 2 ms 4 s 1,100 – ", "suspended_memory_bytes 0 B 0 B 1 0 ✓",
		"sessions_per_gib_ts 6,000 6,000 1 5,000 ✓", "sessions_per_gib_py 500 500 1 1,000 × 0.5",
		"executions_per_second_ts – – – 5,000/s not measured: no clock",
		"executions_per_second_py – – – 200/s not measured: it was not measured", "others median",
		"· other_call 12.5 µs 20 µs 9",
		"other_call: the round trip of x",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// The JSON form is for programs: exactly these keys.
func TestReportJSON(t *testing.T) {
	text, err := json.Marshal(&Report{Figures: []Figure{{Name: "a", Unit: "ms", Median: 1.23456, P99: 2, N: 3},
		{Name: "b", Unit: "us", Why: "not here"}}})
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	want := `{"figures":[{"name":"a","unit":"ms","median":1.235,"p99":2,"n":3},{"name":"b","unit":"us","median":null,` +
		`"p99":null,"n":0,"why":"not here"}],"yardsticks":[]}`
	if string(text) != want {
		t.Errorf("text = %s, want string(text) == want", text)
	}
}

// The parts that are measured on their own, in the test process: all their figures are present.
func TestParts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := &runner{cfg: Config{Quick: true, EngineArgs: []string{engineCommand}}, dir: t.TempDir()}
	for _, g := range listGroups() {
		if !slices.Contains([]string{"engine", "child", "density", "search", "record"}, g.short) {
			continue
		}
		figures, err := g.run(r, t.Context())
		if err != nil {
			t.Fatalf("g.short = %v, err = %v, want nil", g.short, err)
		}
		rep := newReport(r.cfg)
		rep.addGroup(g, figures)
		for _, f := range rep.Figures {
			t.Logf("%s: %v %s %s", f.Name, f.Median, f.Unit, f.Why)
			if f.Median < 0 || f.N == 0 && f.Why == "" || f.Why == "it was not measured" {
				t.Errorf("g.short = %s, f = %+v, want f.Median >= 0 && (f.N != 0 || f.Why != \"\") && "+
					"f.Why != \"it was not measured\"", g.short, f)
			}
		}
	}
}

func TestLarge(t *testing.T) {
	names := map[string]bool{}
	for _, s := range generateTools(10_000) {
		for _, tl := range s.Tools {
			names[tl.Path()] = true
			if !json.Valid(tl.InputSchema) {
				t.Fatalf("string(tl.InputSchema) = %v, want json.Valid(tl.InputSchema)", string(tl.InputSchema))
			}
		}
	}
	if len(names) != 10_000 {
		t.Errorf("%d tools", len(names))
	}
}

// The same programs return the same results in Node and Python, if they are installed.
func TestCPUElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	r := &runner{cfg: Config{Quick: true}, dir: t.TempDir()}
	for _, c := range []struct{ program, ext, text, flag, code string }{
		{"node", "js", cpuTS, "-e", nodeCPU}, {"python3", "py", cpuPY, "-c", pythonCPU},
	} {
		if _, err := exec.LookPath(c.program); err != nil {
			t.Log(c.program, "is not installed")
			continue
		}
		figures, err := r.computeElsewhere(t.Context(), c.program, c.program, c.ext, c.text, []string{c.flag, c.code})
		if err != nil || len(figures) != len(computations) {
			t.Fatalf("figures = %v, err = %v, want err == nil && len(figures) == len(computations)", figures, err)
		}
		for _, f := range figures {
			if f.Why != "" || f.Median <= 0 {
				t.Errorf(`f = %+v, want f.Why == "" && f.Median > 0`, f)
			}
		}
	}
}

func TestParseGateway(t *testing.T) {
	g, err := ParseGateway(`other=npx -y "some server" --flag='a b' ''`)
	if err != nil || g.Name != "other" ||
		!slices.Equal(g.Argv, []string{"npx", "-y", "some server", "--flag=a b", ""}) {
		t.Errorf("g = %+v, err = %v, want other with five words", g, err)
	}
	g, err = ParseGateway("web=http://127.0.0.1:1/mcp")
	if err != nil || g.URL != "http://127.0.0.1:1/mcp" || g.Argv != nil {
		t.Errorf("g = %+v, err = %v, want one with a URL", g, err)
	}
	for _, s := range []string{"", "x", "=npx", "Bad Name=npx", "x=", "x=  ", `x=npx "a`} {
		if _, err := ParseGateway(s); tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("s = %q, err = %v, want tool.AsError(err).Kind == tool.Invalid", s, err)
		}
	}
}

func TestAttempts(t *testing.T) {
	has := func(names ...string) func(string) bool {
		return func(s string) bool { return slices.Contains(names, s) }
	}
	for _, c := range []struct {
		name     string
		required []string
		has      func(string) bool
		want     int
	}{
		{"execute_code", []string{"code"}, has("code"), 2},
		{"run_python", []string{"script", "environment"}, has("script", "environment"), 0},
		{"echo", []string{"message"}, has("message"), 1},
		{"list_things", nil, has(), 1},
		{"delete_all", nil, has(), 0},
		{"get_thing", []string{"id"}, has("id"), 0},
	} {
		if got := listAttempts(c.name, c.required, c.has); len(got) != c.want {
			t.Errorf("%s, got = %v, want len(got) == c.want", c.name, got)
		}
	}
}

func TestAnswerIn(t *testing.T) {
	for _, c := range []struct {
		body   string
		events bool
		want   string
	}{
		{`{"id":1,"result":{"a":1}}`, false, `{"a":1}`},
		{"event: message\ndata: {\"method\":\"x\"}\n\ndata: {\"result\":2}\n\n", true, `2`},
	} {
		if got, err := answerIn([]byte(c.body), c.events); err != nil || string(got) != c.want {
			t.Errorf("got = %s, err = %v, want err == nil && string(got) == c.want", got, err)
		}
	}
	if _, err := answerIn([]byte(`{"error":{"message":"no such tool"}}`), false); err == nil ||
		err.Error() != "no such tool" {
		t.Errorf(`err = %v, want err != nil && err.Error() == "no such tool"`, err)
	}
	if _, err := answerIn([]byte("nothing"), true); err == nil {
		t.Error("an answer in nothing")
	}
}

func TestRunErrors(t *testing.T) {
	_, err := Run(t.Context(), Config{Biplane: []string{"/nonexistent/biplane"}, Quick: true})
	if tool.AsError(err).Kind != tool.Unavailable {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Unavailable", err)
	}
	if _, err := Run(t.Context(), Config{Only: []string{"everything"}}); tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Invalid", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Config{Biplane: []string{"/nonexistent/biplane"}}); tool.AsError(err).Kind != tool.Canceled {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Canceled", err)
	}
}
