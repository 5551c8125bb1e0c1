package bench

import (
	"context"
	_ "embed" // the programs
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// The CPU-bound programs: the same files run in a sandbox and in the yardsticks.
var (
	//go:embed cpu.js
	cpuTS string
	//go:embed cpu.py
	cpuPY string
)

// cpuLimit is far more than any of the programs needs.
const cpuLimit = 10 * time.Minute

// measureCPU measures CPU-bound programs, in the engine and in installed runtimes.
func (r *runner) measureCPU(ctx context.Context) ([]Figure, error) {
	out, err := r.withLab(ctx, cpuRows(), "", engineDriver, func(l *lab) ([]Figure, error) {
		var out []Figure
		for _, lang := range languages {
			figures, err := l.measureCompute(ctx, lang)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", lang, err)
			}
			out = append(out, figures...)
		}
		return out, nil
	})
	if err != nil {
		return nil, err
	}
	for _, y := range []struct {
		name, program, ext, text string
		args                     []string
	}{
		{"node", "node", "js", cpuTS, []string{"-e", nodeCPU}},
		{"python3", "python3", "py", cpuPY, []string{"-c", pythonCPU}},
	} {
		figures, err := r.computeElsewhere(ctx, y.name, y.program, y.ext, y.text, y.args)
		if err != nil {
			return nil, err
		}
		r.addYardsticks(figures...)
	}
	return out, nil
}

// measureCompute runs the set in one sandbox. Times are measured from outside: from sending a
// program to receiving its value.
func (l *lab) measureCompute(ctx context.Context, lang string) (_ []Figure, err error) {
	var names []string
	for _, c := range computations {
		names = append(names, "cpu_"+c.name+"_"+lang)
	}
	if !l.hasLanguage(lang) {
		return missingFigures(l.missingLanguage(), names...), nil
	}
	box, err := l.driver.Create(ctx,
		sandbox.Spec{Runtime: runtimes[lang], Owner: "bench", CPU: cpuLimit, Memory: 1 << 30})
	if err != nil {
		return nil, err
	}
	g := openGuest(ctx, box, nil)
	defer func() { err = errors.Join(err, g.closeGuest()) }()
	p, err := prepareProgram(lang, cpu[lang]+"\nsuite.prepare()")
	if err != nil {
		return nil, err
	}
	if v, err := g.evalProgram(p); err != nil || v != "true" {
		return nil, errors.Join(err, fmt.Errorf("prepare: %s", v))
	}
	var out []Figure
	for i, c := range computations {
		p, err := prepareProgram(lang, "suite."+c.name+"()")
		if err != nil {
			return nil, err
		}
		do := func() error { _, err := g.evalProgram(p); return err }
		if err := do(); err != nil { // warm up
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		took, err := repeatCalls(ctx, computeRounds(l.runner), do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		out = append(out, durationFigure(names[i], took))
	}
	return out, nil
}

// computeRounds returns the number of runs of each program.
func computeRounds(r *runner) int {
	if r.cfg.Quick {
		return 1
	}
	return 7
}

// The same in other runtimes. The scripts read the given file, and print the milliseconds of each
// round as JSON.
const (
	nodeCPU = `const [file, rounds, ...names] = process.argv.slice(1);
(0, eval)(require("fs").readFileSync(file, "utf8"));
suite.prepare();
const out = {};
for (const n of names) {
  suite[n]();
  out[n] = Array.from({ length: +rounds }, () => { const t = performance.now(); suite[n](); return performance.now() - t; });
}
console.log(JSON.stringify(out));`
	pythonCPU = `import sys, time
file, rounds, *names = sys.argv[1:]
exec(compile(open(file).read(), file, "exec"), globals())
suite.prepare()
out = {}
for n in names:
    f, times = getattr(suite, n), []
    f()
    for _ in range(int(rounds)):
        t = time.perf_counter()
        f()
        times.append((time.perf_counter() - t) * 1000)
    out[n] = times
print(json.dumps(out))`
)

// computeElsewhere runs the set in another program, if it is installed.
func (r *runner) computeElsewhere(ctx context.Context, name, program, ext, text string,
	args []string) ([]Figure, error) {
	var names, functions []string
	for _, c := range computations {
		names, functions = append(names, name+"_cpu_"+c.name), append(functions, c.name)
	}
	path, why := findProgram(program)
	if why != "" {
		return missingFigures(why, names...), nil
	}
	file := filepath.Join(r.dir, "cpu."+ext)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	argv := append(append([]string{path}, args...), file, fmt.Sprint(computeRounds(r)))
	_, said, err := runCommand(ctx, append(argv, functions...))
	if err != nil {
		return missingFigures(err.Error(), names...), nil
	}
	var took map[string][]float64
	if err := json.Unmarshal([]byte(said), &took); err != nil {
		return missingFigures(fmt.Sprintf("%s printed %.60q", program, said), names...), nil
	}
	var out []Figure
	for i, n := range names {
		out = append(out, numberFigure(n, took[functions[i]]...))
	}
	return out, nil
}
