package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/biplane-dev/biplane/api"
)

// A liveRun shows what a program does while Run waits for it: its console output and, on a
// terminal, its calls.
type liveRun struct {
	app   *app
	ctx   context.Context // for Run
	stop  context.CancelFunc
	work  sync.WaitGroup
	calls bool // show calls, too

	mu    sync.Mutex
	shown []api.ConsoleLine
	ended map[int]bool // the calls that were shown
}

// followRun returns a liveRun. With an output for programs, it shows nothing.
func (a *app) followRun(ctx context.Context, client *api.Client, output string) *liveRun {
	l := &liveRun{app: a, ctx: ctx, stop: func() {}, calls: isTerminal(a.Err), ended: map[int]bool{}}
	if output != "table" {
		return l
	}
	following, stop := context.WithCancel(ctx)
	l.stop = stop
	var once sync.Once
	l.ctx = api.WithStart(ctx, func(id string) {
		once.Do(func() { l.work.Go(func() { l.followExecution(following, client, id) }) })
	})
	return l
}

// followAfter is how long a program runs before its output is shown meanwhile. Most programs end
// before, and following them would only delay their answer.
const followAfter = 50 * time.Millisecond

// followExecution shows an execution until it ends, waits for a person, or ctx is done. Errors are
// left to Run.
func (l *liveRun) followExecution(ctx context.Context, client *api.Client, id string) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(followAfter):
	}
	version := "none"
	for ctx.Err() == nil {
		d, err := client.Watch(ctx, id, version)
		if err != nil || ctx.Err() != nil || d.State != api.StateRunning {
			return
		}
		version = d.Version
		l.showChanges(d)
	}
}

// showChanges prints what is new.
func (l *liveRun) showChanges(d *api.ExecutionDetail) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range d.Console[min(len(l.shown), len(d.Console)):] {
		writeLines(l.app.Err, line.Level+": ", stripControls(line.Text))
		l.shown = append(l.shown, line)
	}
	if !l.calls {
		return
	}
	for _, c := range d.Calls {
		if c.State == api.CallPending || l.ended[c.Call] {
			continue
		}
		l.ended[c.Call] = true
		what := fmt.Sprintf("%d ms", c.MS)
		if c.Error != "" {
			what = shortenLine(c.Error, 100)
		}
		fmt.Fprintf(l.app.Err, "call %d: %s: %s\n", c.Call, cleanLine(c.Tool), what)
	}
}

// stopFollowing waits until nothing more is shown.
func (l *liveRun) stopFollowing() {
	l.stop()
	l.work.Wait()
}

// dropShown removes the console lines that were shown from the result of an execution.
func (l *liveRun) dropShown(x *api.Execution) {
	if len(l.shown) > len(x.Console) {
		return
	}
	for i, line := range l.shown {
		if x.Console[i] != line {
			return // the result has other lines: show all of them
		}
	}
	x.Console = x.Console[len(l.shown):]
}

// isTerminal reports whether output goes to a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
