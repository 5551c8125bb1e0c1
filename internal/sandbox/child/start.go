package child

import (
	"runtime"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/sandbox/child/launch"
)

// A starter starts children. It does so on one thread that lives as long as itself, since a system may end a child when
// the thread that started it ends.
type starter struct {
	command  []string
	begun    *launch.Begun // the first one; nil: none
	requests chan request
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

// newStarter makes a starter, which takes over a child that was begun already, where there is one.
func newStarter(command []string, begun *launch.Begun) *starter {
	s := &starter{command: command, begun: begun, requests: make(chan request, 1)}
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
	if len(more) == 0 && s.begun != nil {
		if p, ok, err := takeOver(s.begun); ok {
			return p, err
		}
	}
	answer := make(chan started, 1)
	s.requests <- request{more, answer}
	a := <-answer
	return a.peer, a.err
}

func (s *starter) close() {
	close(s.requests)
	s.work.Wait()
	s.begun.Close()
}

// after gives the first lines of what a child said on standard error after a mark, or nothing where there are none.
func after(mark, said string) string {
	text := strings.TrimSpace(bounded(said))
	if text == "" {
		return ""
	}
	lines := strings.SplitN(text, "\n", 4)
	return mark + strings.Join(lines[:min(3, len(lines))], " / ")
}
