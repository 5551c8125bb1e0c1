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

	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/secret"
)

// A lab measures one driver.
type lab struct {
	*runner
	driver sandbox.Driver
	caps   sandbox.Capabilities
	suffix string // of names of figures: "_engine" inside the engine
}

// A closingDriver is one that must be closed.
type closingDriver interface {
	sandbox.Driver
	io.Closer
}

// with does f with a lab of a driver that it makes. Where the driver can't run here, all names are missing for that reason.
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

// through measures it through its child process.
func (r *runner) through(ctx context.Context) ([]Figure, error) {
	return r.with(ctx, childRows, "", r.childDriver, func(l *lab) ([]Figure, error) { return l.stages(ctx) })
}

// runtimes are what drivers call the languages.
var runtimes = map[string]string{"ts": "js", "py": "python"}

// has reports whether the driver runs a language.
func (l *lab) has(lang string) bool { return slices.Contains(l.caps.Runtimes, runtimes[lang]) }

// only says why a language is missing.
func (l *lab) only() string {
	return "the engine of this build runs " + strings.Join(l.caps.Runtimes, ", ") + " only"
}

// name is that of a figure: fresh_ts, fresh_ts_engine.
func (l *lab) name(stage, lang string) string {
	if stage == toolCall && lang == "ts" && l.suffix == "" {
		return toolCall
	}
	return stage + "_" + lang + l.suffix
}

// stages measures all of the driver, in both languages.
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
			if err != nil { // it is told, and the others are measured
				figures = missing(err.Error(), names...)
			}
			out = append(out, figures...)
		}
	}
	return out, nil
}

// create makes a sandbox that runs, and answers calls at once.
func (l *lab) create(ctx context.Context, lang string) (*guest, error) {
	box, err := l.driver.Create(ctx, sandbox.Spec{Runtime: runtimes[lang], Owner: "bench"})
	if err != nil {
		return nil, err
	}
	return open(ctx, box, nil), nil
}

// first runs 1 + 1 in a fresh sandbox, and says how long that took until the host had its value.
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
	if _, err := repeatTimed(ctx, l.rounds(100), do); err != nil { // warm
		return nil, err
	}
	took, err := repeatTimed(ctx, l.rounds(500), do)
	if err != nil {
		return nil, err
	}
	return []Figure{timed(l.name(fresh, lang), took)}, nil
}

// toolCall measures a call of a tool that the host answers the moment it reads the call: from the writing of an answer
// to the guest's next call, so that the driver's whole way is in it twice, and neither door nor record nor upstream.
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
	return []Figure{timed(l.name(toolCall, lang), took)}, nil
}

// session makes a session as one is after a typical program: paused.
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

// suspended says how long it takes to pack and to keep a session in which something ran before: what was saved already is no
// work.
func (l *lab) suspended(ctx context.Context, snap sandbox.Snapshotter, read *program.Program, keep func([]byte) error) (time.Duration, error) {
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

// sleep measures a session that is suspended, resumed and forked.
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
	valued, err := repeatTimed(ctx, l.rounds(300), func() (time.Duration, error) {
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
	return append(out, timed(l.name(fork, lang), copied), timed(l.name(forkValue, lang), valued)), nil
}

// disk measures the way to a file and back.
func (l *lab) disk(ctx context.Context, lang string, snap sandbox.Snapshotter, restorer sandbox.Restorer, read *program.Program) ([]Figure, error) {
	key, err := secret.Open(filepath.Join(l.dir, "key"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.dir, "session-"+lang)
	const purpose = "bench"
	suspended, err := repeatTimed(ctx, l.rounds(300), func() (time.Duration, error) {
		return l.suspended(ctx, snap, read, func(packed []byte) error { return os.WriteFile(file, key.Seal(purpose, packed), 0o600) })
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
	resumed, err := repeatTimed(ctx, l.rounds(300), func() (time.Duration, error) {
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
	memory, err := repeatTimed(ctx, l.rounds(300), func() (time.Duration, error) {
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
	return []Figure{timed(l.name(suspend, lang), suspended), timed(l.name(resume, lang), resumed), timed(l.name(resumeMemory, lang), memory)}, nil
}

// often measures sandboxes a second: each fresh, to its first value, closed.
func (l *lab) often(ctx context.Context, lang, name string, workers int) (Figure, error) {
	p, err := prepare(lang, one[lang])
	if err != nil {
		return Figure{}, err
	}
	do := func() error { _, err := l.first(ctx, lang, p); return err }
	if _, err := repeat(ctx, l.rounds(50), do); err != nil { // warm
		return Figure{}, err
	}
	return rated(ctx, name, workers, l.span(2*time.Second), do)
}
