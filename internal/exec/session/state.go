package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A State is the content of a session: its guests, the list of its files, and the mark of its
// journal.
type State struct {
	Guests  []Guest `json:"guests,omitempty"`
	Sandbox string  `json:"sandbox,omitempty"` // kind of sandbox of its guests; see guest.StateKind
	Image   string  `json:"image,omitempty"`   // image of its sandbox; empty: the default
	Files   string  `json:"files,omitempty"`   // ID of the blob that lists the files; empty: none
	Journal Mark    `json:"journal"`
	// Labels are the labels that the session had when it was saved, sorted. Store.Labels may return
	// more, from programs that failed.
	Labels []string `json:"labels,omitempty"`
}

// A Guest is an interpreter of a session between two programs.
type Guest struct {
	Language string            `json:"language"` // "typescript" or "python"
	Blob     string            `json:"blob"`     // ID of its snapshot; empty: it has none
	Size     int64             `json:"size"`     // size of the snapshot
	Late     []json.RawMessage `json:"late,omitempty"`
	Declared []string          `json:"declared,omitempty"` // names that its programs declared at top level
	// Sandbox is the kind of sandbox of the snapshot if the session has moved to another since;
	// empty: that of the session.
	Sandbox string `json:"sandbox,omitempty"`
	// Build identifies the driver whose process has a guest without a snapshot (Blob is empty).
	Build string `json:"build,omitempty"`
}

// Guest returns the guest of a language, or nil if there is none.
func (s *State) Guest(language string) *Guest {
	for i := range s.Guests {
		if s.Guests[i].Language == language {
			return &s.Guests[i]
		}
	}
	return nil
}

// Put replaces the guest of the same language with g. It returns the blob of the replaced guest, or
// "".
func (s *State) Put(g Guest) (old string) {
	if at := s.Guest(g.Language); at != nil {
		old, *at = at.Blob, g
		return old
	}
	s.Guests = append(s.Guests, g)
	return ""
}

// MoveTo sets the kind of sandbox of the session, which was another one. Guests with a snapshot
// stay what they are until they are used.
func (s *State) MoveTo(kind, from string) {
	for i := range s.Guests {
		if g := &s.Guests[i]; kind != from && g.Blob != "" && g.Sandbox == "" {
			g.Sandbox = from
		}
	}
	s.Sandbox = kind
}

// HasProcess reports whether a guest is only in memory, because it can't be stored.
func (s *State) HasProcess() bool {
	return slices.ContainsFunc(s.Guests, func(g Guest) bool { return g.Blob == "" })
}

// Clone returns a copy that can be modified independently.
func (s *State) Clone() *State {
	c := *s
	c.Guests = append([]Guest(nil), s.Guests...)
	return &c
}

// Encode encodes s for a Record.
func (s *State) Encode() ([]byte, error) { return tool.Marshal(s) }

// DecodeState decodes the output of Encode.
func DecodeState(b []byte) (*State, error) {
	s := &State{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, tool.Errorf(tool.Internal, "the state of a session can't be read: %w", err)
	}
	return s, nil
}

// A StoredFile is a file or directory in the stored list of a session's files.
type StoredFile struct {
	Path     string
	Modified time.Time
	Dir      bool // the following are zero
	Blob     string
	Size     int64
	Digest   [sha256.Size]byte
}

// EncodeFiles encodes a list of files.
func EncodeFiles(list []StoredFile) []byte {
	var e encoder
	for _, f := range list {
		e.text(f.Path)
		e.int(f.Modified.UnixMilli())
		if f.Dir {
			e.byte(1)
			continue
		}
		e.byte(0)
		e.text(f.Blob)
		e.int(f.Size)
		e.b = append(e.b, f.Digest[:]...)
	}
	return e.b
}

// DecodeFiles decodes the output of EncodeFiles.
func DecodeFiles(b []byte) (list []StoredFile, err error) {
	d := decoder{b: b}
	for d.more() {
		f := StoredFile{Path: d.text(), Modified: time.UnixMilli(d.int())}
		if f.Dir = d.byte() != 0; !f.Dir {
			f.Blob, f.Size, f.Digest = d.text(), d.int(), d.digest()
		}
		list = append(list, f)
	}
	if d.err != nil {
		return nil, ListError(d.err)
	}
	return list, nil
}

// ListError reports that the list of a session's files is damaged.
func ListError(err error) error {
	return tool.Errorf(tool.Conflict, "the list of a session's files can't be read: %w", err)
}

// An encoder writes a sequence of fields.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)   { e.b = append(e.b, v) }
func (e *encoder) int(v int64)   { e.b = appendVarint(e.b, v) }
func (e *encoder) text(s string) { e.b = append(appendVarint(e.b, int64(len(s))), s...) }

// A decoder reads what an encoder wrote. The first error is kept in err.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) more() bool { return d.err == nil && len(d.b) > 0 }

func (d *decoder) fail() {
	if d.err == nil {
		d.err = fmt.Errorf("it ends or is damaged %d bytes before its end", len(d.b))
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) int() int64 {
	v, n := varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) text() string { return string(bytes.Clone(d.bytes())) }

func (d *decoder) digest() (v [sha256.Size]byte) {
	if len(d.b) < len(v) {
		d.fail()
		return v
	}
	d.b = d.b[copy(v[:], d.b):]
	return v
}
