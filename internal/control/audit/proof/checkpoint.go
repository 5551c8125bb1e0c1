// Package proof signs the heads of a log, and writes and checks what they prove: that a leaf is in
// the log, and that one log continues another. It needs only the log's public key to check a proof,
// and has no access to a log. The formats are C2SP tlog-checkpoint, signed-note and tlog-proof.
package proof

import (
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

// checkpointBytes is the maximum size of an external checkpoint. It may carry cosignatures.
const checkpointBytes = 64 << 10

// A Signer signs the checkpoints of a log. It is safe for concurrent use.
type Signer struct {
	origin string
	seed   []byte
	once   sync.Once // creates keys
	keys   keys
}

// keys are the signing key and the public verifier key of a Signer.
type keys struct {
	signer note.Signer
	public string
}

// NewSigner returns the Signer of the log with the name origin, for an Ed25519 seed. The keys are
// created on first use. The first key of a process initializes tables, which needs most of a
// millisecond, and short-lived processes often end before they sign.
func NewSigner(origin string, seed []byte) (*Signer, error) {
	if err := CheckOrigin(origin); err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, tool.Errorf(tool.Invalid, "the record's key has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	return &Signer{origin: origin, seed: seed}, nil
}

// keyPair returns the keys, and creates them on the first call.
func (s *Signer) keyPair() *keys {
	s.once.Do(func() { s.keys = makeKeys(s.origin, s.seed) })
	return &s.keys
}

// makeKeys returns the keys for a name and a seed that NewSigner has validated.
func makeKeys(origin string, seed []byte) keys {
	public, err := note.NewEd25519VerifierKey(origin, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
	if err != nil {
		panic(err) // it only refuses keys of another length
	}
	// A signer's text has the format of signed-note: a name, the key's hash, which is also in the
	// verifier's text, and algorithm and seed.
	hash := strings.Split(public, "+")[1]
	s, err := note.NewSigner("PRIVATE+KEY+" + origin + "+" + hash + "+" +
		base64.StdEncoding.EncodeToString(append([]byte{1}, seed...)))
	if err != nil {
		// it refuses only the names that CheckOrigin refuses, and other lengths; the error has no
		// part of the key
		panic(err)
	}
	return keys{s, public}
}

// NewSeed returns a random seed for a log's key.
func NewSeed() []byte {
	b := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(b) // it never fails: it crashes the process instead
	return b
}

// NewOrigin returns a random name for a log.
func NewOrigin() string { return "biplane/" + strings.ToLower(rand.Text()[:16]) }

// CheckOrigin returns an error if origin is not a valid name of a log. The name is the first line
// of each checkpoint, and the name of its key (C2SP signed-note: no spaces, no plus sign).
func CheckOrigin(origin string) error {
	if origin == "" || len(origin) > 255 || !utf8.ValidString(origin) ||
		strings.ContainsFunc(origin, func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsControl(r) || r == '+'
		}) {
		return tool.Errorf(tool.Invalid, "the record's origin %q must be a name of 1 to 255 bytes without spaces and "+
			"plus signs, such as example.com/biplane", origin)
	}
	return nil
}

// Origin returns the name of the log.
func (s *Signer) Origin() string { return s.origin }

// Public returns the key that verifies s's signatures: a verifier key of C2SP signed-note,
// "<origin>+<hash>+<key>".
func (s *Signer) Public() string { return s.keyPair().public }

// SignHead returns a signed checkpoint of h.
func (s *Signer) SignHead(h Head) (string, error) {
	return s.SignText(fmt.Sprintf("%s\n%d\n%s\n", s.Origin(), h.Size, h.Root))
}

// A Head is the state of the log at one moment.
type Head struct {
	Size int64 // leaves
	Root tlog.Hash
}

// A Checkpoint is a signed head of a log.
type Checkpoint struct {
	Origin string
	Head
	Text string // the signed note (C2SP tlog-checkpoint), byte for byte
}

// ParseCheckpoint parses a checkpoint, and checks its signature with a verifier key.
func ParseCheckpoint(text, public string) (*Checkpoint, error) {
	v, err := note.NewVerifier(strings.TrimSpace(public))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid,
			"invalid public key: it has the form name+hash+key, as biplane audit key prints it")
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
		return nil, tool.Errorf(tool.Invalid, "the checkpoint does not have three lines")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint's size is not a number")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the checkpoint's root is not a hash")
	}
	if lines[0] != v.Name() {
		return nil, tool.Errorf(tool.Invalid,
			"the checkpoint is of the log %q, but the key is of %q", lines[0], v.Name())
	}
	return &Checkpoint{Origin: lines[0], Head: Head{size, root}, Text: text}, nil
}

// CompareWith compares the log's head with the sealed one, which is nil if there is none. The error
// names the leaves that differ from the recorded ones.
func (h Head) CompareWith(sealed *Head, hashes tlog.HashReader) error {
	switch {
	case sealed == nil || h == *sealed:
		return nil
	case h.Size < sealed.Size:
		if last := sealed.Size - 1; h.Size < last {
			return fmt.Errorf("the leaves %d to %d were removed from its end", h.Size, last)
		}
		return fmt.Errorf("leaf %d was removed from its end", h.Size)
	}
	if root, err := tlog.TreeHash(sealed.Size, hashes); err != nil || root != sealed.Root {
		return fmt.Errorf("one or more of the leaves 0 to %d were rewritten, together with their hashes", sealed.Size-1)
	}
	return fmt.Errorf("biplane did not record the leaves %d to %d", sealed.Size, h.Size-1)
}

// SignText returns a signed note of text, which must end in a line break. Its first line must tell
// it from a checkpoint, whose first line is the log's name and whose second one is a number.
func (s *Signer) SignText(text string) (string, error) {
	msg, err := note.Sign(&note.Note{Text: text}, s.keyPair().signer)
	return string(msg), err
}
