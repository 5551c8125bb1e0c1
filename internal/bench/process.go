package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// start measures how long a process takes from its start to its answer, with an empty configuration and a data folder of its own.
func (r *runner) start(ctx context.Context) ([]Figure, error) {
	config := filepath.Join(r.dir, "empty.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
		return nil, err
	}
	once := r.argv("run", "-c", "1+1", "--config", config, "--data-dir", filepath.Join(r.dir, "data-start"))
	if _, err := answered(ctx, "2", once); err != nil { // makes the data folder
		return nil, err
	}
	var out []Figure
	for _, c := range []struct {
		name, want string
		argv       []string
	}{
		{"biplane version: nothing but the process", "biplane ", r.argv("version")},
		{"biplane run -c 1+1: store, engine, sandbox, record", "2", once},
	} {
		var took []time.Duration
		for range r.rounds(20) {
			d, err := answered(ctx, c.want, c.argv)
			if err != nil {
				return nil, err
			}
			took = append(took, d)
		}
		out = append(out, times(c.name, took))
	}
	return out, nil
}

// answered runs a command whose output must begin with want, and gives how long it took to its first line.
func answered(ctx context.Context, want string, argv []string) (time.Duration, error) {
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = &errs
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return cmd.Process.Kill() // Windows has no such signal
		}
		return nil
	}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	line, _ := bufio.NewReader(io.LimitReader(out, 4096)).ReadString('\n') // what is missing is seen below
	took := time.Since(start)
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(argv[1:], " "), err, errs.String())
	}
	if !strings.HasPrefix(line, want) {
		return 0, fmt.Errorf("%s printed %.100q, not %q", strings.Join(argv[1:], " "), line, want)
	}
	return took, nil
}

// resident gives the resident memory of a process in MiB. Pages that sandboxes share count once for each that has
// touched them: it is what the system's tools show, and more than the process costs.
func resident(ctx context.Context, pid int) (float64, error) {
	if runtime.GOOS == "windows" {
		return 0, fmt.Errorf("not on %s yet", runtime.GOOS)
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for l := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
				return kibibytes(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			}
		}
	}
	out, err := exec.CommandContext(ctx, "ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("ps: %w", err)
	}
	return kibibytes(string(out))
}

func kibibytes(s string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return n / 1024, err
}
