package shell

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// socketFD is the agent's end of the connection to the driver.
const socketFD = 3

// An agent is the guest's end of the guest protocol. It exchanges frames with the driver, which
// package process describes in agent/_host.py.
type agent struct {
	runtime string     // "bash", or the language of a toolchain
	path    string     // of the shell or the compiler
	tools   *toolchain // nil: programs are shell scripts
	in      *bufio.Reader
	out     sender
	asking  chan struct{} // has an element from a question to its answer
	answers chan *frame   // to questions
	calls   callTable
	files   files
	session shellState // of a session
}

// A sender sends frames to the driver, one at a time.
type sender struct {
	mu   sync.Mutex
	conn *os.File
}

// A messenger sends messages to the host.
type messenger interface{ sendMessage(*sandbox.GuestMessage) }

// A frame is a message between the agent and the driver.
type frame struct {
	kind byte
	data []byte
}

// serveDriver runs the agent until the driver closes the connection.
func serveDriver(runtime, path string) error {
	if err := protectAgent(); err != nil {
		return err
	}
	unix.CloseOnExec(socketFD)
	if err := unix.SetNonblock(socketFD, true); err != nil {
		return fmt.Errorf("this command is for internal use: %w", err)
	}
	conn := os.NewFile(socketFD, "driver")
	a := &agent{runtime: runtime, path: path, tools: listToolchains()[runtime], out: sender{conn: conn},
		in:     bufio.NewReaderSize(conn, 64<<10),
		asking: make(chan struct{}, 1), answers: make(chan *frame, 1)}
	a.files.host, a.calls.host = a, a
	if err := a.sendFrame('R', nil); err != nil {
		return err
	}
	for {
		f, err := a.readFrame()
		if err != nil {
			return nil // the driver is gone
		}
		switch f.kind {
		case 'L':
			a.handleLine(f.data)
		case 'A', 'N', 'K':
			a.answers <- f
		case 'E':
			err = a.sendFrame('I', nil)
		case 'M':
			err = a.sendInventory()
		case 'W':
			a.buildAhead()
			err = a.sendFrame('W', []byte("{}"))
		}
		if err != nil {
			return err
		}
	}
}

func (a *agent) readFrame() (*frame, error) {
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return &frame{line[0], line[1:max(len(line)-1, 1)]}, nil
}

func (a *agent) sendFrame(kind byte, data []byte) error {
	line := make([]byte, 0, len(data)+2)
	line = append(append(append(line, kind), data...), '\n')
	a.out.mu.Lock()
	defer a.out.mu.Unlock()
	_, err := a.out.conn.Write(line)
	return err
}

// sendMessage sends a message to the host. An error means that the driver is gone, which the
// reading goroutine notices.
func (a *agent) sendMessage(m *sandbox.GuestMessage) {
	if line, err := tool.Marshal(m); err == nil {
		_ = a.sendFrame('L', line)
	}
}

// askDriver sends a question, and waits for the answer.
func (a *agent) askDriver(kind byte, data []byte) (*frame, error) {
	a.asking <- struct{}{}
	defer func() { <-a.asking }()
	if err := a.sendFrame(kind, data); err != nil {
		return nil, err
	}
	return <-a.answers, nil
}

// performFile performs an operation on the host's files.
func (a *agent) performFile(f *sandbox.File) (json.RawMessage, error) {
	line, err := tool.Marshal(&sandbox.GuestMessage{File: f})
	if err != nil {
		return nil, err
	}
	answer, err := a.askDriver('Q', line)
	switch {
	case err != nil:
		return nil, err
	case answer.kind == 'N':
		return nil, errNoHost
	}
	var m sandbox.HostMessage
	if err := json.Unmarshal(answer.data, &m); err != nil || m.Answer == nil {
		return nil, io.ErrUnexpectedEOF
	}
	if e := m.Answer.Error; e != nil {
		kind := tool.Internal
		if e.Code == "EACCES" || e.Code == "EPERM" || e.Code == "ENOENT" {
			kind = tool.NotFound // or hidden
		}
		return nil, &tool.Error{Kind: kind, Msg: e.Message}
	}
	return m.Answer.Value, nil
}

// hasMemoryKill reports whether the system killed a process of the sandbox because memory ran out.
func (a *agent) hasMemoryKill() bool {
	f, err := a.askDriver('K', nil)
	return err == nil && string(f.data) == "1"
}

// handleLine handles a message of the host.
func (a *agent) handleLine(line []byte) {
	var m sandbox.HostMessage
	if json.Unmarshal(line, &m) != nil {
		return // the host sends valid messages
	}
	switch {
	case m.Answer != nil:
		a.calls.deliverAnswer(m.Answer)
	case m.Run != nil:
		go a.runProgram(m.Run)
	}
}

// sendInventory sends what this sandbox has.
func (a *agent) sendInventory() error {
	version, err := a.readVersion()
	if err != nil {
		return err
	}
	line, err := tool.Marshal(struct {
		Version string `json:"version"`
	}{version})
	if err != nil {
		return err
	}
	return a.sendFrame('M', line)
}
