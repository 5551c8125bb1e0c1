package shell

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxBackground = 64      // background processes that run or are remembered
	maxLog        = 1 << 20 // bytes of the newest output of each that are kept
	// stopGrace is how long processes may take to end after SIGTERM.
	stopGrace = 3 * time.Second
)

// A background is a process in the background, with its newest output.
type background struct {
	id      int
	pid     int // 0 while it is being started
	command []string
	started time.Time
	ended   chan struct{} // closed when it has ended

	mu      sync.Mutex
	log     []byte        // the last bytes of its output, at most maxLog
	written int64         // bytes of its output
	more    chan struct{} // closed, and replaced, when it writes or ends
	exit    *service.Exit
}

// A processTable has the background processes of a machine.
type processTable struct {
	mu   sync.Mutex
	last int
	all  []*background // by id
}

// addProcess adds a process. When there are too many, it forgets the oldest that has ended.
func (t *processTable) addProcess(b *background) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxBackground {
		i := slices.IndexFunc(t.all, (*background).hasEnded)
		if i < 0 {
			return tool.Errorf(tool.Limit, "%d background processes run in this sandbox: stop some", maxBackground)
		}
		t.all = slices.Delete(t.all, i, i+1)
	}
	t.last++
	b.id = t.last
	t.all = append(t.all, b)
	return nil
}

// removeProcess removes a process that could not be started.
func (t *processTable) removeProcess(b *background) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(o *background) bool { return o == b })
}

// findProcess returns a background process.
func (t *processTable) findProcess(id int) (*background, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.all {
		if b.id == id {
			return b, nil
		}
	}
	return nil, tool.Errorf(tool.NotFound, "the sandbox has no background process %d: it may have been forgotten, or "+
		"the sandbox was started again", id)
}

// listProcesses describes the background processes.
func (t *processTable) listProcesses() []service.Process {
	t.mu.Lock()
	all := slices.Clone(t.all)
	t.mu.Unlock()
	out := make([]service.Process, 0, len(all))
	for _, b := range all {
		out = append(out, b.describeProcess())
	}
	return out
}

func (b *background) hasEnded() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// describeProcess returns what the host knows of the process.
func (b *background) describeProcess() service.Process {
	b.mu.Lock()
	defer b.mu.Unlock()
	return service.Process{ID: b.id, Command: b.command, Started: b.started, Exit: b.exit, Output: b.written}
}

// signalChange wakes the operations that wait for output. b.mu is held.
func (b *background) signalChange() {
	close(b.more)
	b.more = make(chan struct{})
}

// keepOutput adds what the process writes to its log, until no process has the other end.
func (b *background) keepOutput(from *os.File) {
	defer from.Close()
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			b.addOutput(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (b *background) addOutput(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written += int64(len(p))
	b.log = append(b.log, p...)
	if over := len(b.log) - maxLog; over > 0 {
		b.log = append(b.log[:0], b.log[over:]...)
	}
	b.signalChange()
}

// startBackground starts a process in the background.
func (s *steward) startBackground(q *service.Request) (*service.Reply, error) {
	if len(q.Command) == 0 {
		return nil, tool.Errorf(tool.Invalid, "the command is empty")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	b := &background{command: q.Command, started: time.Now(), ended: make(chan struct{}), more: make(chan struct{})}
	if err := s.processes.addProcess(b); err != nil {
		closeFiles(r)
		return nil, err
	}
	pid, ended, err := s.children.startChild(q, null, w, w)
	if err != nil {
		closeFiles(r)
		s.processes.removeProcess(b)
		return nil, err
	}
	b.mu.Lock()
	b.pid = pid
	b.mu.Unlock()
	go b.keepOutput(r)
	go func() {
		status := <-ended
		b.mu.Lock()
		defer b.mu.Unlock()
		b.exit = exitOf(status)
		close(b.ended)
		b.signalChange()
	}()
	p := b.describeProcess()
	return &service.Reply{Process: &p}, nil
}

// stopBackground sends a signal to a background process, or ends it: first with SIGTERM, then with
// SIGKILL.
func (s *steward) stopBackground(q *service.Request) (*service.Reply, error) {
	b, err := s.processes.findProcess(q.Process)
	if err != nil {
		return nil, err
	}
	if q.Signal < 0 || q.Signal > 64 {
		return nil, tool.Errorf(tool.Invalid, "signal %d: unknown", q.Signal)
	}
	b.mu.Lock()
	pid := b.pid
	b.mu.Unlock()
	if pid == 0 { // kill(2) would send the signal to the steward itself
		return nil, tool.Errorf(tool.Conflict, "background process %d is being started: try again", q.Process)
	}
	switch {
	case b.hasEnded():
	case q.Signal != 0:
		killSession(pid, syscall.Signal(q.Signal))
	default:
		killSession(pid, unix.SIGTERM)
		if !awaitSessionEnd(pid, stopGrace) {
			killSession(pid, unix.SIGKILL)
			awaitSessionEnd(pid, stopGrace)
		}
		<-b.ended
	}
	p := b.describeProcess()
	return &service.Reply{Process: &p}, nil
}

// awaitSessionEnd waits until the processes of a session have ended, up to the given time. It
// reports whether they have. What they hold, such as removed files, is freed then.
func awaitSessionEnd(leader int, most time.Duration) bool {
	late := time.Now().Add(most)
	for pause := time.Millisecond; len(listSession(leader)) > 0; pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// readLog returns the output of a background process from an offset. If there is none, it waits for
// some, or for the end of the process.
func (s *steward) readLog(st *stream, q *service.Request) (*service.Reply, error) {
	b, err := s.processes.findProcess(q.Process)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(q.Wait)
	defer timer.Stop()
	gone := st.awaitHangup()
	for late := q.Wait <= 0; ; {
		r, more := b.readFrom(q.Offset, partLength(q.Length))
		if late || len(r.Data) > 0 || r.Process.Exit != nil {
			return r, nil
		}
		select {
		case <-more:
		case <-timer.C:
			late = true
		case <-gone:
			return r, nil
		}
	}
}

// readFrom returns the output from an offset, and a channel that is closed when there is more.
func (b *background) readFrom(offset, most int64) (*service.Reply, <-chan struct{}) {
	p := b.describeProcess()
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &service.Reply{Process: &p}
	first := b.written - int64(len(b.log))
	if offset < 0 { // from the end
		offset = max(b.written+offset, first)
	}
	if r.Lost = offset < first; r.Lost {
		offset = first
	}
	offset = min(offset, b.written)
	r.Data = slices.Clone(b.log[offset-first : min(offset-first+most, int64(len(b.log)))])
	r.Offset = offset + int64(len(r.Data))
	return r, b.more
}

// partLength returns how many bytes of a file or a log are read.
func partLength(n int64) int64 {
	if n <= 0 || n > service.MaxData {
		return service.MaxData
	}
	return n
}
