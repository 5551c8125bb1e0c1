package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// measureStart measures the time from the start of a process to its answer, with an empty
// configuration and its own data folder. It measures the same for other programs.
func (r *runner) measureStart(ctx context.Context) ([]Figure, error) {
	config := filepath.Join(r.dir, "empty.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		return nil, err
	}
	once := r.commandLine("run", "-c", "1+1", "--config", config, "--data-dir", filepath.Join(r.dir, "data-start"))
	if _, err := timeFirstLine(ctx, "2", once); err != nil { // creates the data folder
		return nil, err
	}
	var out []Figure
	for _, c := range []struct {
		name, want string
		argv       []string
	}{
		{"cold_start", "2", once},
		{"process_start", "biplane ", r.commandLine("version")},
	} {
		took, err := collectDurations(ctx, r.countRounds(30), func() (time.Duration, error) {
			return timeFirstLine(ctx, c.want, c.argv)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, durationFigure(c.name, took))
	}
	for _, y := range []struct {
		name string
		argv []string
	}{
		{"node_start", []string{"node", "-e", "console.log(1+1)"}},
		{"deno_start", []string{"deno", "eval", "console.log(1+1)"}},
		{"python3_start", []string{"python3", "-c", "print(1+1)"}},
	} {
		path, why := findProgram(y.argv[0])
		if why != "" {
			r.addYardsticks(missingFigures(why, y.name)...)
			continue
		}
		argv := append([]string{path}, y.argv[1:]...)
		took, err := collectDurations(ctx, r.countRounds(20), func() (time.Duration, error) {
			return timeFirstLine(ctx, "2", argv)
		})
		switch {
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			r.addYardsticks(missingFigures(err.Error(), y.name)...)
		default:
			r.addYardsticks(durationFigure(y.name, took))
		}
	}
	return out, r.measureContexts(ctx)
}

// measureContexts measures new contexts in a running Node.
func (r *runner) measureContexts(ctx context.Context) error {
	const name = "node_vm_context"
	path, why := findProgram("node")
	if why != "" {
		r.addYardsticks(missingFigures(why, name)...)
		return nil
	}
	_, said, err := runCommand(ctx, []string{path, "-e", `const vm = require("vm"), out = [];
for (let i = 0; i < +process.argv[1] + 20; i++) {
  const t = performance.now();
  if (vm.runInContext("1+1", vm.createContext()) !== 2) throw new Error("wrong");
  if (i >= 20) out.push(performance.now() - t);
}
console.log(JSON.stringify(out));`, fmt.Sprint(r.countRounds(300))})
	if ctx.Err() != nil {
		return err
	}
	var took []float64
	if err == nil {
		err = json.Unmarshal([]byte(said), &took)
	}
	if err != nil {
		r.addYardsticks(missingFigures(err.Error(), name)...)
		return nil
	}
	r.addYardsticks(numberFigure(name, took...))
	return nil
}

// findProgram returns the path of a program, or the reason why there is none. For a version
// manager's wrapper it returns the real program, since wrappers start slowly.
func findProgram(program string) (path, why string) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", program + " is not installed"
	}
	if program == "python3" {
		if out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output(); err == nil &&
			len(bytes.TrimSpace(out)) > 0 {
			path = string(bytes.TrimSpace(out))
		}
	}
	return path, ""
}

// timeFirstLine runs a command whose output must begin with want. It returns the time to its first
// line.
func timeFirstLine(ctx context.Context, want string, argv []string) (time.Duration, error) {
	took, line, err := runCommand(ctx, argv)
	if err == nil && !strings.HasPrefix(line, want) {
		err = fmt.Errorf("%s printed %.100q, not %q", strings.Join(argv[1:], " "), line, want)
	}
	return took, err
}

// longestLine is more than any command here prints.
const longestLine = 1 << 20

// newCommand returns a command that is interrupted when ctx ends.
func newCommand(ctx context.Context, argv []string, errs io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = errs
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return cmd.Process.Kill() // Windows has no such signal
		}
		return nil
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// runCommand runs a command and returns its first line, and the time to that line.
func runCommand(ctx context.Context, argv []string) (time.Duration, string, error) {
	var errs bytes.Buffer
	cmd := newCommand(ctx, argv, &errs)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	line, _ := bufio.NewReader(io.LimitReader(out, longestLine)).ReadString('\n') // the caller notices missing output
	took := time.Since(start)
	if err := cmd.Wait(); err != nil {
		return 0, "", fmt.Errorf("%s: %w: %.300s", filepath.Base(argv[0])+" "+
			strings.Join(argv[1:min(len(argv), 2)], " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return took, strings.TrimSuffix(line, "\n"), nil
}
