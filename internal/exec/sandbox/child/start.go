package child

import (
	"runtime"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
)

// A starter starts children. It uses one thread that lives as long as the starter, because a system
// may kill a child when the thread that started it ends.
type starter struct {
	command  []string
	begun    *launch.EarlyProcess // the first child, or nil
	requests chan request
	work     sync.WaitGroup
}

// A request asks for a child, with arguments in addition to the command and the plan.
type request struct {
	more   []string
	answer chan<- startResult
}

type startResult struct {
	peer peer
	err  error
}

// newStarter returns a starter. If begun is not nil, it is the starter's first child.
func newStarter(command []string, begun *launch.EarlyProcess) *starter {
	s := &starter{command: command, begun: begun, requests: make(chan request, 1)}
	s.work.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		plan := 0
		for r := range s.requests {
			var p peer
			var err error
			p, plan, err = startWith(s.command, plan, r.more)
			r.answer <- startResult{p, err}
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
	answer := make(chan startResult, 1)
	s.requests <- request{more, answer}
	a := <-answer
	return a.peer, a.err
}

func (s *starter) close() {
	close(s.requests)
	s.work.Wait()
	s.begun.Close()
}

// after returns mark and the first lines that a child wrote to standard error, or "" if there are
// none.
func after(mark, said string) string {
	text := strings.TrimSpace(cutText(said))
	if text == "" {
		return ""
	}
	lines := strings.SplitN(text, "\n", 4)
	return mark + strings.Join(lines[:min(3, len(lines))], " / ")
}
