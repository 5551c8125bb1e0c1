package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

var driver = sync.OnceValues(func() (*wasm.Driver, error) { return wasm.New(wasm.Config{}) })

type pipes struct {
	io.Reader
	io.Writer
}

// An engine is a sandbox and the host's end of its stream, for one program or the programs of a
// session.
type engine struct {
	t       testing.TB
	session bool
	in      *bufio.Reader
	out     io.WriteCloser
	over    sync.WaitGroup
	files   map[string]string // content of each readable file
	spaces  map[string][]string
	at      int64
}

// newEngine returns an engine. The caller must close it.
func newEngine(t testing.TB, session bool) *engine {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatalf("driver: %v", err)
	}
	s, err := d.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	hostIn, guestOut := io.Pipe()
	guestIn, hostOut := io.Pipe()
	e := &engine{t: t, session: session, in: bufio.NewReader(hostIn), out: hostOut, at: 1_700_000_000_000,
		spaces: map[string][]string{"github": {"list_issues"}, "files": {"read"}}}
	e.over.Go(func() {
		defer cancel()
		if _, err := s.Run(ctx, &sandbox.Cmd{Guest: pipes{guestIn, guestOut}}); err != nil {
			t.Errorf("run: %v", err)
		}
		guestOut.Close()
		guestIn.Close()
		s.Close()
	})
	return e
}

func (e *engine) close() {
	e.out.Close()
	e.over.Wait()
}

func (e *engine) send(m sandbox.HostMessage) {
	m.At = e.at
	line, err := tool.Marshal(m)
	if err != nil {
		e.t.Fatalf("tool.Marshal: %v", err)
	}
	if _, err := e.out.Write(append(line, '\n')); err != nil {
		e.t.Errorf("send: %v", err)
	}
}

// run runs a program in the real engine. It returns its value or exception, the tools it called and
// its console output. Tools return their own name and arguments.
func run(t testing.TB, p *program.Program) string {
	t.Helper()
	e := newEngine(t, false)
	defer e.close()
	return e.run(p)
}

func (e *engine) run(p *program.Program) string {
	e.t.Helper()
	last, said := e.converse(p)
	var b strings.Builder
	switch {
	case last.Fail != nil:
		fmt.Fprintf(&b, "throws %s: %s", last.Fail.Error.Name, last.Fail.Error.Message)
		if line, col, ok := p.Locate(last.Fail.Error.Stack); ok {
			fmt.Fprintf(&b, " (line %d, column %d)\n%s", line, col, p.Frame(line, col))
		}
		if at, ok := p.InModule(last.Fail.Error.Stack); ok {
			fmt.Fprintf(&b, "\nin %s (line %d, column %d)\n%s", at.File, at.Line, at.Column, at.Frame)
		}
	case last.Done.Value == nil:
		b.WriteString("=> undefined")
	default:
		fmt.Fprintf(&b, "=> %s", last.Done.Value)
	}
	for _, s := range said {
		b.WriteString("\n" + s)
	}
	return b.String()
}

// converse runs a program, and returns the guest's last message, and the calls and console output
// before it.
func (e *engine) converse(p *program.Program) (last sandbox.GuestMessage, said []string) {
	e.t.Helper()
	e.send(sandbox.HostMessage{Run: &sandbox.Run{Code: p.Code, Name: p.Name, Seed: sandboxtest.NewSeed(),
		Session: e.session, Namespaces: e.spaces}})
	for {
		line, err := e.in.ReadBytes('\n')
		if err != nil {
			e.t.Fatalf("the guest ended without a last word: %v\n%s", err, p.Code)
		}
		var m sandbox.GuestMessage
		if err := json.Unmarshal(line, &m); err != nil {
			e.t.Fatalf("json.Unmarshal: %v", err)
		}
		switch {
		case m.Call != nil:
			said = append(said, m.Call.Path)
			args := m.Call.Args
			if args == nil {
				args = json.RawMessage("{}")
			}
			e.send(sandbox.HostMessage{Answer: &sandbox.Answer{ID: m.Call.ID, Value: json.RawMessage(
				fmt.Sprintf(`{"tool":%q,"args":%s,"items":[1,2,3]}`, m.Call.Path, args))}})
		case m.File != nil:
			e.send(sandbox.HostMessage{Answer: e.file(m.File)})
		case m.Timer != nil && m.Timer.MS >= 0:
			e.at += int64(m.Timer.MS)
			e.send(sandbox.HostMessage{Wake: &sandbox.Wake{}})
		case m.Console != nil:
			said = append(said, m.Console.Text)
		case m.Done != nil, m.Fail != nil:
			return m, said
		}
	}
}

// file answers a file operation: only reading is supported.
func (e *engine) file(f *sandbox.File) *sandbox.Answer {
	text, ok := e.files[strings.TrimLeft(f.Path, "./")]
	if !ok || f.Op != "read" {
		return &sandbox.Answer{ID: f.ID,
			Error: &sandbox.GuestError{Code: "ENOENT", Message: "ENOENT: no such file or directory, open '" +
				f.Path + "'"}}
	}
	value, err := tool.Marshal(text)
	if err != nil {
		e.t.Fatalf("tool.Marshal: %v", err)
	}
	return &sandbox.Answer{ID: f.ID, Value: value}
}
