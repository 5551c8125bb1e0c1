package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
)

var tierRows = []row{
	{name: "process_python", unit: "ms", reach: 4,
		what: "a process sandbox with Python that was started ahead, claimed, to the value of 1+1"},
	{name: "process_python_cold", unit: "ms", what: "the same, nothing started ahead"},
	{name: "process_pandas", unit: "ms", reach: 8,
		what: "a process sandbox of an image with pandas, imported ahead, claimed, to the value of a sum of a column"},
	{name: "process_node", unit: "ms",
		what: "a process sandbox with Node.js that was started ahead, claimed, to the value of 1+1"},
	{name: "process_node_cold", unit: "ms", what: "the same, nothing started ahead"},
	{name: "process_cold", unit: "ms", reach: 4,
		what: "a process sandbox for commands, nothing started ahead, to the exit status of /bin/true"},
	{name: "process_cold_shell", unit: "ms", what: "a process sandbox for scripts, nothing started ahead, " +
		"to the end of a shell script that does nothing"},
	{name: "process_burst", unit: "ms", reach: 1000,
		what: "100 process sandboxes created at once, to the end of a shell script in the last of them"},
	{name: "process_tool_call", unit: "ms", reach: 0.15,
		what: "a tool call from a program in Python that is answered at once: the mean of 1000 in a row"},
	{name: "egress", unit: "ms", reach: 0.5,
		what: "the way out of a process sandbox, added to an HTTP request, without the decision and its record"},
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
		{"process_cold_shell", "bash", cold, &program.Program{Code: ":", Name: "program.sh"}, 40},
	} {
		took, err := collectDurations(ctx, r.countRounds(m.rounds), func() (time.Duration, error) {
			return timeProcess(ctx, m.driver, sandbox.Spec{Runtime: m.runtime}, m.program, m.driver != cold)
		})
		if err != nil {
			out = append(out, missingFigures(err.Error(), m.name)...)
			continue
		}
		out = append(out, durationFigure(m.name, took))
	}
	p := processRunner{r, cold}
	for _, m := range []struct {
		name string
		do   func(context.Context) ([]time.Duration, error)
	}{
		{"process_cold", p.measureCold},
		{"process_pandas", p.measurePandas},
		{"process_burst", p.measureBurst},
		{"process_tool_call", p.measureProcessCalls},
		{"egress", p.measureEgress},
		{"process_thaw", func(ctx context.Context) ([]time.Duration, error) { return p.measureThaw(ctx, value) }},
	} {
		took, err := m.do(ctx)
		if err != nil {
			out = append(out, missingFigures(err.Error(), m.name)...)
			continue
		}
		out = append(out, durationFigure(m.name, took))
	}
	return out, p.measureBubblewrap(ctx)
}

// measureBubblewrap measures bubblewrap, to compare process_cold with.
func (r processRunner) measureBubblewrap(ctx context.Context) error {
	const name = "bwrap_cold"
	path, why := findProgram("bwrap")
	if why != "" {
		r.addYardsticks(missingFigures(why, name)...)
		return nil
	}
	took, err := collectDurations(ctx, r.countRounds(40), func() (time.Duration, error) {
		began := time.Now()
		err := exec.CommandContext(ctx, path, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
			"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true").Run()
		return time.Since(began), err
	})
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		r.addYardsticks(missingFigures(err.Error(), name)...)
	default:
		r.addYardsticks(durationFigure(name, took))
	}
	return nil
}

// aheadTime is how long a sandbox that is started ahead may take, with its imports.
const aheadTime = 5 * time.Second

// timeProcess returns how long a program took in a new sandbox, from the creation of that to the
// program's value. With ahead, it first waits until a sandbox was started ahead.
func timeProcess(ctx context.Context, d *process.Driver, spec sandbox.Spec, p *program.Program, ahead bool) (
	took time.Duration, err error) {
	for ahead && d.CountWarm() == 0 {
		box, err := d.Create(ctx, spec) // which has others started ahead
		if err != nil {
			return 0, err
		}
		for deadline := time.Now().Add(aheadTime); d.CountWarm() == 0 && time.Now().Before(deadline); {
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

// A processRunner measures sandboxes of a driver that starts none ahead.
type processRunner struct {
	*runner
	driver *process.Driver
}

// measureCold measures machines, from their creation to the exit status of their first command.
func (r processRunner) measureCold(ctx context.Context) (_ []time.Duration, err error) {
	folder, err := os.MkdirTemp("", "biplane-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	return collectDurations(ctx, r.countRounds(40), func() (took time.Duration, err error) {
		began := time.Now()
		m, err := r.driver.CreateMachine(ctx, sandbox.MachineSpec{Folder: folder})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		reply, err := service.RunCommand(ctx, m, &service.Request{Op: service.OpRun, Command: []string{"/bin/true"}},
			nil, nil)
		took = time.Since(began)
		if err == nil && (reply.Exit == nil || *reply.Exit != service.Exit{}) {
			err = fmt.Errorf("/bin/true ended with %+v, want exit status 0", reply.Exit)
		}
		return took, err
	})
}

// measurePandas measures sandboxes of an image with pandas that have imported it ahead.
func (r processRunner) measurePandas(ctx context.Context) (_ []time.Duration, err error) {
	images, name, err := r.findPandas()
	if err != nil {
		return nil, err
	}
	d, err := process.New(process.Config{Warm: 1, Images: images})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	p, err := prepareProgram("py", "import pandas\nint(pandas.DataFrame({'a': [1, 2, 3]}).a.sum())")
	if err != nil {
		return nil, err
	}
	return collectDurations(ctx, r.countRounds(20), func() (time.Duration, error) {
		return timeProcess(ctx, d, sandbox.Spec{Runtime: "python", Image: name}, p, true)
	})
}

// findPandas returns the images of the data folder, and the name of one with pandas. Its sandboxes
// import pandas ahead, with any configuration.
func (r processRunner) findPandas() (*image.Store, string, error) {
	all, err := image.NewStore(image.Config{Folder: r.cfg.Images}).ListImages()
	if err != nil {
		return nil, "", err
	}
	for _, i := range all {
		if i.IsBuilt() && slices.Contains(i.Modules["python"], "pandas") {
			d := i.Description
			d.Warm = []string{"pandas"}
			return image.NewStore(image.Config{Folder: r.cfg.Images,
				Described: map[string]image.Description{i.Name: d}}), i.Name, nil
		}
	}
	return nil, "", errors.New("no image in the data folder has pandas: biplane image build data --python pandas " +
		"builds one")
}

// measureBurst measures sandboxes that are created at once. Each runs a script, and stays until all
// of them have.
func (r processRunner) measureBurst(ctx context.Context) ([]time.Duration, error) {
	n := 100
	if r.cfg.Quick {
		n = 10
	}
	script := &program.Program{Code: ":", Name: "program.sh"}
	return collectDurations(ctx, r.countRounds(5), func() (time.Duration, error) {
		boxes, errs := make([]sandbox.Sandbox, n), make([]error, n)
		var all sync.WaitGroup
		began := time.Now()
		for i := range n {
			all.Go(func() {
				if boxes[i], errs[i] = r.driver.Create(ctx, sandbox.Spec{Runtime: "bash"}); errs[i] == nil {
					_, _, errs[i] = runOnce(ctx, boxes[i], script)
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		for _, box := range boxes {
			if box != nil {
				errs = append(errs, box.Close())
			}
		}
		return took, errors.Join(errs...)
	})
}

// measureProcessCalls measures tool calls of a program that the host answers at once.
func (r processRunner) measureProcessCalls(ctx context.Context) (_ []time.Duration, err error) {
	const calls = 1000
	p, err := prepareProgram("py", fmt.Sprintf("for i in range(%d):\n    bench.echo(n=i)\n1", calls))
	if err != nil {
		return nil, err
	}
	box, err := r.driver.Create(ctx, sandbox.Spec{Runtime: "python"})
	if err != nil {
		return nil, err
	}
	g := openGuest(ctx, box, func(c *sandbox.GuestCall) json.RawMessage { return c.Args })
	defer func() { err = errors.Join(err, g.closeGuest()) }()
	return collectDurations(ctx, r.countRounds(5), func() (time.Duration, error) {
		began := time.Now()
		_, err := g.evalProgram(p)
		return time.Since(began) / calls, err
	})
}

// measureThaw measures programs in one sandbox that is frozen between them.
func (r processRunner) measureThaw(ctx context.Context, p *program.Program) (took []time.Duration, err error) {
	box, err := r.driver.Create(ctx, sandbox.Spec{Runtime: "python"})
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
