//go:build linux

package child_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
)

// A pushing is a guest stream that pushes its whole text, and the end, before anything is consumed.
type pushing struct {
	text  string
	begun chan struct{} // closed when the whole text has been pushed
	hold  bool          // don't push the end
	to    sandbox.Sink

	mu   sync.Mutex
	took int
	said bytes.Buffer
}

func (p *pushing) Push(to sandbox.Sink) {
	p.to = to
	n := 0
	for rest := p.text; rest != ""; {
		part := rest[:min(len(rest), 100_000)]
		rest = rest[len(part):]
		n += to.AcceptPush([]byte(part), nil)
	}
	if !p.hold {
		to.AcceptPush(nil, io.EOF)
	}
	p.AddCredit(n)
	close(p.begun)
}

func (p *pushing) AddCredit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took += n
}

func (p *pushing) Read([]byte) (int, error) { panic("it pushes") }

func (p *pushing) Write(b []byte) (int, error) {
	<-p.begun // the guest can't go on before that
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *pushing) Close() error { return nil }

// TestPush pushes several times the flow-control window without waiting.
func TestPush(t *testing.T) {
	d := newDriver(t, "fake", child.Config{})
	box := create(t, d, "a")
	p := &pushing{begun: make(chan struct{})}
	var want strings.Builder
	for _, c := range []string{"a", "b", "c", "d"} {
		code := strings.Repeat(c, 700_000)
		p.text += `{"run":{"code":"` + code + `","name":"p"}}` + "\n"
		want.WriteString(`{"done":{"value":"` + code + `"}}` + "\n")
	}
	if _, err := box.Run(t.Context(), &sandbox.Cmd{Guest: p}); err != nil {
		t.Fatalf("Run: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := p.said.String(); got != want.String() {
		t.Errorf("the guest said %d bytes, not %d", len(got), want.Len())
	}
	if p.took != len(p.text) {
		t.Errorf("%d of %d bytes were taken", p.took, len(p.text))
	}
	if n := p.to.AcceptPush([]byte("late\n"), nil); n != 5 {
		t.Errorf("a line after the end: %d", n)
	}
}

// TestPushToNobody stops a guest that reads nothing while its host has pushed more than the window.
func TestPushToNobody(t *testing.T) {
	d := newDriver(t, "wasm", child.Config{})
	box := create(t, d, "a")
	p := &pushing{begun: make(chan struct{}), text: `{"run":{"code":"for (;;);","name":"p"}}` + "\n" +
		strings.Repeat(strings.Repeat("x", 99_999)+"\n", 200)}
	p.text = strings.Replace(p.text, "for (;;);", "(() => { for (;;); })", 1)
	cmd := &sandbox.Cmd{Guest: p, CPU: 1e8}
	if _, err := box.Run(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), "CPU time") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "CPU time")`, err)
	}
	if p.to.AcceptPush([]byte("late\n"), nil) != 5 {
		t.Error("it takes what nobody hears")
	}
}

// TestPushToAStoppedProcess pushes more than the socket buffers to a process that reads nothing,
// and then the end. Pushing must not block, because the caller holds locks meanwhile. Stopping the
// program needs some of these locks.
func TestPushToAStoppedProcess(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	box := create(t, d, "a")
	p := &pushing{begun: make(chan struct{})}
	p.hold = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := box.Run(ctx, &sandbox.Cmd{Guest: p})
		ended <- err
	}()
	<-p.begun
	if err := syscall.Kill(box.PID(), syscall.SIGSTOP); err != nil {
		t.Fatalf("syscall.Kill: %v", err)
	}
	said := make(chan struct{})
	go func() {
		for range 20 {
			p.to.AcceptPush(bytes.Repeat([]byte("x"), 100_000), nil)
		}
		p.to.AcceptPush(nil, io.EOF)
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(2 * time.Minute):
		t.Error("a sender waits for a process that reads nothing")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
	}
	gone(t, box.PID())
}

// TestOnce runs programs whose host keeps its stream open: the Run ends with the guest's last
// message.
func TestOnce(t *testing.T) {
	for name, codes := range map[string]map[string]string{"done": {"js": "() => 2", "python": "1 + 1"},
		"fail": {"js": "nonsense", "python": "nonsense"}} {
		for runtime, code := range codes {
			t.Run(name+" "+runtime, func(t *testing.T) {
				d := newDriver(t, "wasm", child.Config{})
				box, err := d.Create(t.Context(), sandbox.Spec{Owner: "a", Runtime: runtime})
				if err != nil {
					t.Fatalf("Create: %v", err)
				}
				defer box.Close()
				for _, keep := range []bool{true, false} {
					p := &pushing{begun: make(chan struct{}), hold: true,
						text: `{"run":{"code":"` + code + `","name":"p"}}` + "\n"}
					cmd := &sandbox.Cmd{Guest: p, Once: true, Keep: keep}
					if exit, err := box.Run(t.Context(), cmd); err != nil || exit != 0 {
						t.Fatalf("Run: %d, %v", exit, err)
					}
					if got := p.said.String(); !strings.HasPrefix(got, `{"`+name+`"`) || strings.Count(got, "\n") != 1 {
						t.Errorf("the guest sent %q, want one message %q", got, name)
					}
				}
			})
		}
	}
}

// A latecomer is a pushing whose first Write takes long.
type latecomer struct {
	*pushing
	once sync.Once
}

func (s *latecomer) Write(b []byte) (int, error) {
	s.once.Do(func() { time.Sleep(1500 * time.Millisecond) })
	return s.pushing.Write(b)
}

// TestOnceWithSlowHost runs a program whose last message is longer than the window, for a host that
// doesn't read for a while: the host still gets all of it.
func TestOnceWithSlowHost(t *testing.T) {
	d := newDriver(t, "wasm", child.Config{})
	box, err := d.Create(t.Context(), sandbox.Spec{Owner: "a", Runtime: "js"})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer box.Close()
	p := &latecomer{pushing: &pushing{begun: make(chan struct{}), hold: true,
		text: `{"run":{"code":"() => 'x'.repeat(1_000_000)","name":"p"}}` + "\n"}}
	if exit, err := box.Run(t.Context(), &sandbox.Cmd{Guest: p, Once: true}); err != nil || exit != 0 {
		t.Fatalf("Run: %d, %v", exit, err)
	}
	if n := p.said.Len(); n < 1_000_000 || !strings.HasSuffix(p.said.String(), "\n") {
		t.Errorf("the host got %d bytes of the last message, want all of it", n)
	}
}
