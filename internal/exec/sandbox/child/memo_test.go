//go:build linux

package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Memo is a driver whose guests are small machines that execute the lines sent by the host:
//
//	add TEXT      remember TEXT
//	get           write the remembered texts as a line
//	ask TEXT      ask the host, and write its answer
//	nag           ask the host until the Run is stopped, which it notices 20 ms late
//	flood N       write N bytes and a newline
//	spin          do nothing until the Run is stopped
//	stuck         write a line and block forever, even if the Run is stopped
//	fail KIND     end the Run with an error: limit, engine, tool, plain
//	exit CODE     end the process
//	crash         end the process by a signal
//	forbid        end the process by a forbidden system call
type Memo struct {
	mu   sync.Mutex
	open int
}

// Open returns the number of open sandboxes.
func (m *Memo) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Probe returns fixed capabilities.
func (m *Memo) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities{Driver: "memo", Tier: tool.WASM, Runtimes: []string{"memo"}, Engine: "lines",
		Missing: []string{sandbox.Unenclosed, "everything"}}, nil
}

// Create returns a machine with empty memory, or an error if spec.Memory is 1.
func (m *Memo) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if spec.Memory == 1 {
		return nil, tool.Errorf(tool.Invalid, "one byte is too little")
	}
	return m.add(nil), nil
}

// Restore returns a machine that remembers the texts of the snapshot.
func (m *Memo) Restore(_ context.Context, _ sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	var s []string
	if json.Unmarshal(snapshot, &s) != nil {
		return nil, &sandbox.EngineError{Snapshot: "another", Engine: "memo"}
	}
	return m.add(s), nil
}

func (m *Memo) add(s []string) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open++
	return &memo{d: m, said: s, closed: make(chan struct{})}
}

type memo struct {
	d      *Memo
	said   []string
	closed chan struct{}
	once   sync.Once
}

func (b *memo) Run(ctx context.Context, cmd *sandbox.Cmd) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-b.closed:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = cmd.Guest.(io.Closer).Close() })()
	cmd.Usage = sandbox.Usage{CPU: time.Millisecond, Memory: int64(len(b.said))}
	in := bufio.NewReader(cmd.Guest)
	for {
		line, err := in.ReadString('\n')
		if ctx.Err() != nil {
			return -1, context.Cause(ctx)
		}
		if err == io.EOF {
			return 7, nil
		}
		if err != nil {
			return -1, err
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if err := b.do(ctx, cmd, word, rest); err != nil {
			return -1, err
		}
	}
}

func (b *memo) do(ctx context.Context, cmd *sandbox.Cmd, word, rest string) error {
	out := ""
	switch word {
	case "add":
		b.said = append(b.said, rest)
		return nil
	case "get":
		out = strings.Join(b.said, " ")
	case "ask":
		out = string(cmd.Ask(ctx, []byte(rest)))
	case "next":
		out = string(cmd.Next(ctx))
	case "nag":
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(20*time.Millisecond, cancel) })()
		for own.Err() == nil {
			cmd.Ask(own, []byte("now?"))
		}
		return context.Cause(ctx)
	case "flood":
		n, _ := strconv.Atoi(rest)
		out = strings.Repeat("x", n)
	case "spin":
		<-ctx.Done()
		return context.Cause(ctx)
	case "stuck":
		_, _ = io.WriteString(cmd.Guest, "stuck\n")
		select {}
	case "fail":
		return map[string]error{
			"limit":  &sandbox.LimitError{Limit: "cpu", Msg: "the CPU time of 1s is over"},
			"engine": &sandbox.EngineError{Snapshot: "a", Engine: "b"},
			"tool":   tool.Errorf(tool.Conflict, "it can't be: %w", errors.New("inside")),
			"plain":  errors.New("plain"),
		}[rest]
	case "exit":
		n, _ := strconv.Atoi(rest)
		fmt.Fprintln(os.Stderr, "these are its last words")
		os.Exit(n)
	case "crash":
		panic("it crashed")
	case "forbid":
		_ = syscall.Chroot("/")
	}
	_, err := io.WriteString(cmd.Guest, out+"\n")
	return err
}

func (b *memo) Snapshot(context.Context) ([]byte, error) { return json.Marshal(b.said) }

func (b *memo) Fork(context.Context) (sandbox.Sandbox, error) {
	return b.d.add(append([]string(nil), b.said...)), nil
}

func (b *memo) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.d.mu.Lock()
		defer b.d.mu.Unlock()
		b.d.open--
	})
	return nil
}
