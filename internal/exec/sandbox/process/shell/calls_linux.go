package shell

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxConnections is the number of connections of the command tool that are served at a time. Others
// wait.
const maxConnections = 128

// A callTable makes the calls of a program.
type callTable struct {
	host    messenger
	accepts bool // acceptTools was called; programs run one after the other

	mu      sync.Mutex
	last    int64 // id
	waiting map[int64]chan *sandbox.Answer
	emitted []string // handles and paths, to send when the files have been copied
}

// makeCall makes a call, and waits for its answer.
func (t *callTable) makeCall(c *sandbox.GuestCall) *sandbox.Answer {
	done := make(chan *sandbox.Answer, 1)
	t.mu.Lock()
	if t.waiting == nil {
		t.waiting = map[int64]chan *sandbox.Answer{}
	}
	t.last++
	c.ID = t.last
	t.waiting[c.ID] = done
	t.mu.Unlock()
	t.host.sendMessage(&sandbox.GuestMessage{Call: c})
	return <-done
}

// deliverAnswer delivers an answer of the host.
func (t *callTable) deliverAnswer(a *sandbox.Answer) {
	t.mu.Lock()
	done := t.waiting[a.ID]
	delete(t.waiting, a.ID)
	t.mu.Unlock()
	if done != nil {
		done <- a
	}
}

// maxEmitted is the number of files and handles that a program may emit.
const maxEmitted = 1000

// keepEmission keeps something to emit until the program has ended.
func (t *callTable) keepEmission(what string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.emitted) == maxEmitted {
		return fmt.Errorf("the program emitted %d files: that is the most", maxEmitted)
	}
	t.emitted = append(t.emitted, what)
	return nil
}

// takeEmissions returns the emitted content of the program.
func (t *callTable) takeEmissions() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.emitted
	t.emitted = nil
	return out
}

// acceptTools accepts connections of the command tool, or of a client, until the process ends. It
// may be called again.
func (t *callTable) acceptTools(address *unix.SockaddrUnix) error {
	var there unix.Stat_t
	if t.accepts && (address.Name[0] == '@' || unix.Lstat(address.Name, &there) == nil) {
		return nil // a program can only remove its own way to the tools
	}
	t.accepts = true
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Bind(fd, address), unix.Listen(fd, maxConnections)); err != nil {
		return err
	}
	l, err := os.NewFile(uintptr(fd), "tool").SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		slots := make(chan struct{}, maxConnections)
		for {
			slots <- struct{}{}
			conn, err := acceptConnection(l)
			if err != nil {
				<-slots
				time.Sleep(10 * time.Millisecond) // the system lacks something
				continue
			}
			go func() {
				defer func() { <-slots }()
				defer conn.Close()
				t.serveConnection(conn)
			}()
		}
	}()
	return nil
}

// acceptConnection waits for a connection.
func acceptConnection(l syscall.RawConn) (conn *os.File, err error) {
	waited := l.Read(func(fd uintptr) bool {
		var got int
		got, _, err = unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == nil {
			conn = os.NewFile(uintptr(got), "caller")
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	return conn, errors.Join(waited, err)
}

// serveConnection answers one request of the command tool.
func (t *callTable) serveConnection(conn *os.File) {
	r := bufio.NewReader(io.LimitReader(conn, maxRequest))
	line, err := r.ReadBytes('\n')
	if err != nil {
		return // the caller is gone, or sent too much
	}
	line, err = tool.Marshal(t.handleRequest(line))
	if err == nil {
		_, _ = conn.Write(append(line, '\n')) // the caller may be gone
	}
}

func (t *callTable) handleRequest(line []byte) *reply {
	var q request
	err := json.Unmarshal(line, &q)
	switch {
	case err != nil:
	case q.Emit != "":
		err = t.keepEmission(q.Emit)
	case q.Path == "":
		err = errors.New("the path of a tool is missing")
	default:
		a := t.makeCall(&sandbox.GuestCall{Path: q.Path, Args: q.Args, Flags: q.Flags})
		return &reply{a.Value, a.Error}
	}
	if err != nil {
		return &reply{Error: &sandbox.GuestError{Message: err.Error()}}
	}
	return &reply{}
}
