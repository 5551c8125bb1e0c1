package bench

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Figure is one row: how long something takes, how often it can be done, or how much it is.
type Figure struct {
	Name      string  `json:"name"`
	P50       float64 `json:"p50_ms,omitempty"`     // milliseconds
	P99       float64 `json:"p99_ms,omitempty"`     // milliseconds; none where there are too few samples for it
	Samples   int     `json:"samples,omitempty"`    // that P50 and P99 are of
	PerSecond float64 `json:"per_second,omitempty"` // how often, in all
	Amount    float64 `json:"amount,omitempty"`
	Unit      string  `json:"unit,omitempty"`    // of Amount: "MiB", "tokens"
	Against   float64 `json:"against,omitempty"` // this row as a part or a multiple of the first of its group, or of what it is paired with
	Skipped   string  `json:"skipped,omitempty"` // why it was not measured
	unlike    bool    // it is not compared with the first of its group
}

// fewest is how many samples a 99th percentile needs to be one.
const fewest = 50

// times makes a Figure of how long each of some rounds took.
func times(name string, took []time.Duration) Figure {
	slices.Sort(took)
	f := Figure{Name: name, Samples: len(took), P50: ms(percentile(took, .5))}
	if len(took) >= fewest {
		f.P99 = ms(percentile(took, .99))
	}
	return f
}

// percentile is the nearest rank's; took is sorted and not empty.
func percentile(took []time.Duration, p float64) time.Duration {
	return took[max(0, int(math.Ceil(p*float64(len(took))))-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func amount(name string, v float64, unit string) Figure {
	return Figure{Name: name, Amount: v, Unit: unit}
}

// repeat does f n times, one after the other.
func repeat(ctx context.Context, n int, f func() error) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// rate does f over and over for a while, from as many goroutines as workers, and gives how often a second it was done.
func rate(ctx context.Context, workers int, d time.Duration, f func() error) (float64, error) {
	counts, errs := make([]int, workers), make([]error, workers)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for time.Since(start) < d && errs[i] == nil {
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

// busy is how many goroutines keep all cores at work, where each waits for an answer at times.
func busy() int { return 4 * runtime.GOMAXPROCS(0) }
