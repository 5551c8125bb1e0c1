package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// address is where the agent accepts connections of the command tool. It is an abstract address, so
// that a program can't remove it. Each sandbox has its own.
var address = &unix.SockaddrUnix{Name: "@biplane/tool"}

// maxReply is the maximum size of a reply, in bytes.
const maxReply = 64 << 20

// askAgent sends a request to the agent, and returns its reply.
func askAgent(q *request) (*reply, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if len(line) >= maxRequest {
		return nil, fmt.Errorf("the arguments have %d bytes: the most is %d", len(line), maxRequest)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to the sandbox: %w", err)
	}
	conn := os.NewFile(uintptr(fd), "agent")
	defer conn.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); { // of the runtime
		err = unix.Connect(fd, address)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the sandbox: %w (this command works only in a program of execute)", err)
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("send the call: %w", err)
	}
	b, err := readAtMost(conn, maxReply)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	a := &reply{}
	if err := json.Unmarshal(bytes.TrimSpace(b), a); err != nil {
		return nil, errors.New("the program ended before the call was answered")
	}
	return a, nil
}
