package bench

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
)

var tierRows = []row{
	{name: "process_python", unit: "ms", reach: 4,
		what: "a process sandbox with Python that was started ahead, claimed, to the value of 1+1"},
	{name: "process_python_cold", unit: "ms", what: "the same, nothing started ahead"},
	{name: "process_node", unit: "ms",
		what: "a process sandbox with Node.js that was started ahead, claimed, to the value of 1+1"},
	{name: "process_node_cold", unit: "ms", what: "the same, nothing started ahead"},
	{name: "process_cold", unit: "ms", reach: 4,
		what: "a process sandbox, nothing started ahead, to the end of a shell script that does nothing"},
	{name: "process_thaw", unit: "ms", reach: 1, what: "a frozen sandbox with Python, woken, to the value of 1+1"},
}

// measureTiers measures process sandboxes.
func (r *runner) measureTiers(ctx context.Context) (out []Figure, err error) {
	var drivers [3]*process.Driver // one that starts ahead for each language, and one that doesn't
	for i, warm := range []int{1, 1, 0} {
		if drivers[i], err = process.New(process.Config{Warm: warm}); err != nil {
			return unableFigures(tierRows, err), nil
		}
		defer func() { err = errors.Join(err, drivers[i].Close()) }()
		if _, err := drivers[i].Probe(ctx); err != nil {
			return unableFigures(tierRows, err), nil
		}
	}
	warm, warmNode, cold := drivers[0], drivers[1], drivers[2]
	value, err := prepareProgram("py", one["py"])
	if err != nil {
		return nil, err
	}
	script, err := prepareProgram("ts", one["ts"])
	if err != nil {
		return nil, err
	}
	for _, m := range []struct {
		name, runtime string
		driver        *process.Driver
		program       *program.Program
		rounds        int
	}{
		{"process_python", "python", warm, value, 30},
		{"process_python_cold", "python", cold, value, 20},
		{"process_node", "js", warmNode, script, 30},
		{"process_node_cold", "js", cold, script, 20},
		{"process_cold", "bash", cold, &program.Program{Code: ":", Name: "program.sh"}, 40},
	} {
		took, err := collectDurations(ctx, r.countRounds(m.rounds), func() (time.Duration, error) {
			return timeProcess(ctx, m.driver, m.runtime, m.program, m.driver != cold)
		})
		if err != nil {
			out = append(out, missingFigures(err.Error(), m.name)...)
			continue
		}
		out = append(out, durationFigure(m.name, took))
	}
	took, err := r.measureThaw(ctx, cold, value)
	if err != nil {
		return nil, err
	}
	return append(out, durationFigure("process_thaw", took)), nil
}

// timeProcess returns how long a program took in a new sandbox, from the creation of that to the
// program's value. With ahead, it first waits until a sandbox was started ahead.
func timeProcess(ctx context.Context, d *process.Driver, runtime string, p *program.Program, ahead bool) (
	took time.Duration, err error) {
	spec := sandbox.Spec{Runtime: runtime}
	for ahead && d.CountWarm() == 0 {
		box, err := d.Create(ctx, spec) // which has others started ahead
		if err != nil {
			return 0, err
		}
		for deadline := time.Now().Add(time.Second); d.CountWarm() == 0 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		if err := box.Close(); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	box, err := d.Create(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	_, at, err := runOnce(ctx, box, p)
	return at.Sub(began), err
}

// measureThaw measures programs in one sandbox that is frozen between them.
func (r *runner) measureThaw(ctx context.Context, d *process.Driver, p *program.Program) (took []time.Duration,
	err error) {
	box, err := d.Create(ctx, sandbox.Spec{Runtime: "python"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	f, ok := box.(sandbox.Freezer)
	if !ok {
		return nil, errors.New("a process sandbox can't be frozen")
	}
	if _, _, err := runOnce(ctx, box, p); err != nil {
		return nil, err
	}
	return collectDurations(ctx, r.countRounds(100), func() (time.Duration, error) {
		if err := f.FreezeGuest(); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := f.ThawGuest(); err != nil {
			return 0, err
		}
		_, at, err := runOnce(ctx, box, p)
		return at.Sub(began), err
	})
}
