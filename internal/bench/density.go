package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/secret"
)

// density measures how many sessions and executions there is room for.
func (r *runner) density(ctx context.Context) ([]Figure, error) {
	out, err := r.with(ctx, densityRows, "", engineDriver, func(l *lab) ([]Figure, error) {
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
				f := missing(l.only(), m.name)[0]
				if l.has(lang) {
					var err error
					if f, err = m.do(ctx, lang, m.name); err != nil {
						return nil, fmt.Errorf("%s: %w", m.name, err)
					}
				}
				out = append(out, f)
			}
		}
		f, err := l.suspendedMemory(ctx)
		return append(out, f), err
	})
	if err != nil {
		return nil, err
	}
	all := []row{find("executions_per_second_ts_all"), find("executions_per_second_py_all")}
	rates, err := r.with(ctx, all, "", r.childDriver, func(l *lab) ([]Figure, error) {
		var out []Figure
		for i, lang := range languages {
			f := missing(l.only(), all[i].name)[0]
			if l.has(lang) {
				var err error
				if f, err = l.often(ctx, lang, all[i].name, busy()); err != nil {
					return nil, fmt.Errorf("%s: %w", all[i].name, err)
				}
			}
			out = append(out, f)
		}
		return out, nil
	})
	return append(out, rates...), err
}

// suspendedBytes measures what a suspended session is on the disk.
func (l *lab) suspendedBytes(ctx context.Context, lang, name string) (_ Figure, err error) {
	g, err := l.session(ctx, lang)
	if err != nil {
		return Figure{}, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	snap, ok := g.box.(sandbox.Snapshotter)
	if !ok {
		return missing(errNoSnapshot.Error(), name)[0], nil
	}
	packed, err := snap.Snapshot(ctx)
	if err != nil {
		return Figure{}, err
	}
	key, err := secret.Open(filepath.Join(l.dir, "key"))
	if err != nil {
		return Figure{}, err
	}
	return sampled(name, float64(len(key.Seal("bench", packed)))), nil
}

// suspendedMemory measures what suspended sessions leave in the memory of the process: they are on the disk, and nothing
// of them is left to be there.
func (l *lab) suspendedMemory(ctx context.Context) (Figure, error) {
	const name = "suspended_memory_bytes"
	n := l.rounds(200)
	suspend := func() error {
		g, err := l.session(ctx, "ts")
		if err != nil {
			return err
		}
		snap, ok := g.box.(sandbox.Snapshotter)
		if !ok {
			return errors.Join(errNoSnapshot, g.close())
		}
		packed, err := snap.Snapshot(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(l.dir, "suspended"), packed, 0o600)
		}
		return errors.Join(err, g.close())
	}
	if _, err := repeat(ctx, n, suspend); err != nil { // fills what the driver keeps in store
		if errors.Is(err, errNoSnapshot) {
			return missing(err.Error(), name)[0], nil
		}
		return Figure{}, err
	}
	before, err := own()
	if err != nil {
		return missing(fmt.Sprintf("%s doesn't say what a process costs", runtime.GOOS), name)[0], nil
	}
	if _, err := repeat(ctx, n, suspend); err != nil {
		return Figure{}, err
	}
	after, err := own()
	if err != nil {
		return Figure{}, err
	}
	f := sampled(name, math.Round(max(0, after-before)/float64(n)))
	f.N = n
	return f, nil
}

var errNoSnapshot = errors.New("this driver can't keep its sandboxes as bytes")

// gib is a GiB.
const gib = 1 << 30

// perGiB opens sessions and looks what each adds to the process: between some and many, so that what the driver keeps in
// store counts on both sides.
func (l *lab) perGiB(ctx context.Context, lang, name string) (_ Figure, err error) {
	some, more := 80, 200
	if lang == "py" {
		some, more = 20, 60
	}
	if l.cfg.Quick {
		some, more = 4, 8
	}
	var all []*guest
	defer func() {
		for _, g := range all {
			err = errors.Join(err, g.close())
		}
	}()
	grow := func(n int) (float64, error) {
		for range n {
			g, err := l.session(ctx, lang)
			if err != nil {
				return 0, err
			}
			all = append(all, g)
		}
		return own()
	}
	before, err := grow(some)
	if errors.Is(err, os.ErrNotExist) {
		return missing(fmt.Sprintf("%s doesn't say what a process costs", runtime.GOOS), name)[0], nil
	}
	if err != nil {
		return Figure{}, err
	}
	after, err := grow(more)
	if err != nil {
		return Figure{}, err
	}
	if after <= before {
		return missing(fmt.Sprintf("%d more sessions took no memory that could be seen", more), name)[0], nil
	}
	f := sampled(name, gib/((after-before)/float64(more)))
	f.N = more
	return f, nil
}

// perSecond measures sandboxes a second, each fresh, to its first value, closed, on one core.
func (l *lab) perSecond(ctx context.Context, lang, name string) (Figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return l.often(ctx, lang, name, 1)
}
