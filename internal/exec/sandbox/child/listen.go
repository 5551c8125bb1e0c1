package child

import (
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// pollTime is how long the socket is polled for an expected frame before sleeping. It is about
	// twice the wake-up time on an idle machine, whose processors sleep too.
	pollTime = 150 * time.Microsecond
	// quickWait is how soon a frame must have arrived after a wait for the next wait to poll the
	// socket.
	quickWait = 300 * time.Microsecond
	// loan is how long a lent socket may go unread before its reader reclaims it.
	loan = time.Millisecond
	// crowded is the duration above which a single poll shows that the kernel ran a competing
	// thread for a time slice. Then polling stops for a while, and for longer if this happened
	// often recently. The awaited thread may run on the same processor too, but needs less time.
	crowded = 400 * time.Microsecond
	// oneCrowd is how much one crowded poll counts, in units of successful polls.
	oneCrowd = 16
	// mostSkipped is the maximum number of consecutive quick waits without polling after polls have
	// failed.
	mostSkipped = 64
)

// errNothing means that no bytes are available yet.
var errNothing = errors.New("there is nothing yet")

// A nonblockingReader is a connection that can be read without blocking. If nothing is available,
// readNow returns errNothing.
type nonblockingReader interface {
	readNow(p []byte) (int, error)
}

// The holder of a listener's socket.
const (
	withReader int32 = iota
	lent             // not being read at the moment
	taken            // a waiting goroutine reads it
)

// A listener reads frames from a socket and passes them on. Normally one goroutine does that (run),
// and blocks in the kernel. But when both sides repeatedly get what they wait for within moments,
// the listener lends the socket. A waiting goroutine then reads it itself (listen), so that no
// goroutine, thread or processor has to wake up in between. The reader reclaims the socket if no
// one reads it, if polling fails, or if several operations run.
type listener struct {
	in          *reader
	handleFrame func(frame) error
	conn        *pollingConn // nil if the connection can't be read without blocking, or there is no second processor
	// set on the child's side: its reader polls the socket itself while nothing runs, and lends it
	// to a single Run
	serves bool

	holder atomic.Int32
	runs   atomic.Int32  // on the child's side: number of active Runs
	tasks  atomic.Int32  // number of other active operations
	asleep atomic.Int32  // number of goroutines that sleep until something arrives
	tries  atomic.Uint32 // number of calls of listen
	back   chan struct{} // receives a token when the socket is returned

	// The fields below belong to the holder of the socket.
	err       error // the error that ended reading
	unawaited bool  // no goroutine waits for the newest frame; set by handleFrame
	skip      int   // number of quick waits in which the socket isn't polled
	missed    int   // number of consecutive failed polls
	crowds    int   // recent crowdedness: 0 to mostSkipped
}

// A pollingConn is a connection that is read with or without blocking.
type pollingConn struct {
	io.Reader
	nonblockingReader
	nonblocking bool
}

// Read reads from the connection. It blocks unless nonblocking is set.
func (i *pollingConn) Read(p []byte) (int, error) {
	if i.nonblocking {
		return i.readNow(p)
	}
	return i.Reader.Read(p)
}

// newListener returns a listener that passes frames to handleFrame.
func newListener(conn io.Reader, serves bool, handleFrame func(frame) error) *listener {
	l := &listener{handleFrame: handleFrame, serves: serves, back: make(chan struct{}, 1), skip: 1}
	if p, ok := conn.(nonblockingReader); ok && runtime.GOMAXPROCS(0) > 1 {
		l.conn = &pollingConn{Reader: conn, nonblockingReader: p}
		conn = l.conn
	}
	l.in = newReader(conn)
	return l
}

// run reads until the connection ends or handleFrame fails, and returns the error.
func (l *listener) run() error {
	for l.err == nil {
		began := time.Now()
		f, err := l.next()
		tries := l.tries.Load()
		l.unawaited = false
		if err == nil {
			err = l.handleFrame(f)
		}
		if err != nil {
			return err
		}
		if l.skip > 0 && time.Since(began) < quickWait {
			l.skip--
		}
		asleep := int32(1) // the goroutine that the frame wakes
		if l.unawaited {
			asleep = 0
		}
		if l.conn != nil && l.skip == 0 && f.kind.wakes() && !l.in.whole() && l.canLend(asleep) {
			l.lend(tries)
		}
	}
	return l.err
}

// canLend reports whether the socket may be lent, which requires that at most asleep goroutines
// sleep. Others would have to wait.
func (l *listener) canLend(asleep int32) bool {
	return l.asleep.Load() <= asleep && (!l.serves || l.runs.Load() == 1)
}

// next returns the next frame to the reader. It may poll first.
func (l *listener) next() (frame, error) {
	if l.conn != nil && l.serves && l.skip == 0 {
		l.conn.nonblocking = true
		defer func() { l.conn.nonblocking = false }()
		for w := watching(); l.runs.Load() == 0; {
			f, err := l.in.next()
			if err != errNothing {
				l.recordHit()
				return f, err
			}
			if !w.on() {
				if l.tasks.Load() == 0 { // otherwise nothing was due yet
					l.recordMiss(w.crowded)
				}
				break
			}
			runtime.Gosched()
		}
		l.conn.nonblocking = false
	}
	if !l.in.whole() {
		// If a thread blocks in the kernel, Go hands its processor over only after a while. So let
		// woken goroutines run first.
		runtime.Gosched()
	}
	return l.in.next()
}

// recordMiss records a failed poll.
func (l *listener) recordMiss(crowded bool) {
	l.missed++
	l.skip = min(1<<min(l.missed, 30), mostSkipped)
	if crowded {
		l.crowds = min(l.crowds+oneCrowd, mostSkipped)
		l.skip = max(l.skip, l.crowds*l.crowds/mostSkipped)
	}
}

// recordHit records a successful poll.
func (l *listener) recordHit() {
	l.missed, l.crowds = 0, max(l.crowds-1, 0)
}

// A watch decides how long to poll.
type watch struct {
	began, last time.Time
	crowded     bool // other threads compete for the processor
}

func watching() watch {
	now := time.Now()
	return watch{began: now, last: now}
}

// on reports whether to continue polling.
func (w *watch) on() bool {
	now := time.Now()
	w.crowded = now.Sub(w.last) > crowded
	w.last = now
	return !w.crowded && now.Sub(w.began) < pollTime
}

// lend lends the socket until it is returned, or until no one has read from it for the duration
// loan. It doesn't lend it if listen was called more than tries times: the goroutine that a frame
// woke on another processor may sleep again already, and would not read the socket.
func (l *listener) lend(tries uint32) {
	l.holder.Store(lent)
	if l.tries.Load() != tries && l.holder.CompareAndSwap(lent, withReader) {
		return
	}
	t := time.NewTimer(loan)
	defer t.Stop()
	for {
		select {
		case <-l.back:
			return
		case <-t.C:
			if l.holder.CompareAndSwap(lent, withReader) {
				return
			}
			t.Reset(loan)
		}
	}
}

// giveBack returns the socket to its reader if who still holds it.
func (l *listener) giveBack(who int32) {
	if l.holder.CompareAndSwap(who, withReader) {
		l.back <- struct{}{} // never blocks: the socket is lent only once before this is received
	}
}

// beginTask records that the child's side starts an operation; endTask must follow.
func (l *listener) beginTask(k kind) {
	if k != kindRun {
		l.tasks.Add(1)
	} else if l.runs.Add(1) > 1 {
		l.giveBack(lent)
	}
}

func (l *listener) endTask(k kind) {
	if k != kindRun {
		l.tasks.Add(-1)
		return
	}
	l.runs.Add(-1)
	l.giveBack(lent)
}

// listen is called by a goroutine that is about to sleep until something arrives. If the socket is
// lent and unread, listen polls it until there returns true, or no bytes are available and
// pollTime has passed.
func (l *listener) listen(there func() bool) {
	l.tries.Add(1) // before the socket is taken: so either that succeeds, or lend sees this call
	if !l.holder.CompareAndSwap(lent, taken) {
		return
	}
	l.conn.nonblocking = true
	w := watching()
	heard, err := l.pollFrames(there, &w)
	l.conn.nonblocking = false
	switch {
	case heard:
		l.recordHit()
		l.holder.Store(lent)
		if !l.canLend(0) { // another operation began meanwhile
			l.giveBack(lent)
		}
		return
	case err != nil:
		l.err = err
	default:
		l.recordMiss(w.crowded)
	}
	l.giveBack(taken)
}

// pollFrames passes frames to handleFrame until there returns true or w says to stop polling. It
// reports whether there returned true.
func (l *listener) pollFrames(there func() bool, w *watch) (bool, error) {
	for {
		f, err := l.in.next()
		switch {
		case err == nil:
			if err := l.handleFrame(f); err != nil {
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

// markAsleep listens, and then marks the caller as sleeping until it calls the returned function.
func (l *listener) markAsleep(there func() bool) (woken func()) {
	if !there() {
		l.listen(there)
	}
	if there() {
		return func() {}
	}
	l.asleep.Add(1)
	return func() { l.asleep.Add(-1) }
}
