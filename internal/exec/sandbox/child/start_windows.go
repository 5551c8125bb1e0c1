package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
)

// startWith starts a child, whose standard input and output are the connection.
func startWith(command []string, plan int, more []string) (peer, int, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, plan, err
	}
	p := &pipePeer{}
	p.cmd = &exec.Cmd{Path: program, Args: slices.Concat([]string{launch.Called}, command, []string{"plain"}, more),
		Env: launch.Environment(), Stderr: &p.said, WaitDelay: time.Second}
	if p.WriteCloser, err = p.cmd.StdinPipe(); err != nil {
		return nil, plan, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, plan, err
	}
	return p, plan, p.cmd.Start()
}

func takeOver(*launch.EarlyProcess) (peer, bool, error) { return nil, false, nil }

// A pipePeer is a child at the other end of two pipes.
type pipePeer struct {
	io.WriteCloser
	out  io.ReadCloser
	cmd  *exec.Cmd
	said launch.Tail
}

// Read reads the child's output.
func (p *pipePeer) Read(b []byte) (int, error) { return p.out.Read(b) }

func (p *pipePeer) kill()         { _ = p.cmd.Process.Kill() } // it may have ended
func (p *pipePeer) memory() int64 { return 0 }

// wait waits for the child to end, and describes the end.
func (p *pipePeer) wait() string {
	_ = p.cmd.Wait() // the state has more details
	return fmt.Sprintf("ended with code %d%s", p.cmd.ProcessState.ExitCode(), after(": ", p.said.Text()))
}

// A stdio is standard input and output.
type stdio struct{}

// Read reads standard input.
func (stdio) Read(b []byte) (int, error) { return os.Stdin.Read(b) }

// Write writes standard output.
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

func openInherited() (io.ReadWriter, error) { return stdio{}, nil }
