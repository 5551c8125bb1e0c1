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

// withLab calls f with a lab for the driver that made returns. If the driver can't run here, all
// rows are missing for that reason.
func (r *runner) withLab(ctx context.Context, rows []row, suffix string, made func() (closingDriver, error),
	f func(*lab) ([]Figure, error)) (_ []Figure, err error) {
	d, err := made()
	if err != nil {
		return unableFigures(rows, err), nil
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	caps, err := d.Probe(ctx)
	if err != nil {
		return unableFigures(rows, err), nil
	}
	return f(&lab{runner: r, driver: d, caps: caps, suffix: suffix})
}

func unableFigures(rows []row, err error) []Figure {
	var out []Figure
	for _, row := range rows {
		out = append(out, missingFigures(err.Error(), row.name)...)
	}
	return out
}

func engineDriver() (closingDriver, error) { return wasm.New(wasm.Config{}) }

// measureInProcess measures the engine in this process.
func (r *runner) measureInProcess(ctx context.Context) ([]Figure, error) {
	return r.withLab(ctx,
		engineRows, "_engine", engineDriver, func(l *lab) ([]Figure, error) { return l.measureStages(ctx) })
}

// measureInChild measures the engine in its child process.
func (r *runner) measureInChild(ctx context.Context) ([]Figure, error) {
	return r.withLab(ctx, childRows, "", r.childDriver, func(l *lab) ([]Figure, error) { return l.measureStages(ctx) })
}

// runtimes are the drivers' names of the languages.
var runtimes = map[string]string{"ts": "js", "py": "python"}

// hasLanguage reports whether the driver runs a language.
func (l *lab) hasLanguage(lang string) bool { return slices.Contains(l.caps.Runtimes, runtimes[lang]) }

// missingLanguage returns why a language is missing.
func (l *lab) missingLanguage() string {
	return "the engine of this build runs " + strings.Join(l.caps.Runtimes, ", ") + " only"
}

// figureName returns the name of a figure: fresh_ts, fresh_ts_engine.
func (l *lab) figureName(stage, lang string) string {
	if stage == toolCall && lang == "ts" && l.suffix == "" {
		return toolCall
	}
	return stage + "_" + lang + l.suffix
}

// measureStages measures all stages of the driver, in all languages.
func (l *lab) measureStages(ctx context.Context) ([]Figure, error) {
	var out []Figure
	for _, lang := range languages {
		for _, m := range []struct {
			names []string
			do    func(context.Context, string) ([]Figure, error)
		}{
			{[]string{fresh}, l.measureFresh},
			{[]string{toolCall}, l.toolCall},
			{[]string{suspend, resume, resumeMemory, fork, forkValue}, l.measureSuspension},
		} {
			names := make([]string, len(m.names))
			for i, stage := range m.names {
				names[i] = l.figureName(stage, lang)
			}
			if !l.hasLanguage(lang) {
				out = append(out, missingFigures(l.missingLanguage(), names...)...)
				continue
			}
			figures, err := m.do(ctx, lang)
			if ctx.Err() != nil {
				return nil, err
			}
			if err != nil { // report it, and measure the others
				figures = missingFigures(err.Error(), names...)
			}
			out = append(out, figures...)
		}
	}
	return out, nil
}

// createGuest returns a running sandbox.
func (l *lab) createGuest(ctx context.Context, lang string) (*guest, error) {
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return nil, err
	}
	return openGuest(ctx, box, nil), nil
}

// measureFirstValue runs 1 + 1 in a fresh sandbox, and returns the time until the host had its
// value.
func (l *lab) measureFirstValue(ctx context.Context, lang string, one *program.Program) (_ time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silence, errSilent)
	defer cancel()
	start := time.Now()
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	v, at, err := runOnce(ctx, box, one)
	if err != nil || v != "2" {
		return 0, errors.Join(err, fmt.Errorf("1 + 1 is %q", v))
	}
	return at.Sub(start), nil
}

func (l *lab) measureFresh(ctx context.Context, lang string) ([]Figure, error) {
	p, err := prepareProgram(lang, one[lang])
	if err != nil {
		return nil, err
	}
	do := func() (time.Duration, error) { return l.measureFirstValue(ctx, lang, p) }
	if _, err := collectDurations(ctx, l.countRounds(100), do); err != nil { // warm up
		return nil, err
	}
	took, err := collectDurations(ctx, l.countRounds(500), do)
	if err != nil {
		return nil, err
	}
	return []Figure{durationFigure(l.figureName(fresh, lang), took)}, nil
}

// toolCall measures a tool call that the host answers as soon as it reads the call. It measures
// from writing an answer to the guest's next call. That includes the driver's whole path in both
// directions, but not the gateway, the audit log or an upstream.
func (l *lab) toolCall(ctx context.Context, lang string) (_ []Figure, err error) {
	n := l.countRounds(5000)
	p, err := prepareProgram(lang, fmt.Sprintf(manyTool[lang], n))
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
	g := openGuest(ctx, box, call)
	defer func() { err = errors.Join(err, g.closeGuest()) }()
	v, err := g.evalProgram(p)
	if err != nil {
		return nil, err
	}
	if v != `"done"` || len(took) != n-1 {
		return nil, fmt.Errorf("it made %d calls, not %d, and gave %s", len(took)+1, n, v)
	}
	return []Figure{durationFigure(l.figureName(toolCall, lang), took)}, nil
}

// openSession returns a paused session after the typical program.
func (l *lab) openSession(ctx context.Context, lang string) (*guest, error) {
	p, err := prepareProgram(lang, typical[lang])
	if err != nil {
		return nil, err
	}
	g, err := l.createGuest(ctx, lang)
	if err != nil {
		return nil, err
	}
	v, err := g.evalProgram(p)
	if err == nil && len(v) < 20 {
		err = fmt.Errorf("the typical program gave %s", v)
	}
	if err == nil {
		err = g.pauseRun()
	}
	if err != nil {
		return nil, errors.Join(err, g.closeGuest())
	}
	return g, nil
}

// readValue opens a sandbox again and reads a variable of the typical program in it.
func (l *lab) readValue(ctx context.Context, box sandbox.Sandbox, variable *program.Program) (*guest, error) {
	g := openGuest(ctx, box, nil)
	v, err := g.evalProgram(variable)
	if err == nil && v != "4" {
		err = fmt.Errorf("the session lost its state: %s", v)
	}
	if err != nil {
		return nil, errors.Join(err, g.closeGuest())
	}
	return g, nil
}

// timeSuspend returns the time to pack and store a session after another program ran in it: an
// unchanged session would need no work.
func (l *lab) timeSuspend(ctx context.Context, snap sandbox.Snapshotter, read *program.Program,
	keep func([]byte) error) (time.Duration, error) {
	box, ok := snap.(sandbox.Sandbox)
	if !ok {
		return 0, errNoSnapshot
	}
	g := openGuest(ctx, box, nil)
	_, err := g.evalProgram(read)
	if err := errors.Join(err, g.pauseRun()); err != nil {
		return 0, err
	}
	start := time.Now()
	packed, err := snap.Snapshot(ctx)
	if err == nil {
		err = keep(packed)
	}
	return time.Since(start), err
}

// measureSuspension measures suspending, resuming and forking a session.
func (l *lab) measureSuspension(ctx context.Context, lang string) (_ []Figure, err error) {
	g, err := l.openSession(ctx, lang)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.closeGuest()) }()
	read, err := prepareProgram(lang, variable[lang])
	if err != nil {
		return nil, err
	}
	snap, canSnap := g.box.(sandbox.Snapshotter)
	restorer, canRestore := l.driver.(sandbox.Restorer)
	var out []Figure
	if canSnap && canRestore {
		if out, err = l.measureDisk(ctx, lang, snap, restorer, read); err != nil {
			return nil, err
		}
	} else {
		out = missingFigures(errNoSnapshot.Error(),
			l.figureName(suspend, lang), l.figureName(resume, lang), l.figureName(resumeMemory, lang))
	}
	forker, ok := g.box.(sandbox.Forker)
	if !ok {
		return append(out, missingFigures("this driver can't fork its sandboxes",
			l.figureName(fork, lang), l.figureName(forkValue, lang))...), nil
	}
	var copied []time.Duration
	valued, err := collectDurations(ctx, l.countRounds(300), func() (time.Duration, error) {
		start := time.Now()
		box, err := forker.Fork(ctx)
		if err != nil {
			return 0, err
		}
		copied = append(copied, time.Since(start))
		c, err := l.readValue(ctx, box, read)
		if err != nil {
			return 0, err
		}
		return time.Since(start), c.closeGuest()
	})
	if err != nil {
		return nil, fmt.Errorf("fork: %w", err)
	}
	return append(out,
		durationFigure(l.figureName(fork, lang), copied), durationFigure(l.figureName(forkValue, lang), valued)), nil
}

// measureDisk measures the way to a file and back.
func (l *lab) measureDisk(ctx context.Context,
	lang string, snap sandbox.Snapshotter, restorer sandbox.Restorer, read *program.Program) ([]Figure, error) {
	key, err := secret.Open(filepath.Join(l.dir, "key"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, "session-"+lang)
	const purpose = "bench"
	suspended, err := collectDurations(ctx, l.countRounds(300), func() (time.Duration, error) {
		return l.timeSuspend(ctx, snap, read, func(packed []byte) error {
			return os.WriteFile(file, key.Seal(purpose, packed), 0o600)
		})
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
		return l.readValue(ctx, box, read)
	}
	resumed, err := collectDurations(ctx, l.countRounds(300), func() (time.Duration, error) {
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
		return time.Since(start), g.closeGuest()
	})
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	memory, err := collectDurations(ctx, l.countRounds(300), func() (time.Duration, error) {
		start := time.Now()
		g, err := back(packed)
		if err != nil {
			return 0, err
		}
		return time.Since(start), g.closeGuest()
	})
	if err != nil {
		return nil, fmt.Errorf("resume from memory: %w", err)
	}
	return []Figure{durationFigure(l.figureName(suspend, lang), suspended),
			durationFigure(l.figureName(resume, lang), resumed),
			durationFigure(l.figureName(resumeMemory, lang), memory)},
		nil
}

// measureFreshRate measures fresh sandboxes per second: created, run to the first value, and
// closed.
func (l *lab) measureFreshRate(ctx context.Context, lang, name string, workers int) (Figure, error) {
	p, err := prepareProgram(lang, one[lang])
	if err != nil {
		return Figure{}, err
	}
	do := func() error { _, err := l.measureFirstValue(ctx, lang, p); return err }
	if _, err := repeatCalls(ctx, l.countRounds(50), do); err != nil { // warm up
		return Figure{}, err
	}
	return measureRate(ctx, name, workers, l.measuringTime(2*time.Second), do)
}
