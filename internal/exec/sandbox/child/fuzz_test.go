//go:build linux

package child

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// framed returns an encoded frame.
func framed(k kind, box, op uint32, payload string) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, box)
	b = binary.LittleEndian.AppendUint32(b, op)
	return string(append(b, byte(k))) + payload
}

func number4(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }

// FuzzServe sends arbitrary bytes to a child, which must end with all of its sandboxes closed.
func FuzzServe(f *testing.F) {
	spec := string(appendSpec(nil, sandbox.Spec{Runtime: "memo"}))
	run := string(command{keep: true, asks: true}.append(nil))
	make1 := framed(kindCreate, 1, 1, spec)
	for _, s := range []string{
		"", "nonsense", framed(kindProbe, 0, 1, ""), make1,
		make1 + framed(kindRun, 1, 2, run) + framed(kindData, 1, 2, "add x\nget\n") + framed(kindEnd, 1, 2, "") +
			framed(kindClose, 1, 3, ""),
		make1 + framed(kindRun, 1, 2, run) + framed(kindData, 1, 2, "ask x\n") +
			framed(kindAnswer, 1, 2, number4(1)+"\x00y") + framed(kindCancel, 1, 2, ""),
		make1 + framed(kindRun, 1, 2, run) + framed(kindData, 1, 2, "spin\n") + framed(kindSnapshot, 1, 3, ""),
		make1 + framed(kindRun, 1, 2, run) + framed(kindData, 1, 2, "flood 9999999\n") + framed(kindUnread, 1, 2, "") +
			framed(kindCredit, 1, 2, number4(window)),
		make1 + framed(kindSnapshot, 1, 2, "") + framed(kindFork, 1, 3, number4(2)) + framed(kindClose, 1, 4, "") +
			framed(kindClose, 2, 1, ""),
		framed(kindRestore, 5, 1, string(appendSize(nil, 4))+spec) + framed(kindData, 5, 1, `["a"]`) +
			framed(kindClose, 5, 2, ""),
		make1 + make1, framed(kindRun, 9, 1, run), framed(kindHello, 0, 0, "{}"), make1[:20],
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.Contains(in, []byte("exit")) || bytes.Contains(in, []byte("crash")) ||
			bytes.Contains(in, []byte("forbid")) || bytes.Contains(in, []byte("stuck")) {
			return // a Memo would obey and end or block the test process
		}
		if len(in) > 1<<20 || bytes.Contains(in, []byte("flood 99999999")) {
			return
		}
		d := &Memo{}
		ours, theirs := net.Pipe()
		var read sync.WaitGroup
		read.Go(func() { _, _ = io.Copy(io.Discard, ours) })
		read.Go(func() {
			_, _ = ours.Write(in)
			_ = ours.Close()
		})
		_ = serve(theirs, newWriter(theirs), d, nil, nil) // any error is allowed
		_ = theirs.Close()
		read.Wait()
		if n := d.Open(); n != 0 {
			t.Errorf("%d sandboxes are open", n)
		}
	})
}

// A scripted is a fake child. It sends a hello, confirms the first sandbox, and later sends
// arbitrary bytes.
type scripted struct {
	r, w net.Conn // r is the parent's end
	once sync.Once
}

func (s *scripted) Read(b []byte) (int, error)  { return s.r.Read(b) }
func (s *scripted) Write(b []byte) (int, error) { return s.r.Write(b) }
func (s *scripted) Close() error                { return s.r.Close() }
func (s *scripted) kill()                       { s.once.Do(func() { _ = s.w.Close() }) }
func (s *scripted) wait() string                { return "ended" }
func (s *scripted) memory() int64               { return 0 }

// script acts as the child. It sends say once the parent has sent a frame of kind k.
func (s *scripted) script(k kind, say []byte) {
	hi := framed(kindHello, 0, 0, `{"protections":[{"name":"a","armed":true,"separates":true}]}`)
	go func() { _, _ = io.WriteString(s.w, hi) }()
	in := newReader(s.w)
	for {
		f, err := in.next()
		if err != nil {
			return
		}
		switch {
		case f.kind == k:
			go func() { _, _ = io.Copy(io.Discard, s.w) }()
			_, _ = s.w.Write(say)
			s.kill()
			return
		case f.kind == kindCreate:
			go func() { _, _ = io.WriteString(s.w, framed(kindResult, f.box, f.op, string(result{}.append(nil)))) }()
		}
	}
}

// A scriptedLauncher starts scripted children.
type scriptedLauncher struct {
	k    kind
	say  []byte
	work sync.WaitGroup
}

func (l *scriptedLauncher) start(...string) (peer, error) {
	s := &scripted{}
	s.r, s.w = net.Pipe()
	l.work.Go(func() { s.script(l.k, l.say) })
	return s, nil
}

func (l *scriptedLauncher) close() { l.work.Wait() }

// FuzzChild lets a child send arbitrary bytes during a Run, a Snapshot or a Probe. The operation
// must return, with any result.
func FuzzChild(f *testing.F) {
	ok := string(result{exit: 1}.append(nil))
	failed := string(result{err: &sandbox.LimitError{Limit: "cpu", Msg: "over"}}.append(nil))
	for _, s := range []string{
		"", "nonsense", framed(kindResult, 1, 2, ok), framed(kindResult, 1, 2, failed), framed(kindResult, 1, 2, "x"),
		framed(kindResult, 1, 9, ok),
		framed(kindData, 1, 2, "hello") + framed(kindResult, 1, 2, ok), framed(kindData, 1, 1, "late"),
		framed(kindData, 7, 1, "never"),
		framed(kindAsk, 1, 2, number4(1)+"\x00why?") + framed(kindResult, 1, 2, ok),
		framed(kindAsk, 1, 2, number4(1)+"\x01wh") + framed(kindAsk, 1, 2, number4(1)+"\x00y?"),
		framed(kindAsk, 1, 2, number4(1)+"\x00a") + framed(kindAsk, 1, 2, number4(2)+"\x00b"),
		framed(kindCredit, 1, 2, number4(window)), framed(kindCredit, 1, 2, "x"),
		framed(kindResult, 0, 1, ok+`{"driver":"x","tier":"wasm"}`), framed(kindResult, 0, 1, ok+`[`),
		framed(kindRun, 1, 2, ""), framed(kindHello, 0, 0, "{}"),
		framed(kindData, 1, 2, string(make([]byte, maxPayload))) +
			framed(kindData, 1, 2, string(make([]byte, maxPayload))),
	} {
		f.Add(byte(0), []byte(s))
		f.Add(byte(1), []byte(s))
		f.Add(byte(2), []byte(s))
	}
	f.Fuzz(func(t *testing.T, what byte, say []byte) {
		k := []kind{kindRun, kindSnapshot, kindProbe}[what%3]
		d := newDriver(Config{Idle: time.Hour}, &scriptedLauncher{k: k, say: say})
		defer func() {
			if err := d.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		if k == kindProbe {
			_, _ = d.Probe(t.Context()) // any error is allowed
			return
		}
		box, err := d.Create(t.Context(), sandbox.Spec{})
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		defer box.Close()
		if k == kindSnapshot {
			_, _ = box.(*Sandbox).Snapshot(t.Context())
			return
		}
		ours, theirs := net.Pipe()
		var host sync.WaitGroup
		host.Go(func() { _, _ = io.Copy(io.Discard, ours) })
		_, _ = box.Run(t.Context(), &sandbox.Cmd{Guest: theirs, Ask: func(_ context.Context, q []byte) []byte {
			return q
		}})
		_ = ours.Close()
		host.Wait()
	})
}

// FuzzHello sends an arbitrary first frame to the parent.
func FuzzHello(f *testing.F) {
	f.Add([]byte(framed(kindHello, 0, 0, `{"protections":[{"name":"a","armed":true,"separates":true}]}`)))
	f.Add([]byte(framed(kindHello, 0, 0, `{"error":"no"}`)))
	f.Add([]byte(framed(kindHello, 1, 0, `{}`)))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := parseHello(newReader(bytes.NewReader(in)).next())
		if err == nil && (len(h.Protections) > 64 || len(h.Error) > maxText+3) {
			t.Errorf("h = %+v, want err != nil || len(h.Protections) <= 64 && len(h.Error) <= maxText+3", h)
		}
	})
}
