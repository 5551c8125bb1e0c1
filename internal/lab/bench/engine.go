package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
)

// A lab measures one driver.
type lab struct {
	*runner
	driver sandbox.Driver
	caps   sandbox.Capabilities
	suffix string // of names of figures: "_engine" inside the engine
}

// A closingDriver is a driver that must be closed.
type closingDriver interface {
	sandbox.Driver
	io.Closer
}

// with calls f with a lab for the driver that made returns. If the driver can't run here, all rows
// are missing for that reason.
func (r *runner) with(ctx context.Context, rows []row, suffix string, made func() (closingDriver, error), f func(*lab) ([]Figure, error)) (_ []Figure, err error) {
	d, err := made()
	if err != nil {
		return unable(rows, err), nil
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	caps, err := d.Probe(ctx)
	if err != nil {
		return unable(rows, err), nil
	}
	return f(&lab{runner: r, driver: d, caps: caps, suffix: suffix})
}

func unable(rows []row, err error) []Figure {
	var out []Figure
	for _, row := range rows {
		out = append(out, missing(err.Error(), row.name)...)
	}
	return out
}

func engineDriver() (closingDriver, error) { return wasm.New(wasm.Config{}) }

// inside measures the engine in this process.
func (r *runner) inside(ctx context.Context) ([]Figure, error) {
	return r.with(ctx, engineRows, "_engine", engineDriver, func(l *lab) ([]Figure, error) { return l.stages(ctx) })
}

// through measures the engine in its child process.
func (r *runner) through(ctx context.Context) ([]Figure, error) {
	return r.with(ctx, childRows, "", r.childDriver, func(l *lab) ([]Figure, error) { return l.stages(ctx) })
}

// runtimes are the drivers' names of the languages.
var runtimes = map[string]string{"ts": "js", "py": "python"}

// has reports whether the driver runs a language.
func (l *lab) has(lang string) bool { return slices.Contains(l.caps.Runtimes, runtimes[lang]) }

// only says why a language is missing.
func (l *lab) only() string {
	return "the engine of this build runs " + strings.Join(l.caps.Runtimes, ", ") + " only"
}

// name returns the name of a figure: fresh_ts, fresh_ts_engine.
func (l *lab) name(stage, lang string) string {
	if stage == toolCall && lang == "ts" && l.suffix == "" {
		return toolCall
	}
	return stage + "_" + lang + l.suffix
}

// stages measures all stages of the driver, in all languages.
func (l *lab) stages(ctx context.Context) ([]Figure, error) {
	var out []Figure
	for _, lang := range languages {
		for _, m := range []struct {
			names []string
			do    func(context.Context, string) ([]Figure, error)
		}{
			{[]string{fresh}, l.fresh},
			{[]string{toolCall}, l.toolCall},
			{[]string{suspend, resume, resumeMemory, fork, forkValue}, l.sleep},
		} {
			names := make([]string, len(m.names))
			for i, stage := range m.names {
				names[i] = l.name(stage, lang)
			}
			if !l.has(lang) {
				out = append(out, missing(l.only(), names...)...)
				continue
			}
			figures, err := m.do(ctx, lang)
			if ctx.Err() != nil {
				return nil, err
			}
			if err != nil { // report it, and measure the others
				figures = missing(err.Error(), names...)
			}
			out = append(out, figures...)
		}
	}
	return out, nil
}

// create returns a running sandbox.
func (l *lab) create(ctx context.Context, lang string) (*guest, error) {
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return nil, err
	}
	return open(ctx, box, nil), nil
}

// first runs 1 + 1 in a fresh sandbox, and returns the time until the host had its value.
func (l *lab) first(ctx context.Context, lang string, one *program.Program) (_ time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	start := time.Now()
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	v, at, err := once(ctx, box, one)
	if err != nil || v != "2" {
		return 0, errors.Join(err, fmt.Errorf("1 + 1 is %q", v))
	}
	return at.Sub(start), nil
}

func (l *lab) fresh(ctx context.Context, lang string) ([]Figure, error) {
	p, err := prepare(lang, one[lang])
	if err != nil {
		return nil, err
	}
	do := func() (time.Duration, error) { return l.first(ctx, lang, p) }
	if _, err := collectDurations(ctx, l.rounds(100), do); err != nil { // warm up
		return nil, err
	}
	took, err := collectDurations(ctx, l.rounds(500), do)
	if err != nil {
		return nil, err
	}
	return []Figure{durationFigure(l.name(fresh, lang), took)}, nil
}

// toolCall measures a tool call that the host answers as soon as it reads the call. It measures
// from writing an answer to the guest's next call. That includes the driver's whole path in both
// directions, but not the gateway, the audit log or an upstream.
func (l *lab) toolCall(ctx context.Context, lang string) (_ []Figure, err error) {
	n := l.rounds(5000)
	p, err := prepare(lang, fmt.Sprintf(manyTool[lang], n))
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	last := time.Time{}
	call := func(*sandbox.GuestCall) json.RawMessage {
		now := time.Now()
		if !last.IsZero() {
			took = append(took, now.Sub(last))
		}
		last = now
		return json.RawMessage(`{"text":"x"}`)
	}
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return nil, err
	}
	g := open(ctx, box, call)
	defer func() { err = errors.Join(err, g.close()) }()
	v, err := g.eval(p)
	if err != nil {
		return nil, err
	}
	if v != `"done"` || len(took) != n-1 {
		return nil, fmt.Errorf("it made %d calls, not %d, and gave %s", len(took)+1, n, v)
	}
	return []Figure{durationFigure(l.name(toolCall, lang), took)}, nil
}

// session returns a paused session after the typical program.
func (l *lab) session(ctx context.Context, lang string) (*guest, error) {
	p, err := prepare(lang, typical[lang])
	if err != nil {
		return nil, err
	}
	g, err := l.create(ctx, lang)
	if err != nil {
		return nil, err
	}
	v, err := g.eval(p)
	if err == nil && len(v) < 20 {
		err = fmt.Errorf("the typical program gave %s", v)
	}
	if err == nil {
		err = g.pause()
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// value opens a sandbox again and reads a variable of the typical program in it.
func (l *lab) value(ctx context.Context, box sandbox.Sandbox, variable *program.Program) (*guest, error) {
	g := open(ctx, box, nil)
	v, err := g.eval(variable)
	if err == nil && v != "4" {
		err = fmt.Errorf("the session lost its state: %s", v)
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// timeSuspend returns the time to pack and store a session after another program ran in it: an
// unchanged session would need no work.
func (l *lab) timeSuspend(ctx context.Context, snap sandbox.Snapshotter, read *program.Program, keep func([]byte) error) (time.Duration, error) {
	box, ok := snap.(sandbox.Sandbox)
	if !ok {
		return 0, errNoSnapshot
	}
	g := open(ctx, box, nil)
	_, err := g.eval(read)
	if err := errors.Join(err, g.pause()); err != nil {
		return 0, err
	}
	start := time.Now()
	packed, err := snap.Snapshot(ctx)
	if err == nil {
		err = keep(packed)
	}
	return time.Since(start), err
}

// sleep measures suspending, resuming and forking a session.
func (l *lab) sleep(ctx context.Context, lang string) (_ []Figure, err error) {
	g, err := l.session(ctx, lang)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	read, err := prepare(lang, variable[lang])
	if err != nil {
		return nil, err
	}
	snap, canSnap := g.box.(sandbox.Snapshotter)
	restorer, canRestore := l.driver.(sandbox.Restorer)
	var out []Figure
	if canSnap && canRestore {
		if out, err = l.disk(ctx, lang, snap, restorer, read); err != nil {
			return nil, err
		}
	} else {
		out = missing(errNoSnapshot.Error(), l.name(suspend, lang), l.name(resume, lang), l.name(resumeMemory, lang))
	}
	forker, ok := g.box.(sandbox.Forker)
	if !ok {
		return append(out, missing("this driver can't fork its sandboxes", l.name(fork, lang), l.name(forkValue, lang))...), nil
	}
	var copied []time.Duration
	valued, err := collectDurations(ctx, l.rounds(300), func() (time.Duration, error) {
		start := time.Now()
		box, err := forker.Fork(ctx)
		if err != nil {
			return 0, err
		}
		copied = append(copied, time.Since(start))
		c, err := l.value(ctx, box, read)
		if err != nil {
			return 0, err
		}
		return time.Since(start), c.close()
	})
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	return append(out, durationFigure(l.name(fork, lang), copied), durationFigure(l.name(forkValue, lang), valued)), nil
}

// disk measures the way to a file and back.
func (l *lab) disk(ctx context.Context, lang string, snap sandbox.Snapshotter, restorer sandbox.Restorer, read *program.Program) ([]Figure, error) {
	key, err := secret.Open(filepath.Join(l.dir, "key"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, "session-"+lang)
	const purpose = "bench"
	suspended, err := collectDurations(ctx, l.rounds(300), func() (time.Duration, error) {
		return l.timeSuspend(ctx, snap, read, func(packed []byte) error { return os.WriteFile(file, key.Seal(purpose, packed), 0o600) })
	})
	if err != nil {
		return nil, fmt.Errorf("suspend: %w", err)
	}
	packed, err := snap.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("suspend: %w", err)
	}
	back := func(packed []byte) (*guest, error) {
		box, err := restorer.Restore(ctx, sandbox.Spec{Owner: "bench"}, packed)
		if err != nil {
			return nil, err
		}
		return l.value(ctx, box, read)
	}
	resumed, err := collectDurations(ctx, l.rounds(300), func() (time.Duration, error) {
		start := time.Now()
		sealed, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		packed, err := key.Unseal(purpose, sealed)
		if err != nil {
			return 0, err
		}
		g, err := back(packed)
		if err != nil {
			return 0, err
		}
		return time.Since(start), g.close()
	})
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	memory, err := collectDurations(ctx, l.rounds(300), func() (time.Duration, error) {
		start := time.Now()
		g, err := back(packed)
		if err != nil {
			return 0, err
		}
		return time.Since(start), g.close()
	})
	if err != nil {
		return nil, fmt.Errorf("resume from memory: %w", err)
	}
	return []Figure{durationFigure(l.name(suspend, lang), suspended), durationFigure(l.name(resume, lang), resumed), durationFigure(l.name(resumeMemory, lang), memory)}, nil
}

// often measures fresh sandboxes per second: created, run to the first value, and closed.
func (l *lab) often(ctx context.Context, lang, name string, workers int) (Figure, error) {
	p, err := prepare(lang, one[lang])
	if err != nil {
		return Figure{}, err
	}
	do := func() error { _, err := l.first(ctx, lang, p); return err }
	if _, err := repeat(ctx, l.rounds(50), do); err != nil { // warm up
		return Figure{}, err
	}
	return measureRate(ctx, name, workers, l.span(2*time.Second), do)
}
