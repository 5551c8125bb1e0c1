package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

const (
	workFolder = "/workspace"
	// reserved is the number of processes and threads that programs leave to the agent.
	reserved = 24
)

// A script is a program under way.
type script struct {
	a    *agent
	out  output
	errs output
	left int // processes that it left behind
	// session means that its variables and its processes are kept for the next script
	session bool
}

// runProgram runs a program, and sends its end.
func (a *agent) runProgram(run *sandbox.Run) {
	s := &script{a: a, session: run.Session}
	s.out = output{level: "log", host: a}
	s.errs = output{level: "error", host: a, keep: maxTail}
	if a.tools != nil {
		s.errs.keep = maxTrace
	}
	if failure := s.runScript(run); failure != nil {
		a.sendMessage(&sandbox.GuestMessage{Fail: &sandbox.Fail{Error: *failure}})
		return
	}
	for _, what := range a.calls.takeEmissions() {
		a.sendMessage(&sandbox.GuestMessage{Emit: &sandbox.Emit{Handle: what}})
	}
	s.sendNote(s.out.describeSize())
	a.sendMessage(&sandbox.GuestMessage{Done: &sandbox.Done{Value: s.out.readValue()}})
}

// sendNote sends a note to the agent that wrote the program.
func (s *script) sendNote(text string) {
	if text != "" {
		s.a.sendMessage(&sandbox.GuestMessage{Console: &sandbox.Console{Level: sandbox.NoteLevel, Text: text}})
	}
}

// runScript runs the script with its files, and returns why it failed.
func (s *script) runScript(run *sandbox.Run) *sandbox.GuestError {
	err := s.a.files.loadFiles()
	if err != nil {
		return &sandbox.GuestError{Name: "Error", Message: err.Error()}
	}
	command, failure := s.prepareCommand(run)
	if failure != nil {
		return failure
	}
	status, err := s.runCommand(command)
	if err != nil {
		return &sandbox.GuestError{Name: "Error", Message: err.Error()}
	}
	if s.left > 0 && s.session {
		s.sendNote(fmt.Sprintf("background processes of this session are kept (%d): they run while one of its "+
			"scripts runs", s.left))
	} else if s.left > 0 {
		s.sendNote(fmt.Sprintf("%d of the script's processes were still running at its end, and were ended: wait for "+
			"background processes with wait", s.left))
	}
	if failure := s.explainEnd(status); failure != nil {
		return failure
	}
	if err := s.a.files.storeChanges(); err != nil {
		return &sandbox.GuestError{Name: "Error", Message: err.Error()}
	}
	if s.session && s.a.tools == nil {
		s.sendNote(s.a.session.keepState())
	}
	return nil
}

// prepareCommand returns the command that runs a program: the shell with a script, or what a
// compiler made of the program.
func (s *script) prepareCommand(run *sandbox.Run) ([]string, *sandbox.GuestError) {
	if s.a.tools != nil {
		return s.compileProgram(run)
	}
	path := "/tmp/" + run.Name
	if s.session {
		_ = os.Remove(path) // of the script before
	}
	err := errors.Join(writeNew(path, run.Code), s.a.calls.acceptTools(address))
	if err == nil && s.session {
		err = s.a.session.prepareState()
	}
	switch {
	case err != nil:
		return nil, &sandbox.GuestError{Name: "Error", Message: err.Error()}
	case s.session:
		return []string{s.a.path, "-c", sessionScript, path}, nil
	}
	return []string{s.a.path, path}, nil
}

// writeNew writes a file that must not exist.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// runCommand runs a command, and passes on its output. When the command has ended, all that is left
// of its output has been passed on, too.
func (s *script) runCommand(args []string) (status syscall.WaitStatus, err error) {
	out, toOut, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	errs, toErrs, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, out.Close(), toOut.Close())
	}
	pid, err := startProcess(args, workFolder, toOut, toErrs)
	if err := errors.Join(err, toOut.Close(), toErrs.Close()); err != nil {
		return 0, errors.Join(fmt.Errorf("start %s: %w", args[0], err), out.Close(), errs.Close())
	}
	var copied sync.WaitGroup
	copied.Go(func() { s.out.copyFrom(out) })
	copied.Go(func() { s.errs.copyFrom(errs) })
	status = waitFor(pid)
	if s.session {
		s.left = countRest()
		s.stopCopying(&copied, out, errs)
		return status, nil
	}
	s.left = killRest() // so that no one has the other ends of the pipes
	copied.Wait()
	return status, errors.Join(out.Close(), errs.Close())
}

// startProcess starts a process without standard input in a folder, and returns its ID. more is
// added to its environment.
func startProcess(args []string, dir string, out, errs *os.File, more ...string) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &most); err != nil {
		return 0, err
	}
	if less := most; less.Cur > 2*reserved {
		less.Cur -= reserved
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &less); err != nil {
			return 0, err
		}
		defer unix.Setrlimit(unix.RLIMIT_NPROC, &most) // it can't fail: this was the limit before
	}
	return syscall.ForkExec(args[0], args, &syscall.ProcAttr{Dir: dir, Env: append(scriptEnvironment(), more...),
		Files: []uintptr{null.Fd(), out.Fd(), errs.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}})
}

// scriptEnvironment returns the environment of scripts: the sandbox's, with the command tool.
func scriptEnvironment() []string {
	out := syscall.Environ() // the one that the sandbox was entered with
	for i, e := range out {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			out[i] = "PATH=" + Folder + "/bin:" + path
		}
	}
	return out
}

// waitFor waits until a process has ended, and returns its status. It collects other processes that
// end meanwhile: the first process of a sandbox is the parent of all that have lost theirs.
func waitFor(pid int) (status syscall.WaitStatus) {
	for {
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if got == pid || err != nil && !errors.Is(err, syscall.EINTR) {
			return status
		}
	}
}

// killRest ends all other processes of the sandbox, and returns how many there were.
func killRest() (n int) {
	for {
		_ = syscall.Kill(-1, syscall.SIGKILL) // there may be none
		var status syscall.WaitStatus
		_, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return n
		case status.Signaled() && status.Signal() == syscall.SIGKILL:
			n++
		}
	}
}

// explainEnd returns why the script failed, or nil if it succeeded.
func (s *script) explainEnd(status syscall.WaitStatus) *sandbox.GuestError {
	short := s.a.hasMemoryKill()
	if status.Exited() && status.ExitStatus() == 0 {
		if short {
			s.sendNote("the system ended a process of the script because the sandbox reached its memory limit")
		}
		return nil
	}
	last := s.errs.lastLines()
	e := &sandbox.GuestError{Message: s.describeStatus(status), Stack: last}
	if short {
		e.Kind, e.Message = "limit", "limit (memory): the sandbox reached its memory limit, and the system ended one "+
			"of the script's processes: hold less at a time ("+e.Message+")"
	}
	if last != "" {
		e.Message += "; the last lines of standard error:\n" + last
	}
	return e
}

// describeStatus describes how a script's shell or a program ended.
func (s *script) describeStatus(status syscall.WaitStatus) string {
	who, what := "the shell", "the script"
	if s.a.tools != nil {
		who, what = "the program", "the program"
	}
	if status.Signaled() {
		return who + " was ended by " + describeSignal(status.Signal())
	}
	n := status.ExitStatus()
	text := fmt.Sprintf("%s ended with exit status %d", what, n)
	if s.a.tools == nil && n > 128 && unix.SignalName(syscall.Signal(n-128)) != "" {
		text += ", as after a command that was ended by " + describeSignal(syscall.Signal(n-128))
	}
	return text
}

func describeSignal(s syscall.Signal) string {
	return fmt.Sprintf("signal %d (%s, %s)", int(s), unix.SignalName(s), s)
}

// readVersion returns the version of the shell or the compiler.
func (a *agent) readVersion() (string, error) {
	args := []string{a.path, "-c", `echo "$BASH_VERSION"`}
	if a.tools != nil {
		args = append([]string{a.path}, a.tools.version...)
	}
	text, status, err := runQuietly(args, workFolder)
	switch {
	case err != nil:
		return "", err
	case status != 0:
		return "", fmt.Errorf("%s: %s", strings.Join(args, " "), shortenWord(text))
	case a.tools != nil:
		text = strings.TrimPrefix(wordAt(text, a.tools.versionWord), "go")
	}
	return strings.TrimSpace(text), nil
}

// maxQuiet is the number of bytes that are kept of what a quiet command writes.
const maxQuiet = 64 << 10

// runQuietly runs a command in a folder, and returns the beginning of its output.
func runQuietly(args []string, dir string, more ...string) (text string, status syscall.WaitStatus, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	pid, err := startProcess(args, dir, w, w, more...)
	if err := errors.Join(err, w.Close()); err != nil {
		return "", 0, fmt.Errorf("start %s: %w", args[0], err)
	}
	read := make(chan string, 1)
	go func() {
		kept, err := io.ReadAll(io.LimitReader(r, maxQuiet))
		if err == nil {
			_, _ = io.Copy(io.Discard, r) // so that it can end
		}
		read <- string(kept)
	}()
	status = waitFor(pid)
	return <-read, status, nil
}
