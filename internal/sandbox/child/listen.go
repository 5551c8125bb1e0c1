package child

import (
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// attention is how long the socket is asked over and over for what is soon to come, instead of sleeping: about twice what
	// it takes to be woken on a machine that has nothing else to do, whose processors sleep too.
	attention = 150 * time.Microsecond
	// swift is how soon what somebody slept for must have come for the socket to be asked next time.
	swift = 300 * time.Microsecond
	// loan is how long nobody may read the socket while its reader has lent it.
	loan = time.Millisecond
	// crowded is how long it takes to ask once where others want the processor, who go first and have it for a slice of the
	// kernel's: then nobody asks for a while, the longer the more often that was so lately. The one that is waited for may be on the
	// same processor, and takes less.
	crowded = 400 * time.Microsecond
	// oneCrowd is what it counts that they wanted it, against each time that the socket was asked and gave something.
	oneCrowd = 16
	// mostSkipped bounds for how many swift waits in a row the socket isn't asked, after that was in vain.
	mostSkipped = 64
)

// errNothing says that there is nothing to read yet.
var errNothing = errors.New("there is nothing yet")

// A prompter is a connection that can be read without waiting. Where nothing is there, it gives errNothing.
type prompter interface {
	readNow(p []byte) (int, error)
}

// Who has a listener's socket.
const (
	withReader int32 = iota
	lent             // nobody reads it at the moment
	taken            // somebody who waits reads it
)

// A listener reads a socket and hands on what comes. A goroutine does that as its work (run), and waits in the kernel. But when
// what both sides wait for comes within moments, over and over, it lends the socket: whoever waits then reads it, on the
// goroutine that is to go on (listen), and no goroutine, thread or processor has to be woken on the way. Where nobody reads
// what was lent, where it is in vain, or where there is more to do than one thing, it takes it back.
type listener struct {
	in     *reader
	take   func(frame) error
	conn   *instant // nil where the connection can't be read without waiting, or there is no second processor to wait for
	serves bool     // this is the child's side: its reader asks the socket itself while nothing runs, and lends it to the one Run

	who    atomic.Int32
	runs   atomic.Int32  // of the child's side: how many are under way
	tasks  atomic.Int32  // the same of other operations
	asleep atomic.Int32  // how many sleep until something comes
	back   chan struct{} // gets a token when the socket comes back

	// What follows belongs to who has the socket.
	err    error // how reading it ended
	skip   int   // in how many swift waits it isn't asked
	missed int   // how often that was in vain, one after the other
	crowds int   // how crowded it was lately: 0 to mostSkipped
}

// An instant is a connection that is read with or without waiting.
type instant struct {
	io.Reader
	prompter
	hasty bool
}

// Read reads, and waits only if it isn't hasty.
func (i *instant) Read(p []byte) (int, error) {
	if i.hasty {
		return i.readNow(p)
	}
	return i.Reader.Read(p)
}

// newListener makes a listener whose frames take takes.
func newListener(conn io.Reader, serves bool, take func(frame) error) *listener {
	l := &listener{take: take, serves: serves, back: make(chan struct{}, 1), skip: 1}
	if p, ok := conn.(prompter); ok && runtime.GOMAXPROCS(0) > 1 {
		l.conn = &instant{Reader: conn, prompter: p}
		conn = l.conn
	}
	l.in = newReader(conn)
	return l
}

// run reads until the connection ends or take fails, which is the error.
func (l *listener) run() error {
	for l.err == nil {
		began := time.Now()
		f, err := l.next()
		if err == nil {
			err = l.take(f)
		}
		if err != nil {
			return err
		}
		if l.skip > 0 && time.Since(began) < swift {
			l.skip--
		}
		if l.conn != nil && l.skip == 0 && f.kind.wakes() && !l.in.whole() && l.mayLend(1) {
			l.lend()
		}
	}
	return l.err
}

// mayLend reports whether somebody else may read the socket now, while as many sleep at most. Others would have to wait.
func (l *listener) mayLend(asleep int32) bool {
	return l.asleep.Load() <= asleep && (!l.serves || l.runs.Load() == 1)
}

// next gives the next frame to the reader itself.
func (l *listener) next() (frame, error) {
	if l.conn != nil && l.serves && l.skip == 0 {
		l.conn.hasty = true
		defer func() { l.conn.hasty = false }()
		for w := watching(); l.runs.Load() == 0; {
			f, err := l.in.next()
			if err != errNothing {
				l.hit()
				return f, err
			}
			if !w.on() {
				if l.tasks.Load() == 0 { // otherwise there was nothing to come yet
					l.miss(w.crowded)
				}
				break
			}
			runtime.Gosched()
		}
		l.conn.hasty = false
	}
	if !l.in.whole() {
		// Go gives a thread's processor to others only after a while, if it waits in the kernel: whoever was woken goes first.
		runtime.Gosched()
	}
	return l.in.next()
}

// miss notes that the socket was asked in vain.
func (l *listener) miss(crowded bool) {
	l.missed++
	l.skip = min(1<<min(l.missed, 30), mostSkipped)
	if crowded {
		l.crowds = min(l.crowds+oneCrowd, mostSkipped)
		l.skip = max(l.skip, l.crowds*l.crowds/mostSkipped)
	}
}

// hit notes that the socket was asked, and gave something.
func (l *listener) hit() {
	l.missed, l.crowds = 0, max(l.crowds-1, 0)
}

// A watch says how long to ask.
type watch struct {
	began, last time.Time
	crowded     bool // others want the processor
}

func watching() watch {
	now := time.Now()
	return watch{began: now, last: now}
}

// on reports whether to ask again.
func (w *watch) on() bool {
	now := time.Now()
	w.crowded = now.Sub(w.last) > crowded
	w.last = now
	return !w.crowded && now.Sub(w.began) < attention
}

// lend lends the socket, until it comes back or is not read.
func (l *listener) lend() {
	l.who.Store(lent)
	t := time.NewTimer(loan)
	defer t.Stop()
	for {
		select {
		case <-l.back:
			return
		case <-t.C:
			if l.who.CompareAndSwap(lent, withReader) {
				return
			}
			t.Reset(loan)
		}
	}
}

// giveBack gives the socket back to its reader, where it is as the caller believes.
func (l *listener) giveBack(who int32) {
	if l.who.CompareAndSwap(who, withReader) {
		l.back <- struct{}{} // there is room: the socket is lent once before this is taken
	}
}

// begin says that the child's side begins an operation; end comes after it.
func (l *listener) begin(k kind) {
	if k != kindRun {
		l.tasks.Add(1)
	} else if l.runs.Add(1) > 1 {
		l.giveBack(lent)
	}
}

func (l *listener) end(k kind) {
	if k != kindRun {
		l.tasks.Add(-1)
		return
	}
	l.runs.Add(-1)
	l.giveBack(lent)
}

// listen is for whoever is about to sleep until something comes. If the socket is lent and nobody reads it, it does that for a
// moment, or until there says that something has come.
func (l *listener) listen(there func() bool) {
	if !l.who.CompareAndSwap(lent, taken) {
		return
	}
	l.conn.hasty = true
	w := watching()
	heard, err := l.hear(there, &w)
	l.conn.hasty = false
	switch {
	case heard:
		l.hit()
		l.who.Store(lent)
		if !l.mayLend(0) { // since something began meanwhile
			l.giveBack(lent)
		}
		return
	case err != nil:
		l.err = err
	default:
		l.miss(w.crowded)
	}
	l.giveBack(taken)
}

// hear reads until there is something, or for a moment.
func (l *listener) hear(there func() bool, w *watch) (bool, error) {
	for {
		f, err := l.in.next()
		switch {
		case err == nil:
			if err := l.take(f); err != nil {
				return false, err
			}
		case err != errNothing:
			return false, err
		case there():
			return true, nil
		case !w.on():
			return false, nil
		}
	}
}

// sleeping listens, and then says that the caller sleeps, until it calls what this gives.
func (l *listener) sleeping(there func() bool) (woken func()) {
	if !there() {
		l.listen(there)
	}
	if there() {
		return func() {}
	}
	l.asleep.Add(1)
	return func() { l.asleep.Add(-1) }
}
