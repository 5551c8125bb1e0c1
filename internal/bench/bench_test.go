package bench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestTimes(t *testing.T) {
	var took []time.Duration
	for i := 100; i > 0; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	if f := times("x", took); f.P50 != 50 || f.P99 != 99 || f.Samples != 100 {
		t.Errorf("%+v", f)
	}
	if f := times("x", took[:3]); f.P50 != 2 || f.P99 != 0 { // three samples have no 99th percentile
		t.Errorf("%+v", f)
	}
	if f := times("x", took[:1]); f.P50 != 1 {
		t.Errorf("%+v", f)
	}
}

func TestRate(t *testing.T) {
	n, err := rate(t.Context(), 4, time.Millisecond, func() error { return nil })
	if err != nil || n <= 0 {
		t.Error(n, err)
	}
	broken := errors.New("broken")
	if _, err := rate(t.Context(), 4, time.Hour, func() error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := rate(ctx, 4, time.Hour, func() error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := repeat(ctx, 4, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReport(t *testing.T) {
	r := newReport(Config{Version: "v1"})
	r.add("times", []Figure{
		{Name: "one", P50: 2, P99: 4000, Samples: 100},
		{Name: "other", P50: 0.5, PerSecond: 12345.6},
		{Name: "index", P50: 9, unlike: true},
		{Name: "gone", Skipped: "no such clock"},
	})
	r.add("rates", []Figure{{Name: "a", PerSecond: 10}, {Name: "b", PerSecond: 25}})
	r.add("amounts", []Figure{{Name: "c", Amount: 2786, Unit: "tokens"}, {Name: "d", Amount: 528, Unit: "tokens"}})
	for _, want := range []struct {
		group, figure int
		against       float64
	}{{0, 0, 0}, {0, 1, .25}, {0, 2, 0}, {0, 3, 0}, {1, 1, 2.5}, {2, 1, .19}} {
		if got := r.Groups[want.group].Figures[want.figure].Against; got != want.against {
			t.Errorf("%v: against %v", want, got)
		}
	}
	var b strings.Builder
	r.Write(&b)
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"biplane v1, ", "one 2 ms 4 s – – –", "other 500 µs – 12,346 – × 0.25", "index 9 ms – – – –", "gone not measured: no such clock",
		"c – – – 2,786 tokens –", "d – – – 528 tokens × 0.19",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// The parts that are measured by themselves, in the process of the test.
func TestParts(t *testing.T) {
	r := &runner{cfg: Config{Quick: true}, dir: t.TempDir()}
	for _, m := range []measure{{"search", (*runner).search}, {"records", (*runner).records}, {"sandboxes", (*runner).sandboxes}} {
		figures, err := m.run(r, t.Context())
		if err != nil {
			t.Fatal(m.name, err)
		}
		for _, f := range figures {
			if f.P50 <= 0 && f.PerSecond <= 0 && f.Skipped == "" {
				t.Errorf("%s: %+v", m.name, f)
			}
		}
	}
}

func TestLarge(t *testing.T) {
	names := map[string]bool{}
	for _, s := range large(10_000) {
		for _, tl := range s.Tools {
			names[tl.Path()] = true
			if !json.Valid(tl.InputSchema) {
				t.Fatal(string(tl.InputSchema))
			}
		}
	}
	if len(names) != 10_000 {
		t.Errorf("%d tools", len(names))
	}
}

func TestRunErrors(t *testing.T) {
	_, err := Run(t.Context(), Config{Biplane: []string{"/nonexistent/biplane"}, Quick: true})
	if tool.AsError(err).Kind != tool.Unavailable {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Config{Biplane: []string{"/nonexistent/biplane"}}); tool.AsError(err).Kind != tool.Canceled {
		t.Error(err)
	}
}
