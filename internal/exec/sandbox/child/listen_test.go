package child

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A feed is a connection that the test writes to.
type feed struct {
	in   chan []byte
	left []byte
}

func newFeed() *feed { return &feed{in: make(chan []byte, 64)} }

// Read blocks until there is data. When in is closed, it returns io.EOF.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.left) == 0 {
		b, ok := <-f.in
		if !ok {
			return 0, io.EOF
		}
		f.left = b
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

func (f *feed) readNow(p []byte) (int, error) {
	if len(f.left) == 0 {
		select {
		case b, ok := <-f.in:
			if !ok {
				return 0, io.EOF
			}
			f.left = b
		default:
			return 0, errNothing
		}
	}
	return f.Read(p)
}

// say sends one data frame for each operation, all in one write.
func (f *feed) say(t *testing.T, ops ...uint32) {
	t.Helper()
	var b collect
	w := newWriter(&b)
	for _, op := range ops {
		if err := w.send(kindData, 1, op, []byte("x"), nil); err != nil {
			t.Fatalf("send: %v", err)
		}
	}
	f.in <- b
}

type collect []byte

// Write appends p.
func (c *collect) Write(p []byte) (int, error) {
	*c = append(*c, p...)
	return len(p), nil
}

// tooMany is the number of an operation that violates the protocol.
const tooMany = 1 << 30

// lentOut returns a listener for f that has lent its socket. The operations received go to got.
func lentOut(t *testing.T, f *feed, serves bool) (l *listener, got *[]uint32, ended chan error) {
	t.Helper()
	if runtime.GOMAXPROCS(0) < 2 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	}
	got = new([]uint32)
	l = newListener(f, serves, func(x frame) error {
		if x.op == tooMany {
			return protocolErrorf("a frame too many")
		}
		*got = append(*got, x.op)
		return nil
	})
	l.holder.Store(lent)
	ended = make(chan error, 1)
	return l, got, ended
}

// TestListen reads a lent socket repeatedly. When polling finally fails, the socket is returned to
// its reader.
func TestListen(t *testing.T) {
	f := newFeed()
	l, got, _ := lentOut(t, f, false)
	for i := range uint32(100) {
		f.say(t, 2*i+1, 2*i+2)
		l.listen(func() bool { return len(*got) > int(2*i) })
		if l.holder.Load() != lent || len(*got) != int(2*i+2) {
			t.Fatalf("after %d: %d, %v", i, l.holder.Load(), *got)
		}
	}
	for l.holder.Load() == lent { // a poll may also count as crowded, which returns the socket too
		l.listen(func() bool { return false })
	}
	if len(l.back) != 1 || l.skip == 0 || !slices.IsSorted(*got) {
		t.Fatalf("it did not come back, or is asked again: %d %d %v", len(l.back), l.skip, *got)
	}
}

// TestListenNotAlone checks that the socket isn't lent while several goroutines could read it.
func TestListenNotAlone(t *testing.T) {
	f := newFeed()
	l, got, _ := lentOut(t, f, false)
	woken := l.markAsleep(func() bool { f.say(t, uint32(len(*got)+1)); return false })
	if l.holder.Load() != withReader {
		t.Fatal("nobody reads what somebody sleeps for")
	}
	woken()
	l, _, _ = lentOut(t, f, true)
	l.beginTask(kindRun)
	if l.holder.Load() != lent {
		t.Fatal("one Run may read")
	}
	l.beginTask(kindFork)
	if l.holder.Load() != lent {
		t.Fatal("one Run may read, whatever else is done")
	}
	l.beginTask(kindRun)
	if l.holder.Load() != withReader || l.canLend(1) {
		t.Fatal("two Runs may not")
	}
	l.endTask(kindRun)
	l.endTask(kindFork)
	if !l.canLend(1) {
		t.Fatal("one Run may read again")
	}
	l.endTask(kindRun)
	if l.canLend(1) || l.runs.Load() != 0 || l.tasks.Load() != 0 {
		t.Fatal("there is no Run any more")
	}
}

// TestListenEnds covers a connection that ends or violates the protocol while a waiting goroutine
// reads it instead of its reader.
func TestListenEnds(t *testing.T) {
	for name, end := range map[string]func(f *feed){
		"end":    func(f *feed) { close(f.in) },
		"breach": func(f *feed) { f.say(t, tooMany) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed()
			l, _, ended := lentOut(t, f, false)
			l.holder.Store(withReader)
			end(f)
			go func() {
				l.lend(l.tries.Load())
				ended <- l.run()
			}()
			for end := time.Now().Add(time.Minute); len(ended) == 0 && time.Now().Before(end); runtime.Gosched() {
				l.listen(func() bool { return false }) // if this is too late, the reader gets the error itself
			}
			err := receive(t, ended)
			if b := (*protocolError)(nil); name == "end" && err != io.EOF || name == "breach" && !errors.As(err, &b) {
				t.Fatalf("err = %v, want (name != \"end\" || err == io.EOF) && (name != \"breach\" || "+
					"errors.As(err, &b))", err)
			}
		})
	}
}

// TestListenUnread checks that the socket isn't lent if no goroutine would read it: the next frame
// doesn't wait until the reader reclaims it.
func TestListenUnread(t *testing.T) {
	for name, prepare := range map[string]func(l *listener){
		"no goroutine waits for the frame": func(l *listener) { l.unawaited = true },
		"the woken one sleeps again":       func(l *listener) { l.listen(func() bool { return false }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFeed()
				l, _, ended := lentOut(t, f, false)
				l.holder.Store(withReader)
				l.asleep.Store(1)
				var took []time.Duration
				began := time.Now()
				l.handleFrame = func(frame) error {
					took = append(took, time.Since(began))
					prepare(l)
					return nil
				}
				go func() { ended <- l.run() }()
				for op := range uint32(4) {
					f.say(t, op+1)
					synctest.Wait()
				}
				close(f.in)
				if err := <-ended; err != io.EOF || len(took) != 4 || took[3] != 0 {
					t.Errorf("run returned %v, and read frames after %v, want 4 at once", err, took)
				}
			})
		})
	}
}

// TestListenTakenBack checks that the reader reclaims a lent socket that no one reads.
func TestListenTakenBack(t *testing.T) {
	f := newFeed()
	l, got, ended := lentOut(t, f, false)
	go func() {
		l.lend(l.tries.Load())
		ended <- l.run()
	}()
	f.say(t, 1, 2)
	close(f.in)
	if err := receive(t, ended); err != io.EOF || len(*got) != 2 {
		t.Fatalf("err = %v, *got = %v, want err == io.EOF && len(*got) == 2", err, *got)
	}
}

// TestListenAsk checks that a guest waiting for an answer reads the socket itself if no one else
// does.
func TestListenAsk(t *testing.T) {
	f := newFeed()
	l, _, _ := lentOut(t, f, true)
	task := &task{flow: newFlow(newWriter(io.Discard), 1, 1), answers: make(chan []byte, 1), listener: l}
	l.handleFrame = func(x frame) error { return task.handleAnswer(x.payload) }
	var b collect
	if err := sendParts(newWriter(&b), kindAnswer, 1, 1, 1, []byte("because")); err != nil {
		t.Fatalf("sendParts: %v", err)
	}
	f.in <- b
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if got := task.ask(ctx, []byte("why?")); string(got) != "because" {
		t.Fatalf("answered %q", got)
	}
}

// TestListenLends checks which kinds of frames lend the socket: only those after which a goroutine
// will soon wait for the next frame.
func TestListenLends(t *testing.T) {
	for k := kind(1); k < kinds; k++ {
		f := newFeed()
		l, _, _ := lentOut(t, f, false)
		l.holder.Store(withReader)
		l.skip = 0
		l.back <- struct{}{} // lending the socket consumes this token
		var b collect
		if err := newWriter(&b).send(k, 1, 1, nil, nil); err != nil {
			t.Fatalf("send: %v", err)
		}
		f.in <- b
		close(f.in)
		if err := l.run(); err != io.EOF {
			t.Fatalf("err = %v, want io.EOF", err)
		}
		if waits := k == kindRun || k == kindAnswer || k == kindData || k == kindResult; waits != (len(l.back) == 0) {
			t.Errorf("kind %d: somebody waits: %v, lent: %v", k, waits, len(l.back) == 0)
		}
	}
}

// TestListenPingPong connects two listeners whose sides answer each other immediately.
func TestListenPingPong(t *testing.T) {
	here, there := newFeed(), newFeed()
	const n = 2000
	side := func(in, out *feed, serves, first bool) chan error {
		ended := make(chan error, 1)
		more := make(chan struct{}, 1)
		l := newListener(in, serves, func(x frame) error { signal(more); return nil })
		go func() { ended <- l.run() }()
		go func() {
			if serves {
				l.beginTask(kindRun)
			}
			for i := range uint32(n) {
				if first {
					out.say(t, i+1)
				}
				woken := l.markAsleep(func() bool { return len(more) > 0 })
				<-more
				woken()
				if !first {
					out.say(t, i+1)
				}
			}
			if serves {
				l.endTask(kindRun)
			}
			close(out.in)
		}()
		return ended
	}
	a := side(here, there, false, true)
	b := side(there, here, true, false)
	for _, ended := range []chan error{a, b} {
		if err := receive(t, ended); err != io.EOF {
			t.Fatalf("err = %v, want io.EOF", err)
		}
	}
}

func receive(t *testing.T, c chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it did not end")
		return nil
	}
}
