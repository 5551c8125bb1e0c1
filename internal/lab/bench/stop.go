package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// endless are programs that never end, by the figure that measures how soon they are stopped.
var endless = []struct {
	name, lang string
	code       []string
}{
	{"stop_ts", "ts", []string{
		`for (;;);`,
		`for (;;) { try { for (;;); } catch { for (;;); } finally { for (;;); } }`,
		`for (;;) await null;`,
		`const f = (): Promise<unknown> => Promise.resolve().then(f); await f();`,
	}},
	{"stop_builtin_ts", "ts", []string{ // the engine doesn't check for interrupts inside these
		`/^(([a-z])+.)+[A-Z]([a-z])+$/.test("a".repeat(60))`,
		`7n ** 3_000_000n`,
		`Array.from({ length: 4_000_000 }, (_, i) => (i * 7919) % 4_000_037).sort((a, b) => a - b)[0]`,
		`for (;;) "x".repeat(20_000_000).indexOf("xy")`,
	}},
	{"stop_py", "py", []string{
		"while True: pass",
		"while True:\n  try:\n    while True: pass\n  except BaseException: pass",
		"3 ** 30_000_000",
	}},
}

// overdue is the deadline of a program: longer than a start, even on a busy machine.
const overdue = 20 * time.Millisecond

// measureStops measures how long an endless program runs past its deadline, until the host can
// continue. It measures while nothing else runs, and while another principal's programs occupy all
// processors.
func (r *runner) measureStops(ctx context.Context) ([]Figure, error) {
	return r.withLab(ctx, stopRows, "", r.childDriver, func(l *lab) ([]Figure, error) {
		quiet, err := l.stopAll(ctx, "")
		if err != nil {
			return nil, err
		}
		calm, err := l.startCrowd(ctx)
		if err != nil {
			return nil, err
		}
		busy, err := l.stopAll(ctx, "_busy")
		return append(quiet, busy...), errors.Join(err, calm())
	})
}

// stopAll measures the figures of all endless programs. suffix is appended to their names.
func (l *lab) stopAll(ctx context.Context, suffix string) ([]Figure, error) {
	var out []Figure
	for _, e := range endless {
		if !l.hasLanguage(e.lang) {
			out = append(out, missingFigures(l.missingLanguage(), e.name+suffix)...)
			continue
		}
		var took []time.Duration
		for _, code := range e.code {
			p, err := prepareProgram(e.lang, code)
			if err != nil {
				return nil, err
			}
			all, err := collectDurations(ctx, max(1, l.countRounds(20)/len(e.code)), func() (time.Duration, error) {
				return l.stop(ctx, e.lang, p)
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", code, err)
			}
			took = append(took, all...)
		}
		out = append(out, durationFigure(e.name+suffix, took))
	}
	return out, nil
}

// stop runs an endless program, and returns how long after its deadline it ended.
func (l *lab) stop(ctx context.Context, lang string, p *program.Program) (_ time.Duration, err error) {
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	until := time.Now().Add(overdue)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	v, _, err := runOnce(ctx, box, p)
	took := time.Since(until)
	switch {
	case err == nil:
		return 0, fmt.Errorf("it ended, with %.100s", v)
	case !errors.Is(err, context.DeadlineExceeded):
		return 0, err
	}
	return took, nil
}

// startCrowd makes another principal's programs occupy all processors, until calm is called.
func (l *lab) startCrowd(ctx context.Context) (calm func() error, err error) {
	p, err := prepareProgram("ts", "for (;;);")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	errs := make([]error, runtime.NumCPU())
	for i := range errs {
		wg.Go(func() {
			for ctx.Err() == nil && errs[i] == nil { // the CPU time of each program is limited
				errs[i] = l.runEndless(ctx, p)
			}
		})
	}
	return func() error {
		cancel()
		wg.Wait()
		return errors.Join(errs...)
	}, nil
}

// runEndless runs an endless program until ctx is done, or its limit is reached.
func (l *lab) runEndless(ctx context.Context, p *program.Program) (err error) {
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes["ts"], Owner: "others"})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	_, _, err = runOnce(ctx, box, p)
	var limit *sandbox.LimitError
	if ctx.Err() != nil || errors.As(err, &limit) {
		return nil
	}
	return errors.Join(err, errors.New("an endless loop ended"))
}
