//go:build unix

package wasm

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// caller is a program that calls a tool repeatedly.
const caller = `(async () => { for (;;) await test.echo({ i: 1, text: "a text" }); })`

// answerTo returns the host's line that answers a call by caller.
func answerTo(id int) string {
	return fmt.Sprintf(`{"at":%d,"answer":{"id":%d,"value":{"i":1,"text":"a text"}}}`, 1767225700000+id, id)
}

// BenchmarkCall measures the time from the answer to a tool call until the next call.
func BenchmarkCall(b *testing.B) {
	b.Run("guest", func(b *testing.B) { // the guest alone, in one goroutine and without a stream
		k := newKept(b, realDriver(b, Config{}), sandbox.Spec{CPU: 1 << 50})
		if err := k.guest.enter(func() error {
			k.guest.engine.limit(k.spec.Memory, maxStack)
			return nil
		}); err != nil {
			b.Fatalf("enter: %v", err)
		}
		said := 0
		k.guest.host = counter{said: &said}
		say := func(line string) {
			err := k.guest.enter(func() error {
				if err := k.guest.engine.deliver(line); err != nil {
					return err
				}
				return k.guest.engine.work()
			})
			if err != nil {
				b.Fatalf("enter: %v", err)
			}
		}
		say(program(caller))
		before := said
		defer cpu(b)()
		b.ReportAllocs()
		for b.Loop() {
			say(answerTo(said))
		}
		if said-before != b.N {
			b.Fatalf("%d answers, %d calls", b.N, said-before)
		}
	})
	b.Run("stream", func(b *testing.B) {
		d := realDriver(b, Config{})
		s := newKept(b, d, sandbox.Spec{CPU: 1 << 50})
		in, host := io.Pipe()
		calls := make(chan struct{}, 1)
		ran := make(chan error, 1)
		go func() {
			_, err := s.Run(b.Context(), &sandbox.Cmd{Keep: true, Guest: struct {
				io.Reader
				io.Writer
			}{in, writerFunc(func(p []byte) (int, error) {
				for range bytes.Count(p, []byte("\n")) {
					calls <- struct{}{}
				}
				return len(p), nil
			})}})
			ran <- err
		}()
		say := func(line string) { _, _ = io.WriteString(host, line+"\n") }
		say(program(caller))
		<-calls
		id := 0
		defer cpu(b)()
		b.ReportAllocs()
		for b.Loop() {
			id++
			say(answerTo(id))
			<-calls
		}
		_ = host.Close()
		if err := <-ran; err != nil {
			b.Fatalf("err = %v, want nil", err)
		}
	})
}

// A counter is a guest's host that counts the guest's messages.
type counter struct {
	silentHost
	said *int
}

func (c counter) write(line []byte) { _ = string(line); *c.said++ }
