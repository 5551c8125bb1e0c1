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

	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

var driver = sync.OnceValues(func() (*wasm.Driver, error) { return wasm.New(wasm.Config{}) })

type pipes struct {
	io.Reader
	io.Writer
}

// run runs a program in the real engine and tells its value or what it threw, the tools it called and its console.
// Tools answer with their own name and arguments.
func run(t testing.TB, p *program.Program) string {
	t.Helper()
	last, said := converse(t, p)
	var b strings.Builder
	switch {
	case last.Fail != nil:
		fmt.Fprintf(&b, "throws %s: %s", last.Fail.Error.Name, last.Fail.Error.Message)
		if line, col, ok := p.Locate(last.Fail.Error.Stack); ok {
			fmt.Fprintf(&b, " (line %d, column %d)\n%s", line, col, p.Frame(line, col))
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

// converse runs a program and gives the guest's last word, and what it called and logged before.
func converse(t testing.TB, p *program.Program) (last sandbox.GuestMessage, said []string) {
	t.Helper()
	d, err := driver()
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	hostIn, guestOut := io.Pipe()
	guestIn, hostOut := io.Pipe()
	var over sync.WaitGroup
	defer over.Wait()
	defer hostOut.Close()
	over.Go(func() {
		if _, err := s.Run(ctx, &sandbox.Cmd{Guest: pipes{guestIn, guestOut}}); err != nil {
			t.Errorf("run: %v", err)
		}
		guestOut.Close()
		guestIn.Close()
	})
	send := func(m sandbox.HostMessage) {
		line, err := tool.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hostOut.Write(append(line, '\n')); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	send(sandbox.HostMessage{Run: &sandbox.Run{Code: p.Code, Name: program.FileName,
		Namespaces: map[string][]string{"github": {"list_issues"}, "files": {"read"}}}})
	in := bufio.NewReader(hostIn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			t.Fatalf("the guest ended without a last word: %v\n%s", err, p.Code)
		}
		var m sandbox.GuestMessage
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Call != nil:
			said = append(said, m.Call.Path)
			args := m.Call.Args
			if args == nil {
				args = json.RawMessage("{}")
			}
			send(sandbox.HostMessage{Answer: &sandbox.Answer{ID: m.Call.ID, Value: json.RawMessage(
				fmt.Sprintf(`{"tool":%q,"args":%s,"items":[1,2,3]}`, m.Call.Path, args))}})
		case m.Console != nil:
			said = append(said, m.Console.Text)
		case m.Done != nil, m.Fail != nil:
			return m, said
		}
	}
}
