package queue

import (
	"context"
	"math"
	"runtime"
)

// LargeWork is the size in bytes above which the host's work on data waits for a turn.
const LargeWork = 32 << 10

// NewWork returns a queue for the work of the host on the data of principals, such as checking
// arguments or converting results. Half of the processors are left to everything else. How much
// work waits is bounded by the number of calls.
func NewWork() *Fair { return New(max(1, runtime.GOMAXPROCS(0)/2), math.MaxInt) }

// DoWork calls f, which processes size bytes for a principal. If they are many, it waits for a slot
// before. If ctx ends meanwhile, it returns an error, and doesn't call f. In a nil queue, no work
// waits.
func (q *Fair) DoWork(ctx context.Context, principal string, size int, f func()) error {
	if q != nil && size > LargeWork {
		if err := q.Enter(ctx, principal); err != nil {
			return err
		}
		defer q.Leave(principal)
	}
	f()
	return nil
}
