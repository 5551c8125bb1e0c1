package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A process is a server that runs as a child process, in its own process group, or that a Launcher
// has started.
type process struct {
	stdin          io.WriteCloser // our ends of the pipes
	stdout, stderr io.ReadCloser

	done     chan struct{} // closed after it has exited, its group was killed, and it was reaped
	status   string        // how it ended, for people; set before done is closed
	rests    bool          // it was only ended to free memory; set before done is closed
	pid      int           // 0: a Launcher has started it
	launched Launched      // nil: a child process
}

// A command is a command to start.
type command struct {
	path string
	args []string
	env  []string
	dir  string
}

// A Launcher starts the server of an upstream elsewhere than as a child process of this one.
type Launcher interface {
	// LaunchServer starts the server. It returns when the server runs.
	LaunchServer(ctx context.Context) (Launched, error)
}

// A Launched is a server that a Launcher has started.
type Launched interface {
	// OpenStreams returns our ends of its standard streams. It is called once.
	OpenStreams() (stdin io.WriteCloser, stdout, stderr io.ReadCloser)
	// UseServer wakes the server if it sleeps. It stays awake until the caller calls release.
	UseServer(ctx context.Context) (release func(), err error)
	// EndSignal returns a channel that is closed when the server has ended.
	EndSignal() <-chan struct{}
	// DescribeEnd describes its end for people. It rests if it was only ended to free
	// memory: the next call starts it again.
	DescribeEnd() (how string, rests bool)
	// StopServer ends the server, whose standard input is closed. It may take grace to exit.
	StopServer(grace time.Duration)
}

// launchServer starts a server by a Launcher.
func launchServer(ctx context.Context, l Launcher) (*process, error) {
	s, err := l.LaunchServer(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{done: make(chan struct{}), launched: s}
	p.stdin, p.stdout, p.stderr = s.OpenStreams()
	go func() {
		<-s.EndSignal()
		p.status, p.rests = s.DescribeEnd()
		close(p.done)
	}()
	return p, nil
}

// startProcess starts c. The goroutine that starts it also waits for it, on a single thread,
// because the kernel's parent-death signal is tied to that thread.
func startProcess(c command) (*process, error) {
	var theirs, ours [3]*os.File
	p := &process{done: make(chan struct{})}
	cleanup := func() {
		for i := range theirs {
			closeFile(theirs[i])
			closeFile(ours[i])
		}
	}
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			cleanup()
			return nil, err
		}
		if theirs[i], ours[i] = w, r; i == 0 {
			theirs[i], ours[i] = r, w
		}
	}
	p.stdin, p.stdout, p.stderr = ours[0], ours[1], ours[2]
	cmd := &exec.Cmd{Path: c.path, Args: append([]string{c.path}, c.args...), Env: c.env, Dir: c.dir,
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2]}
	started := make(chan error)
	go p.runProcess(cmd, started)
	if err := <-started; err != nil {
		cleanup()
		return nil, err
	}
	for _, f := range theirs {
		closeFile(f)
	}
	return p, nil
}

func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close()
	}
}

// runProcess starts the process, waits for its end and reaps it.
func (p *process) runProcess(cmd *exec.Cmd, started chan<- error) {
	release := prepareGroup(cmd)
	defer release()
	err := cmd.Start()
	if err == nil {
		p.pid = cmd.Process.Pid
	}
	started <- err
	if err != nil {
		return
	}
	if awaitExit(p.pid) {
		// Kill what it left behind before it is reaped, while the process ID can't be reused.
		signalGroup(p.pid, true)
		err = cmd.Wait()
	} else {
		err = cmd.Wait()
		signalGroup(p.pid, true)
	}
	p.status = "exited with status 0"
	if err != nil {
		p.status = "ended: " + err.Error()
	}
	if ps := cmd.ProcessState; ps != nil {
		p.status = exitStatus(ps)
	}
	close(p.done)
}

// exitStatus describes how a process ended.
func exitStatus(ps *os.ProcessState) string {
	if ps.Exited() {
		return fmt.Sprintf("exited with status %d", ps.ExitCode())
	}
	return "was ended by a " + ps.String() // "signal: killed"
}

// hasExited reports whether the process has ended, waiting for that at most d.
func (p *process) hasExited(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// stop ends the process and its whole group. It closes the standard input, which asks an MCP server
// to exit; then it sends SIGTERM; then it kills the group. grace is the timeout of each of the
// first two steps.
func (p *process) stop(grace time.Duration) {
	_ = p.stdin.Close()
	if p.launched != nil {
		p.launched.StopServer(grace)
		<-p.done
		return
	}
	if p.hasExited(grace) {
		return
	}
	signalGroup(p.pid, false)
	if p.hasExited(grace) {
		return
	}
	signalGroup(p.pid, true)
	<-p.done
}

// lookPath returns the path of the executable name for a child process with environment env and
// working directory dir. It is exec.LookPath with the child's PATH.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		path := name
		if !filepath.IsAbs(path) && dir != "" {
			path = filepath.Join(dir, path)
		}
		if err := checkExecutable(path); err != nil {
			return "", fmt.Errorf("command %q: %w", name, err)
		}
		return filepath.Abs(path)
	}
	var path string
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) { // "" and "." would run files in the working directory
			continue
		}
		if p := filepath.Join(d, name); checkExecutable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("command %q is not in PATH: install it, or give its full path", name)
}

func checkExecutable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file")
	case err != nil:
		return err
	case fi.IsDir():
		return errors.New("is a folder")
	case fi.Mode()&0o111 == 0:
		return errors.New("is not executable")
	}
	return nil
}

// isInherited reports whether a server inherits this environment variable. It is true for what
// programs need to find each other, their user's folders and the language. It is false for
// credentials and for settings meant for other servers.
func isInherited(key string) bool {
	switch key {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
		"SystemRoot", "SystemDrive", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "USERPROFILE", "USERNAME",
		"PATHEXT", "COMSPEC":
		return true
	}
	return strings.HasPrefix(key, "LC_") || strings.HasPrefix(key, "XDG_")
}

// childEnv returns the environment of a server: what it inherits from environ, and the configured
// variables.
func childEnv(environ []string, given map[string]string) []string {
	var env []string
	for _, e := range environ {
		key, value, _ := strings.Cut(e, "=")
		// an exported shell function
		if _, ok := given[key]; ok || !isInherited(key) || strings.HasPrefix(value, "()") {
			continue
		}
		env = append(env, e)
	}
	for k, v := range given {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	return env
}
