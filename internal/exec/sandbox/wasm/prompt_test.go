package wasm

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// allowance is how many bytes a stream may push.
type allowance int

func (r *allowance) AddCredit(n int) { *r += allowance(n) }

// TestPush compares an inbox that is pushed to with one that reads. Both must return the same
// lines, regardless of how the text is split.
func TestPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 0, 200, -1).Draw(t, "text")
		most := rapid.IntRange(1, 60).Draw(t, "most")
		all := func(i *inbox) (lines []string, end error) {
			for {
				line, ok, end := i.take()
				if !ok {
					return lines, end
				}
				lines = append(lines, line)
			}
		}
		read := newInbox(most)
		_ = read.read(strings.NewReader(text), nil) // take returns the error
		want, wantEnd := all(read)

		pushed, credit := newInbox(most), allowance(0)
		pushed.from = &credit
		rest := text
		for len(rest) > 0 {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			credit.AddCredit(pushed.AcceptPush([]byte(rest[:n]), nil))
			rest = rest[n:]
		}
		pushed.AcceptPush(nil, io.EOF)
		got, gotEnd := all(pushed)
		if gotEnd != wantEnd || !slices.Equal(got, want) && wantEnd == io.EOF {
			t.Fatalf("pushed %q %v, read %q %v", got, gotEnd, want, wantEnd)
		}
		if int(credit) != len(text) || pushed.size != 0 && gotEnd == io.EOF {
			t.Fatalf("%d of %d bytes were credited, %d are counted", credit, len(text), pushed.size)
		}
	})
}

// TestPushFull pushes more than an inbox holds. The inbox then withholds credit until the guest has
// taken lines.
func TestPushFull(t *testing.T) {
	i, credit := newInbox(inboxFull), allowance(0)
	i.from = &credit
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	pushed := 0
	for int(credit) == pushed {
		credit.AddCredit(i.AcceptPush(line, nil))
		pushed += len(line)
	}
	if pushed <= inboxFull || pushed > inboxFull+2*len(line) {
		t.Fatalf("full after %d bytes", pushed)
	}
	for range 2 {
		if _, ok, _ := i.take(); !ok {
			t.Fatal("no line")
		}
	}
	if int(credit) != pushed {
		t.Errorf("%d of %d bytes were credited", credit, pushed)
	}
}

// TestPushLong pushes a line longer than inboxFull from a stream that never exceeds its credit. The
// line must arrive.
func TestPushLong(t *testing.T) {
	const window = 256 << 10
	i, left := newInbox(2*inboxFull), allowance(window)
	i.from = &left
	text := strings.Repeat("x", inboxFull+window) + "\n"
	for rest := text; rest != ""; {
		n := min(int(left), len(rest))
		if n == 0 {
			t.Fatalf("it takes no more when it has %d bytes", len(text)-len(rest))
		}
		left.AddCredit(i.AcceptPush([]byte(rest[:n]), nil) - n)
		rest = rest[n:]
	}
	if line, ok, _ := i.take(); !ok || len(line) != len(text)-1 {
		t.Errorf("a line of %d bytes, %t", len(line), ok)
	}
	if left != window || i.size != 0 {
		t.Errorf("there is room for %d bytes, and %d are counted", left, i.size)
	}
}

// TestFlush flushes to a stream that accepts partial writes while another goroutine writes the
// rest. Nothing may be lost or reordered.
func TestFlush(t *testing.T) {
	o, quit := newOutbox(false), make(chan struct{})
	p := &slowPrompt{}
	done := make(chan error, 1)
	go func() { done <- o.write(p, quit) }()
	var want strings.Builder
	for k := range 2000 {
		s := strings.Repeat(string(rune('a'+k%26)), 1+k%50) + "\n"
		want.WriteString(s)
		o.writeOutput(s, k%3 > 0)
		if k%2 == 0 {
			o.flush(p, false)
		}
	}
	for o.waiting() > 0 {
		o.writeEarly()
		<-o.less
	}
	close(quit)
	if err := <-done; err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	if got := p.String(); got != want.String() {
		t.Errorf("%d bytes came, of %d", len(got), want.Len())
	}
}

// A slowPrompt is a stream whose non-blocking writes accept half of the data.
type slowPrompt struct{ strings.Builder }

func (*slowPrompt) Push(sandbox.Sink)  {}
func (*slowPrompt) AddCredit(int)      {}
func (*slowPrompt) Listen(func() bool) {}
func (s *slowPrompt) WriteNow(p []byte, _ bool) (int, error) {
	return s.Write(p[:len(p)/2])
}

// A promptTape is a host that pushes its lines at once. If full is set, its non-blocking writes
// accept nothing.
type promptTape struct {
	lines string
	full  bool
	heard chan string
}

func (p *promptTape) Push(to sandbox.Sink)   { to.AcceptPush([]byte(p.lines), nil) }
func (*promptTape) AddCredit(int)            {}
func (*promptTape) Listen(func() bool)       {}
func (*promptTape) Read([]byte) (int, error) { panic("a stream that pushes is not read") }

func (p *promptTape) Write(b []byte) (int, error) {
	p.heard <- string(b)
	return len(b), nil
}

func (p *promptTape) WriteNow(b []byte, _ bool) (int, error) {
	if p.full {
		return 0, nil
	}
	return p.Write(b)
}

// TestPromptLoop checks that a call reaches the host while the guest loops forever, whether or not
// the host accepts non-blocking writes.
func TestPromptLoop(t *testing.T) {
	d := realDriver(t, Config{})
	for lang, line := range map[string]string{
		"js":     program(`(async () => { test.echo({ i: 1 }); for (;;); })`),
		"python": pyLine("test.echo(i=1)\nwhile True: pass"),
	} {
		for _, full := range []bool{false, true} {
			k := newKept(t, d, sandbox.Spec{Runtime: lang})
			p := &promptTape{lines: line + "\n", full: full, heard: make(chan string, 100)}
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			ended := make(chan error, 1)
			go func() {
				_, err := k.Run(ctx, &sandbox.Cmd{Guest: p, Keep: true})
				ended <- err
			}()
			select {
			case said := <-p.heard:
				if !strings.Contains(said, `"call"`) {
					t.Errorf("%s: it said %q", lang, said)
				}
			case err := <-ended:
				ended <- err
			}
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: it ended with %v", lang, err)
			}
		}
	}
}
