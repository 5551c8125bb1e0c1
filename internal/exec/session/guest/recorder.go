package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
)

// A Recorder records the Journal of a running program. It is safe for concurrent use. A nil
// Recorder records nothing.
type Recorder struct {
	most int

	mu    sync.Mutex
	j     session.Journal
	bytes int
	over  bool
	asked asked
}

// NewRecorder returns a Recorder that holds at most most bytes.
func NewRecorder(language string, most int) *Recorder {
	return &Recorder{most: most, j: session.Journal{Language: language}, asked: newAsked()}
}

// Heard records an input of the guest. Callers must preserve the order of inputs. It copies text.
func (r *Recorder) Heard(k session.Kind, text []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes += len(text) + 8; r.bytes > r.most {
		r.over, r.j.Entries = true, nil
		return
	}
	if !r.over {
		r.j.Entries = append(r.j.Entries, session.Entry{Kind: k, Text: bytes.Clone(text)})
	}
}

// Said records a message from the guest; question is true if the guest blocks on its answer.
func (r *Recorder) Said(m *sandbox.GuestMessage, question bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked.note(m, question)
}

// Journal returns the recorded journal, or nil if it exceeded the limit.
func (r *Recorder) Journal() *session.Journal {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil
	}
	j := r.j
	j.Asked = r.asked.sum()
	return &j
}

// asked holds the digests of the guest's requests by lines and by questions. They are separate
// because their relative order is unknown: lines arrive with a delay.
type asked struct{ lines, questions hash.Hash }

func newAsked() asked { return asked{sha256.New(), sha256.New()} }

func (a asked) sum() [sha256.Size]byte { return sha256.Sum256(a.questions.Sum(a.lines.Sum(nil))) }

// note adds the request in a message, if it is one.
func (a asked) note(m *sandbox.GuestMessage, question bool) {
	h := a.lines
	if question {
		h = a.questions
	}
	switch {
	case m.Call != nil:
		hashPart(h, fmt.Sprintf("call %d %s", m.Call.ID, m.Call.Path), m.Call.Args)
	case m.File != nil:
		hashPart(h, fmt.Sprintf("file %d %s %s", m.File.ID, m.File.Op, m.File.Path), []byte(m.File.Data))
	case m.Sleep != nil:
		hashPart(h, fmt.Sprintf("sleep %g", m.Sleep.MS), nil)
	}
}

// hashPart adds a part to h. Lengths come first, so that no two requests have the same bytes.
func hashPart(h hash.Hash, head string, rest []byte) {
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(len(head)))
	binary.BigEndian.PutUint64(n[8:], uint64(len(rest)))
	h.Write(n[:])
	io.WriteString(h, head)
	h.Write(rest)
}

// ErrDiffers means that a guest did not behave as recorded in its journal.
var ErrDiffers = errors.New("the program does something else in this build of the engine")

// replay replays a journal to a guest in box. The guest is kept in its final state. If it
// makes other requests than recorded, the error is ErrDiffers.
func replay(ctx context.Context, box sandbox.Sandbox, j *session.Journal) error {
	p := &player{asked: newAsked()}
	for _, x := range j.Entries {
		if x.Kind == session.Line {
			p.lines.Write(x.Text)
			p.lines.WriteByte('\n')
		} else {
			p.answers = append(p.answers, x.Text)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, err := box.Run(ctx, &sandbox.Cmd{Guest: p, Keep: true, Ask: func(_ context.Context, q []byte) []byte {
		if a, ok := p.answer(q); ok {
			return a
		}
		cancel(ErrDiffers)
		return nil
	}})
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case p.asked.sum() != j.Asked, len(p.answers) > 0:
		return ErrDiffers
	}
	return nil
}

// A player is the host's end of the guest stream during a replay.
type player struct {
	lines bytes.Buffer

	mu      sync.Mutex // guards the following, which the stream and questions share
	answers [][]byte
	part    []byte
	asked   asked
}

// Read returns the lines.
func (p *player) Read(b []byte) (int, error) { return p.lines.Read(b) }

// Write receives output of the guest.
func (p *player) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			p.part = append(p.part, b...)
			return n, nil
		}
		line := append(p.part, b[:i]...)
		p.part, b = nil, b[i+1:]
		p.note(line, false)
	}
}

func (p *player) answer(question []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(question, true)
	if len(p.answers) == 0 {
		return nil, false
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	return a, true
}

func (p *player) note(line []byte, question bool) {
	var m sandbox.GuestMessage
	if json.Unmarshal(line, &m) == nil {
		p.asked.note(&m, question)
	}
}
