package child

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// A starter starts children. It does so on one thread that lives as long as itself, since a system may end a child when
// the thread that started it ends.
type starter struct {
	command  []string
	requests chan request
	ahead    chan (<-chan started) // what was asked for before anybody needed it, for the first who does
	work     sync.WaitGroup
}

// A request is for a child, with more arguments than the command and the plan.
type request struct {
	more   []string
	answer chan<- started
}

type started struct {
	peer peer
	err  error
}

func newStarter(command []string) *starter {
	s := &starter{command: command, requests: make(chan request, 1), ahead: make(chan (<-chan started), 1)}
	s.work.Go(func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
		plan := 0
		for r := range s.requests {
			var p peer
			var err error
			p, plan, err = startWith(s.command, plan, r.more)
			r.answer <- started{p, err}
		}
	})
	return s
}

// start starts a child.
func (s *starter) start(more ...string) (peer, error) {
	if len(more) == 0 {
		select {
		case answer := <-s.ahead:
			a := <-answer
			return a.peer, a.err
		default:
		}
	}
	answer := make(chan started, 1)
	s.requests <- request{more, answer}
	a := <-answer
	return a.peer, a.err
}

// begin has a child started that nobody waits for yet.
func (s *starter) begin() {
	answer := make(chan started, 1)
	s.requests <- request{nil, answer}
	s.ahead <- answer
}

// A Begun is a process that was begun before the Driver that is to use it, while the rest of the program gets ready. It is
// given to one Driver, in its Config, or closed.
type Begun struct{ starter *starter }

// Begin begins a process by the command of a Config. It doesn't wait for it; what goes wrong its Driver hears.
func Begin(command []string) *Begun {
	s := newStarter(command)
	s.begin()
	return &Begun{s}
}

// Close ends the process. It may be called on nil.
func (b *Begun) Close() {
	if b == nil {
		return
	}
	if p, err := b.starter.start(); err == nil {
		p.kill()
		_ = p.wait() // it was killed
		_ = p.Close()
	}
	b.starter.close()
}

func (s *starter) close() {
	close(s.requests)
	s.work.Wait()
}

// environment is all that a child is told by variables. The runtime is not to look at files for the number of
// processors, neither now nor later.
func environment() []string {
	return []string{fmt.Sprintf("GOMAXPROCS=%d", runtime.GOMAXPROCS(0)), "GODEBUG=updatemaxprocs=0,containermaxprocs=0"}
}

// A tail keeps the beginning of what a child writes to standard error, where Go says why a process ends.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps b, or drops it.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), maxText-len(t.text))]...)
	return len(b), nil
}

// after gives the first lines after a mark, or nothing where there are none.
func (t *tail) after(mark string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(bounded(string(t.text)))
	if text == "" {
		return ""
	}
	lines := strings.SplitN(text, "\n", 4)
	return mark + strings.Join(lines[:min(3, len(lines))], " / ")
}

// own is this binary.
func own() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil // also when it was replaced or removed
	}
	return os.Executable()
}

// called is the name by which this program was called, as its children are. It is read while the program is initialized, since
// a child may be begun then, beside whatever else comes to change os.Args.
var called = os.Args[0]
