package shell

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stateFile = "/tmp/.biplane-state" // what a script begins with
	savedFile = "/tmp/.biplane-saved" // what it ends with
	savedMark = "# that is all\n"     // the end of a complete savedFile
	// maxWaiting is the number of reads of a script's output at its end: more than a pipe holds.
	maxWaiting = 32
	maxState   = 8 << 20 // bytes of a state
)

// sessionScript runs the script $0 with the directory, variables and functions that the session's
// last script ended with, and saves them at its end. Each script is a shell of its own, so that it
// can exit, and a failed one leaves nothing.
const sessionScript = `__biplane_save() {
	{ set +eux +v +f +o posix; } 2>/dev/null
	local __biplane_name
	{
		shopt -p
		umask -p
		printf 'cd -- %q\n' "$PWD"
		while IFS= read -r __biplane_name; do
			case $__biplane_name in
			__biplane_*|BASH*|COMP_*|COPROC*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OLDPWD) ;;
			OPT*|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_) ;;
			*) declare -p "$__biplane_name" ;;
			esac
		done <<<"$(compgen -v)"
		unset -f __biplane_save
		declare -f
		while IFS= read -r __biplane_name; do
			case $__biplane_name in "declare -fx "*) printf '%s\n' "$__biplane_name" ;; esac
		done <<<"$(declare -F)"
		printf '# that is all\n'
	} >/tmp/.biplane-saved 2>/dev/null
}
. /tmp/.biplane-state 2>/dev/null
trap __biplane_save EXIT
. "$0"
`

// A shellState is the state of a shell between two scripts of a session: a script that restores its
// directory, variables and functions.
type shellState struct {
	text []byte
}

// prepareState writes the state for the next script.
func (s *shellState) prepareState() error {
	_ = os.Remove(savedFile) // of a failed script
	_ = os.Remove(stateFile)
	if err := writeNew(stateFile, string(s.text)); err != nil {
		return fmt.Errorf("restore the variables of the session: %w", err)
	}
	return nil
}

// keepState reads the state that a successful script left. If there is none, the state stays as it
// was, and keepState returns a note that says so.
func (s *shellState) keepState() (note string) {
	const stays = "the variables, functions and directory of this session are as before this script: "
	f, err := os.OpenFile(savedFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return stays + "it replaced its shell (exec), or set another trap for EXIT"
	}
	defer f.Close()
	text, err := readAtMost(f, maxState)
	switch {
	case err != nil:
		return stays + "they have " + err.Error()
	case !bytes.HasSuffix(text, []byte(savedMark)):
		return stays + "they could not be saved (is /tmp full?)"
	}
	s.text = text
	return ""
}

// stopCopying waits until all that the script wrote has been copied. What its background processes
// write later is sent as console lines.
func (s *script) stopCopying(copied *sync.WaitGroup, out, errs *os.File) {
	for _, f := range []*os.File{out, errs} {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // a pipe has deadlines
	}
	copied.Wait()
	for _, c := range []struct {
		from *os.File
		to   *output
	}{{out, &s.out}, {errs, &s.errs}} {
		if c.to.copyWaiting(c.from) {
			_ = c.from.Close() // no process has the other end
			continue
		}
		later := &output{level: "info", host: s.a}
		go func() {
			defer c.from.Close()
			_ = c.from.SetReadDeadline(time.Time{})
			later.copyFrom(c.from)
		}()
	}
}

// copyWaiting sends what has been written to a pipe. It reports whether that is all.
func (o *output) copyWaiting(f *os.File) (end bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return true
	}
	buf := make([]byte, readSize)
	_ = conn.Control(func(fd uintptr) {
		for range maxWaiting {
			n, err := unix.Read(int(fd), buf)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil || n == 0:
				end = !errors.Is(err, unix.EAGAIN)
				return
			}
			o.sendLines(buf[:n])
		}
	})
	o.endLine()
	return end
}

// countRest returns how many other processes the sandbox has.
func countRest() (n int) {
	var status syscall.WaitStatus
	for {
		if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range all {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			n++
		}
	}
	return n
}
