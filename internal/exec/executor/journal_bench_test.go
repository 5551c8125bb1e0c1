//go:build unix

package executor_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/executor"
)

// BenchmarkJournal measures the cost of the journal: for a program without calls, one with ten
// read-only calls, and one with ten calls that may write.
func BenchmarkJournal(b *testing.B) {
	for _, c := range []struct{ name, code string }{
		{"none", `return 1 + 1`},
		{"read10", `return (await Promise.all([...Array(10).keys()].map((n) => box.read({ n })))).length`},
		{"write10", `return (await Promise.all([...Array(10).keys()].map((n) => box.write({ n })))).length`},
		{"write10one", `let k = 0; for (let n = 0; n < 10; n++) k += (await box.write({ n })).args.n; return k`},
	} {
		for _, with := range []bool{false, true} {
			name := c.name + "/without"
			if with {
				name = c.name + "/with"
			}
			b.Run(name, func(b *testing.B) {
				s := newScene(b, func(cfg *executor.Config) {
					if !with {
						cfg.Journal = nil
					}
				})
				before := cpuTime(b)
				for b.Loop() {
					if _, res, err := s.execute(map[string]any{"code": c.code}); err != nil || res.IsError {
						b.Fatalf("err = %v, want err == nil && !res.IsError", err)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

// cpuTime returns the CPU time that this process has used, which is affected less by other
// processes than wall time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatalf("syscall.Getrusage: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
