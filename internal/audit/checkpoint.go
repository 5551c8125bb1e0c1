package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/tool"
)

// checkpointBytes bounds a checkpoint from outside. It may carry cosignatures.
const checkpointBytes = 64 << 10

// A Signer signs checkpoints of one log. It is safe for concurrent use.
type Signer struct {
	origin string
	keys   func() keys // makes them once
}

// keys are what a Signer signs with, and what checks that.
type keys struct {
	signer note.Signer
	public string
}

// NewSigner makes the Signer of the log that origin names, of an Ed25519 seed. Its keys are made
// when they are first needed: with the first, a process makes tables, which takes most of a
// millisecond, and most that were started for one program have ended, or answered, before they
// sign.
func NewSigner(origin string, seed []byte) (*Signer, error) {
	if err := CheckOrigin(origin); err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, tool.Errorf(tool.Invalid, "the record's key has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	return &Signer{origin, sync.OnceValue(func() keys { return makeKeys(origin, seed) })}, nil
}

// makeKeys makes the keys of a name and a seed that NewSigner has looked at.
func makeKeys(origin string, seed []byte) keys {
	public, err := note.NewEd25519VerifierKey(origin, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	if err != nil {
		panic(err) // it refuses keys of another length only
	}
	// A signer's text is that of signed-note: a name, the key's hash, which the verifier's text has
	// too, and algorithm and seed.
	hash := strings.Split(public, "+")[1]
	s, err := note.NewSigner("PRIVATE+KEY+" + origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{1}, seed...)))
	if err != nil {
		panic(err) // it refuses names that CheckOrigin does, and other lengths; the error has no part of the key
	}
	return keys{s, public}
}

// newSigner makes a Signer that nobody else has.
func newSigner() *Signer {
	s, err := NewSigner(NewOrigin(), NewSeed())
	if err != nil {
		panic(err) // both are ours
	}
	return s
}

// NewSeed makes the seed of a log's key.
func NewSeed() []byte {
	b := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(b) // it never fails: the process ends instead
	return b
}

// NewOrigin makes the name of a log that has been given none.
func NewOrigin() string { return "biplane/" + strings.ToLower(rand.Text()[:16]) }

// CheckOrigin says whether a log may be named so: it is the first line of each checkpoint, and the
// name of its key (C2SP signed-note: no spaces, no plus sign).
func CheckOrigin(origin string) error {
	if origin == "" || len(origin) > 255 || !utf8.ValidString(origin) || strings.ContainsFunc(origin, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '+'
	}) {
		return tool.Errorf(tool.Invalid, "the record's origin %q must be a name of 1 to 255 bytes without spaces and plus signs, as example.com/biplane", origin)
	}
	return nil
}

// Origin is the name of the log.
func (s *Signer) Origin() string { return s.origin }

// Public is the key that checks what s signs: a verifier key of C2SP signed-note,
// "<origin>+<hash>+<key>".
func (s *Signer) Public() string { return s.keys().public }

// sign makes a checkpoint of h.
func (s *Signer) sign(h Head) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", s.Origin(), h.Size, h.Root)
	msg, err := note.Sign(&note.Note{Text: text}, s.keys().signer)
	return string(msg), err
}

// A Checkpoint is a signed head of a log.
type Checkpoint struct {
	Origin string
	Head
	Text string // the signed note (C2SP tlog-checkpoint), byte for byte
}

// ParseCheckpoint reads a checkpoint, and checks its signature with a verifier key. The error says
// what is wrong with it.
func ParseCheckpoint(text, public string) (*Checkpoint, error) {
	v, err := note.NewVerifier(strings.TrimSpace(public))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the public key is none: it looks like name+hash+key, as biplane audit key prints it")
	}
	if len(text) > checkpointBytes {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint is larger than %d bytes", checkpointBytes)
	}
	n, err := note.Open([]byte(text), note.VerifierList(v))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint is not signed by %s: %w", v.Name(), err)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 || lines[0] == "" {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint has not the three lines of one")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint's size is no number")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint's root is no hash")
	}
	if lines[0] != v.Name() {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint is of the log %q, the key of %q", lines[0], v.Name())
	}
	return &Checkpoint{Origin: lines[0], Head: Head{size, root}, Text: text}, nil
}

// Origin is the name of the log.
func (l *Log) Origin() string { return l.signer.Origin() }

// Public is the key that checks the log's checkpoints: a verifier key of C2SP signed-note.
func (l *Log) Public() string { return l.signer.Public() }

// Checkpoint signs the log as it is now. All that it covers, and itself, is on the disk before it
// returns.
func (l *Log) Checkpoint(ctx context.Context) (*Checkpoint, error) {
	var c *Checkpoint
	err := l.store.Checkpoint(ctx, func(h Head) (string, error) {
		text, err := l.signer.sign(h)
		c = &Checkpoint{Origin: l.signer.Origin(), Head: h, Text: text}
		return text, err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Checkpoints calls f with each stored checkpoint whose signature is good, oldest first; Verify
// tells of others.
func (l *Log) Checkpoints(ctx context.Context, f func(*Checkpoint) error) error {
	return l.store.View(ctx, func(v View) error {
		return v.Checkpoints(func(text string) error {
			c, err := ParseCheckpoint(text, l.signer.Public())
			if err != nil {
				return nil
			}
			return f(c)
		})
	})
}

// Head gives the log's size and root now, unsigned.
func (l *Log) Head(ctx context.Context) (h Head, err error) {
	err = l.store.View(ctx, func(v View) (err error) { h, err = v.Head(); return err })
	return h, err
}

// Seal makes a checkpoint where there are leaves that no stored one covers.
func (l *Log) Seal(ctx context.Context) error {
	var size, covered int64
	err := l.store.View(ctx, func(v View) error {
		h, err := v.Head()
		if err != nil {
			return err
		}
		size = h.Size
		newest := ""
		if err := v.Checkpoints(func(text string) error { newest = text; return nil }); err != nil || newest == "" {
			return err
		}
		if c, err := ParseCheckpoint(newest, l.signer.Public()); err == nil {
			covered = c.Size
		}
		return nil
	})
	if err != nil || size == covered {
		return err
	}
	_, err = l.Checkpoint(ctx)
	return err
}
