package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// measureDensity measures how many sessions and executions fit on a machine.
func (r *runner) measureDensity(ctx context.Context) ([]Figure, error) {
	out, err := r.withLab(ctx, densityRows, "", engineDriver, func(l *lab) ([]Figure, error) {
		var out []Figure
		for _, lang := range languages {
			for _, m := range []struct {
				name string
				do   func(context.Context, string, string) (Figure, error)
			}{
				{map[string]string{"ts": "suspended_bytes", "py": "suspended_bytes_py"}[lang], l.suspendedBytes},
				{"sessions_per_gib_" + lang, l.perGiB},
				{"executions_per_second_" + lang, l.perSecond},
			} {
				f := missingFigures(l.missingLanguage(), m.name)[0]
				if l.hasLanguage(lang) {
					var err error
					if f, err = m.do(ctx, lang, m.name); ctx.Err() != nil {
						return nil, err
					}
					if err != nil {
						f = missingFigures(err.Error(), m.name)[0]
					}
				}
				out = append(out, f)
			}
		}
		f, err := l.suspendedMemory(ctx)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			f = missingFigures(err.Error(), "suspended_memory_bytes")[0]
		}
		return append(out, f), nil
	})
	if err != nil {
		return nil, err
	}
	all := []row{findRow("executions_per_second_ts_all"), findRow("executions_per_second_py_all")}
	rates, err := r.withLab(ctx, all, "", r.childDriver, func(l *lab) ([]Figure, error) {
		var out []Figure
		for i, lang := range languages {
			f := missingFigures(l.missingLanguage(), all[i].name)[0]
			if l.hasLanguage(lang) {
				var err error
				if f, err = l.measureFreshRate(ctx, lang, all[i].name, busyWorkers()); err != nil {
					return nil, fmt.Errorf("%s: %w", all[i].name, err)
				}
			}
			out = append(out, f)
		}
		return out, nil
	})
	return append(out, rates...), err
}

// suspendedBytes measures the size of a suspended session on disk.
func (l *lab) suspendedBytes(ctx context.Context, lang, name string) (_ Figure, err error) {
	g, err := l.openSession(ctx, lang)
	if err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, g.closeGuest()) }()
	snap, ok := g.box.(sandbox.Snapshotter)
	if !ok {
		return missingFigures(errNoSnapshot.Error(), name)[0], nil
	}
	packed, err := snap.Snapshot(ctx)
	if err != nil {
		return Figure{}, err
	}
	key, err := secret.Open(filepath.Join(l.dir, "key"))
	if err != nil {
		return Figure{}, err
	}
	return numberFigure(name, float64(len(key.Seal("bench", packed)))), nil
}

// suspendedMemory measures how much memory suspended sessions use in their process. It uses an
// executor with a store, which keeps one session hot.
func (l *lab) suspendedMemory(ctx context.Context) (_ Figure, err error) {
	const name = "suspended_memory_bytes"
	dir := filepath.Join(l.dir, "data-sessions")
	s, err := store.Open(ctx, store.Config{Path: dir})
	if err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key, err := secret.Open(filepath.Join(l.dir, "key"))
	if err != nil {
		return Figure{}, err
	}
	sessions, err := s.Sessions(ctx, key)
	if err != nil {
		return Figure{}, err
	}
	nobody := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.NotFound, "there are no tools here")
	})
	x, err := executor.New(executor.Config{
		Drivers: sandbox.OnlyDriver(l.driver), Store: sessions, Key: key,
		Programs: program.New(program.Config{}), Door: nobody,
		Limits: executor.Limits{Kept: 1, Sessions: live.Limits{Hot: 1, Count: 10_000}},
	})
	if err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	made, n := 0, l.countRounds(300)
	one := func() error {
		made++
		args, err := tool.Marshal(arguments{Code: thirtyLines, Session: fmt.Sprintf("s%d", made)})
		if err != nil {
			return err
		}
		res, err := x.Execute().Call(ctx,
			&tool.Call{Path: tool.ExecutePath, Arguments: args, Principal: tool.Principal{ID: "local:bench"}})
		if err == nil && res.IsError {
			err = fmt.Errorf("execute: %.300s", res.Raw)
		}
		return err
	}
	// Fill the caches of limited size: the store's database cache, and what parts of the driver
	// keep.
	if _, err := repeatCalls(ctx, 3*n, one); err != nil {
		return Figure{}, err
	}
	before, err := ownMemory()
	if err != nil {
		return missingFigures(fmt.Sprintf("%s doesn't say what a process costs", runtime.GOOS), name)[0], nil
	}
	least := math.Inf(1)
	// What remains of each session shows in every part. Growth that shows in only one part is
	// something else.
	for range 3 {
		if _, err := repeatCalls(ctx, n, one); err != nil {
			return Figure{}, err
		}
		after, err := ownMemory()
		if err != nil {
			return Figure{}, err
		}
		least, before = min(least, after-before), after
	}
	f := numberFigure(name, math.Round(max(0, least)/float64(n)))
	f.N = 3 * n
	return f, nil
}

var errNoSnapshot = errors.New("this driver can't keep its sandboxes as bytes")

// gib is a GiB.
const gib = 1 << 30

// perGiB opens sessions, saves their state as the executor does, and measures what each adds to the
// process. It compares a small number with a large one, so that the driver's reserves count on both
// sides, and what the compiler leaves on the heap counts little. A hot session answers without the
// disk: the driver keeps the memory of the sessions used last, and the packed bytes of the others.
// Their memory is restored within a fraction of a millisecond (TypeScript) or a few milliseconds
// (Python) after the next program arrives.
func (l *lab) perGiB(ctx context.Context, lang, name string) (_ Figure, err error) {
	some, more := 100, 500
	if lang == "py" {
		some, more = 60, 200
	}
	if l.cfg.Quick {
		some, more = 4, 8
	}
	var all []*guest
	defer func() {
		for _, g := range all {
			err = errors.Join(err, g.closeGuest())
		}
	}()
	grow := func(n int) (float64, error) {
		for range n {
			g, err := l.openSession(ctx, lang)
			if err != nil {
				return 0, err
			}
			all = append(all, g)
			if snap, ok := g.box.(sandbox.Snapshotter); ok { // as the executor does after each program
				if _, err := snap.Snapshot(ctx); err != nil {
					return 0, err
				}
			}
		}
		return ownMemory()
	}
	before, err := grow(some)
	if errors.Is(err, os.ErrNotExist) {
		return missingFigures(fmt.Sprintf("%s doesn't say what a process costs", runtime.GOOS), name)[0], nil
	}
	if err != nil {
		return Figure{}, err
	}
	after, err := grow(more)
	if err != nil {
		return Figure{}, err
	}
	if after <= before {
		return missingFigures(fmt.Sprintf("%d more sessions took no memory that could be seen", more), name)[0], nil
	}
	f := numberFigure(name, gib/((after-before)/float64(more)))
	f.N = more
	return f, nil
}

// perSecond measures fresh sandboxes per second on one core: created, run to the first value, and
// closed.
func (l *lab) perSecond(ctx context.Context, lang, name string) (Figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return l.measureFreshRate(ctx, lang, name, 1)
}
