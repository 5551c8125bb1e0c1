package bench

import (
	"context"
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Figure is one row: a duration, a rate per second, or a quantity.
type Figure struct {
	Name   string  // as in the table of names
	Unit   string  // "ms", "us", "1/s", "bytes", "tokens", "sessions", "percent"
	Median float64 // of N samples
	P99    float64 // of N samples, by nearest rank: the worst if N is under 100
	N      int
	Why    string // why it was not measured; if set, there are no numbers
}

// MarshalJSON writes {"name", "unit", "median", "p99", "n"}. If the figure was not measured, the
// numbers are null, and "why" is the reason.
func (f Figure) MarshalJSON() ([]byte, error) {
	if f.Why != "" {
		return json.Marshal(struct {
			Name   string   `json:"name"`
			Unit   string   `json:"unit"`
			Median *float64 `json:"median"`
			P99    *float64 `json:"p99"`
			N      int      `json:"n"`
			Why    string   `json:"why"`
		}{Name: f.Name, Unit: f.Unit, Why: f.Why})
	}
	return json.Marshal(struct {
		Name   string  `json:"name"`
		Unit   string  `json:"unit"`
		Median float64 `json:"median"`
		P99    float64 `json:"p99"`
		N      int     `json:"n"`
	}{f.Name, f.Unit, roundFigure(f.Median), roundFigure(f.P99), f.N})
}

// durationFigure returns a Figure of durations, in the unit of its name.
func durationFigure(name string, took []time.Duration) Figure {
	f := Figure{Name: name, Unit: unitOf(name), N: len(took)}
	if len(took) == 0 {
		f.Why = "no samples"
		return f
	}
	took = slices.Clone(took)
	slices.Sort(took)
	in := time.Millisecond
	if f.Unit == "us" {
		in = time.Microsecond
	}
	f.Median = float64(percentile(took, .5)) / float64(in)
	f.P99 = float64(percentile(took, .99)) / float64(in)
	return f
}

// numberFigure returns a Figure of numbers that are already in its unit.
func numberFigure(name string, all ...float64) Figure {
	f := Figure{Name: name, Unit: unitOf(name), N: len(all)}
	if len(all) == 0 {
		f.Why = "no samples"
		return f
	}
	all = slices.Clone(all)
	slices.Sort(all)
	f.Median, f.P99 = percentile(all, .5), percentile(all, .99)
	return f
}

// missingFigures returns Figures that were not measured.
func missingFigures(why string, names ...string) []Figure {
	var out []Figure
	for _, n := range names {
		out = append(out, Figure{Name: n, Unit: unitOf(n), Why: why})
	}
	return out
}

// percentile returns the percentile by nearest rank. all must be sorted and not empty.
func percentile[T any](all []T, p float64) T {
	return all[max(0, int(math.Ceil(p*float64(len(all))))-1)]
}

// repeatCalls calls f n times in sequence, and returns the durations.
func repeatCalls(ctx context.Context, n int, f func() error) ([]time.Duration, error) {
	return collectDurations(ctx, n, func() (time.Duration, error) {
		start := time.Now()
		err := f()
		return time.Since(start), err
	})
}

// collectDurations calls f n times. f returns the duration to count.
func collectDurations(ctx context.Context, n int, f func() (time.Duration, error)) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := f()
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

// countRate calls f repeatedly for a duration, from a number of goroutines, and returns the rate
// per second.
func countRate(ctx context.Context, workers int, d time.Duration, f func() error) (float64, error) {
	counts, errs := make([]int, workers), make([]error, workers)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			// each calls it at least once, even if it starts late
			for errs[i] == nil && (counts[i] == 0 || time.Since(start) < d) {
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = f()
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	sum := 0
	for i := range workers {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += counts[i]
	}
	return float64(sum) / took.Seconds(), nil
}

// rateSamples is the number of samples of a rate, so that a rate has a median, too.
const rateSamples = 5

// measureRate returns a Figure of the rate of f per second. The samples take d in total.
func measureRate(ctx context.Context, name string, workers int, d time.Duration, f func() error) (Figure, error) {
	var all []float64
	for range rateSamples {
		v, err := countRate(ctx, workers, d/rateSamples, f)
		if err != nil {
			return Figure{}, err
		}
		all = append(all, v)
	}
	return numberFigure(name, all...), nil
}

// busyWorkers returns the number of goroutines that keep all cores busy, although each sometimes
// waits for answers.
func busyWorkers() int { return 4 * runtime.GOMAXPROCS(0) }
