package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

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

// A Mark identifies the complete journal of a session, so that a missing or misplaced part is
// detected.
type Mark struct {
	Programs int       `json:"programs,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
	Head     hexDigest `json:"head"`
	Lost     string    `json:"lost,omitempty"` // why there is no longer a journal
}

type hexDigest [sha256.Size]byte

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
func LoadJournals(ctx context.Context, s Blobs, id string, want Mark) ([]*Journal, error) {
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
