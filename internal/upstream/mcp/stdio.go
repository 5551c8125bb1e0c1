package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A stdio is the transport to a child process: one message per line on its standard input and
// output.
type stdio struct {
	cmd   command
	by    Launcher // starts the server; nil: it is a child process
	max   int
	grace time.Duration
	ring  *ring

	to        *session
	proc      *process
	ringStart int         // number of lines in ring before this process
	ready     atomic.Bool // a revision was negotiated
	queue     chan *message
	quit      chan struct{} // closed by stop
	once      sync.Once
	wg        sync.WaitGroup // reader, writer, standard error
}

const (
	briefGrace = 100 * time.Millisecond // for a process that never spoke MCP: it has nothing to save
	lastWords  = time.Second            // time to read the rest of the standard error of a process that has exited
)

func newStdio(cmd command, by Launcher, maxMessage int, grace time.Duration, r *ring) *stdio {
	return &stdio{cmd: cmd, by: by, max: maxMessage, grace: grace, ring: r, queue: make(chan *message, 32),
		quit: make(chan struct{})}
}

func (t *stdio) start(ctx context.Context, to *session) (err error) {
	t.to = to
	var p *process
	if t.by != nil {
		p, err = launchServer(ctx, t.by)
	} else {
		p, err = startProcess(t.cmd)
	}
	if err != nil {
		return faultf(faultUnsent, "can't be started: %w", err)
	}
	t.proc = p
	t.ringStart = t.ring.countLines()
	errDone := make(chan struct{})
	t.wg.Go(func() { defer close(errDone); t.ring.copyLines(p.stderr) })
	t.wg.Go(t.writeMessages)
	t.wg.Go(func() { t.readLines(errDone) })
	return nil
}

func (t *stdio) useRevision(string) { t.ready.Store(true) }

func (t *stdio) send(ctx context.Context, m *message) error {
	select {
	case <-t.quit:
		return errStopped
	case <-t.proc.done:
		return faultf(faultUnsent, "%s", t.proc.status)
	case t.queue <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *stdio) writeMessages() {
	for {
		select {
		case <-t.quit:
			return
		case <-t.proc.done:
			return
		case m := <-t.queue:
			if m.id != 0 && !t.to.isWaiting(m.id) { // canceled while queued
				continue
			}
			line := m.body
			for i, c := range line {
				if c == '\n' || c == '\r' { // white space between tokens: valid JSON has them nowhere else
					line[i] = ' '
				}
			}
			if _, err := t.proc.stdin.Write(append(line, '\n')); err != nil {
				if !t.proc.hasExited(time.Second) { // otherwise the reader reports the reason
					t.to.endSession(faultf(faultLost, "closed its standard input: %w", err))
				}
				return
			}
		}
	}
}

// readLines passes each line to the session. Lines that can't be messages come from servers that
// log to standard output: they are kept with the standard error.
func (t *stdio) readLines(errDone <-chan struct{}) {
	g := &guard{src: t.proc.stdout, ready: &t.ready}
	r := bufio.NewReaderSize(g, 64<<10)
	for {
		line, dropped, err := readLine(r, t.max)
		text := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("\xef\xbb\xbf")))
		message := false
		switch {
		case errors.Is(err, errBabble):
		case dropped > 0:
			t.failOversize(line, dropped)
		case len(text) == 0:
		case err != nil && !json.Valid(text): // truncated by the end, which is the failure to report
			t.ring.addLine("stdout: " + string(text[:min(len(text), 4*ringWidth)]))
		case text[0] == '{' || text[0] == '[' && !looksLikeLog(text):
			message = t.to.receive(text, 0) == nil
		default:
			t.ring.addLine("stdout: " + string(text[:min(len(text), 4*ringWidth)]))
		}
		if g.exceedsLimit(text, message) || errors.Is(err, errBabble) {
			t.to.endSession(faultf(faultGarbled, "it writes text other than MCP on its standard output: %q", g.first))
			return
		}
		if err != nil {
			t.to.endSession(t.explainEnd(errDone))
			return
		}
	}
}

// looksLikeLog distinguishes "[info] started" from a batch, which is an array of objects.
func looksLikeLog(text []byte) bool {
	rest := bytes.TrimLeft(text[1:], " \t")
	return len(rest) == 0 || rest[0] != '{'
}

// readLine reads to the next LF. For a line longer than limit, it returns the first and last bytes,
// and the total number of bytes as dropped. The caller may keep the slice.
func readLine(r *bufio.Reader, limit int) (line []byte, dropped int, err error) {
	const ends = 256
	for {
		part, err := r.ReadSlice('\n')
		more := errors.Is(err, bufio.ErrBufferFull)
		if more {
			err = nil
		}
		if dropped > 0 {
			dropped += len(part)
		} else if len(line)+len(part) > limit+1 {
			dropped = len(line) + len(part)
		}
		line = append(line, part...)
		if dropped > 0 && len(line) > 2*ends {
			line = append(append(make([]byte, 0, 4*ends), line[:ends]...), line[len(line)-ends:]...)
		}
		if err != nil || !more {
			return line, dropped, err
		}
	}
}

// failOversize fails the call whose answer was too large, if its id is known.
func (t *stdio) failOversize(ends []byte, size int) {
	t.to.logViolation("dropped a message that is too large", "bytes", size, "limit", t.max)
	if id, ok := oversizeID(ends, bytes.TrimSpace(ends)); ok {
		t.to.failRequest(id, tooLarge(t.max))
	}
}

func tooLarge(limit int) error {
	return faultf(faultSize, "answered with more than %s", byteSize(limit))
}

// byteSize formats n bytes for people.
func byteSize(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// explainEnd returns an error that says why there is no more output.
func (t *stdio) explainEnd(errDone <-chan struct{}) error {
	how := "closed its standard output"
	if t.proc.hasExited(time.Second) {
		if how = t.proc.status; t.proc.rests {
			return faultf(faultResting, "%s", how)
		}
		select { // its last output
		case <-errDone:
		case <-time.After(lastWords):
		}
	}
	if last := t.ring.lastAfter(t.ringStart); last != "" {
		how += fmt.Sprintf("; the last line on its standard error: %q", last)
	}
	return faultf(faultLost, "%s", how)
}

func (t *stdio) stop() {
	if t.proc == nil {
		return
	}
	t.once.Do(func() {
		close(t.quit)
		grace := t.grace
		if !t.ready.Load() {
			grace = min(grace, briefGrace)
		}
		t.proc.stop(grace)
		// A process that left the group may hold the other ends open: don't wait for it.
		done := make(chan struct{})
		go func() { t.wg.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(500 * time.Millisecond):
			t.closeOutput()
			<-done
		}
		t.closeOutput()
	})
}

// closeOutput closes our ends of the server's output. They may be closed.
func (t *stdio) closeOutput() {
	_ = t.proc.stdout.Close()
	_ = t.proc.stderr.Close()
}

// keepAwake wakes a server that a Launcher has started, and keeps it awake until release is called.
func (t *stdio) keepAwake(ctx context.Context) (release func(), err error) {
	if t.proc == nil || t.proc.launched == nil {
		return func() {}, nil
	}
	release, err = t.proc.launched.UseServer(ctx)
	if err != nil {
		return nil, faultf(faultUnsent, "can't be woken: %w", err)
	}
	return release, nil
}

// listenMethod is the request whose answer comes when the session ends.
const listenMethod = "subscriptions/listen"

// wakeServer keeps a server in a sandbox awake for a request, until release is called.
func wakeServer(ctx context.Context, by transport, q query) (release func(), err error) {
	t, ok := by.(*stdio)
	if !ok {
		return func() {}, nil
	}
	release, err = t.keepAwake(ctx)
	if err == nil && q.method == listenMethod { // the server may sleep meanwhile: it has nothing else to do
		release()
		return func() {}, nil
	}
	return release, err
}
