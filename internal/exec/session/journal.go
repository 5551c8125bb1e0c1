package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

func appendVarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }
func varint(b []byte) (int64, int)          { return binary.Varint(b) }

// A Kind is the kind of an Entry.
type Kind byte

// The kinds of entries.
const (
	Line   Kind = 'l' // a line sent by the host, a sandbox.HostMessage
	Answer Kind = 'a' // the answer to a question from the guest (sandbox.Cmd.Ask), also a sandbox.HostMessage
)

// An Entry is one input of a guest. Text contains no '
// '.
type Entry struct {
	Kind Kind
	Text []byte
}

// A Journal holds all inputs of one program's guest, in order. Since a guest is deterministic, that
// suffices to run the program again with byte-identical results. Lines are in stream order, and
// answers in the order of the questions. A guest can't observe the relative order of lines and
// answers.
type Journal struct {
	Language string
	Entries  []Entry
	// Asked is the digest of the calls and file operations that the guest made. A replay is checked
	// against it. Other output (stack traces, error texts) may differ between builds of an engine.
	Asked [sha256.Size]byte
}

// Encode returns the encoded journal.
func (j *Journal) Encode() []byte {
	var e encoder
	e.text(j.Language)
	e.b = append(e.b, j.Asked[:]...)
	for _, x := range j.Entries {
		e.byte(byte(x.Kind))
		e.b = append(appendVarint(e.b, int64(len(x.Text))), x.Text...)
	}
	return e.b
}

// DecodeJournal decodes the output of Encode.
func DecodeJournal(b []byte) (*Journal, error) {
	d := decoder{b: b}
	j := &Journal{Language: d.text()}
	j.Asked = [sha256.Size]byte(d.digest())
	for d.more() {
		x := Entry{Kind: Kind(d.byte()), Text: d.bytes()}
		if x.Kind != Line && x.Kind != Answer || bytes.IndexByte(x.Text, '\n') >= 0 {
			d.fail()
		}
		j.Entries = append(j.Entries, x)
	}
	if d.err != nil {
		return nil, tool.Errorf(tool.Conflict, "a journal can't be read: %w", d.err)
	}
	return j, nil
}

// A Recorder records the Journal of a running program. It is safe for concurrent use. A nil
// Recorder records nothing.
type Recorder struct {
	most int

	mu    sync.Mutex
	j     Journal
	bytes int
	over  bool
	asked asked
}

// NewRecorder returns a Recorder that holds at most most bytes.
func NewRecorder(language string, most int) *Recorder {
	return &Recorder{most: most, j: Journal{Language: language}, asked: newAsked()}
}

// Heard records an input of the guest. Callers must preserve the order of inputs. It copies text.
func (r *Recorder) Heard(k Kind, text []byte) {
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
		r.j.Entries = append(r.j.Entries, Entry{k, bytes.Clone(text)})
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
func (r *Recorder) Journal() *Journal {
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
		part(h, fmt.Sprintf("call %d %s", m.Call.ID, m.Call.Path), m.Call.Args)
	case m.File != nil:
		part(h, fmt.Sprintf("file %d %s %s", m.File.ID, m.File.Op, m.File.Path), []byte(m.File.Data))
	case m.Sleep != nil:
		part(h, fmt.Sprintf("sleep %g", m.Sleep.MS), nil)
	}
}

func part(h hash.Hash, head string, rest []byte) {
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(len(head)))
	binary.BigEndian.PutUint64(n[8:], uint64(len(rest)))
	h.Write(n[:])
	io.WriteString(h, head)
	h.Write(rest)
}

// ErrDiffers means that a guest did not behave as recorded in its journal.
var ErrDiffers = errors.New("the program does something else in this build of the engine")

// Replay replays the journal to a guest in box. It calls said, which may be nil, with each line of
// the guest, without the newline. The guest is kept in its final state. If the guest makes other
// requests than recorded, the error is ErrDiffers.
func (j *Journal) Replay(ctx context.Context, box sandbox.Sandbox, said func(line []byte)) error {
	p := &player{said: said, asked: newAsked()}
	for _, x := range j.Entries {
		if x.Kind == Line {
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
	said  func([]byte)

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
		if p.said != nil {
			p.said(line)
		}
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

// A Mark identifies the complete journal of a session, so that a missing or misplaced part is
// detected.
type Mark struct {
	Programs int       `json:"programs,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
	Head     hexDigest `json:"head"`
	Lost     string    `json:"lost,omitempty"` // why there is no longer a journal
}

type hexDigest vfs.Digest

// MarshalText encodes d in hexadecimal.
func (d hexDigest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText decodes the output of MarshalText.
func (d *hexDigest) UnmarshalText(b []byte) error {
	if len(b) != 2*len(d) {
		return errors.New("a digest of the wrong length")
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// Next returns the mark after adding a part, an encoded Journal.
func (m Mark) Next(part []byte) Mark {
	sum := sha256.Sum256(part)
	m.Head = sha256.Sum256(append(m.Head[:], sum[:]...))
	m.Programs++
	m.Bytes += int64(len(part))
	return m
}

// LoadJournals returns the journals of a session's programs in order, after checking them against
// the mark.
func LoadJournals(ctx context.Context, s Store, id string, want Mark) ([]*Journal, error) {
	if want.Lost != "" {
		return nil, tool.Errorf(tool.Conflict, "there is no journal to rebuild it from: %s", want.Lost)
	}
	parts, err := s.Journal(ctx, id)
	if err != nil {
		return nil, err
	}
	var got Mark
	var out []*Journal
	for _, b := range parts {
		raw, err := s.Blob(ctx, b)
		if err != nil {
			return nil, err
		}
		j, err := DecodeJournal(raw)
		if err != nil {
			return nil, err
		}
		got, out = got.Next(raw), append(out, j)
	}
	if got != want {
		return nil, tool.Errorf(tool.Conflict, "the journal to rebuild it from is not whole")
	}
	return out, nil
}
