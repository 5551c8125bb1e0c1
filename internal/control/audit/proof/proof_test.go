package proof_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
)

// TestKeys checks a verifier key's hash, as in signed-note, for a known key, and invalid keys.
func TestKeys(t *testing.T) {
	seed := bytes.Repeat([]byte{9}, 32)
	s, err := proof.NewSigner("example.com/log", seed)
	if err != nil {
		t.Fatalf("proof.NewSigner: %v", err)
	}
	public := append([]byte{1}, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)...)
	id := sha256.Sum256(append([]byte("example.com/log\n"), public...))
	want := fmt.Sprintf("example.com/log+%08x+%s", binary.BigEndian.Uint32(id[:4]),
		base64.StdEncoding.EncodeToString(public))
	if s.Public() != want {
		t.Errorf("public key %s, want %s", s.Public(), want)
	}
	for _, origin := range []string{"", "a b", "a+b", "a\nb", "\xff", strings.Repeat("x", 256)} {
		if _, err := proof.NewSigner(origin, seed); err == nil {
			t.Errorf("a log named %q", origin)
		}
	}
	if _, err := proof.NewSigner("x", seed[1:]); err == nil ||
		regexp.MustCompile(`090909|CQkJ`).MatchString(err.Error()) {
		t.Errorf("a short key: %v", err)
	}
	if o := proof.NewOrigin(); proof.CheckOrigin(o) != nil || o == proof.NewOrigin() {
		t.Errorf("a random name: %s", o)
	}
}

// newTree returns the stored hashes of a log with the given leaves.
func newTree(t *testing.T, leaves ...string) tlog.HashReaderFunc {
	t.Helper()
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, stored[i])
		}
		return out, nil
	})
	for i, leaf := range leaves {
		hashes, err := tlog.StoredHashes(int64(i), []byte(leaf), read)
		if err != nil {
			t.Fatalf("tlog.StoredHashes: %v", err)
		}
		stored = append(stored, hashes...)
	}
	return read
}

func sign(t *testing.T, s *proof.Signer, tree tlog.HashReader, size int64) *proof.Checkpoint {
	t.Helper()
	root, err := tlog.TreeHash(size, tree)
	if err != nil {
		t.Fatalf("tlog.TreeHash: %v", err)
	}
	text, err := s.SignHead(proof.Head{Size: size, Root: root})
	if err != nil {
		t.Fatalf("SignHead: %v", err)
	}
	c, err := proof.ParseCheckpoint(text, s.Public())
	if err != nil {
		t.Fatalf("proof.ParseCheckpoint: %v", err)
	}
	return c
}

// TestProofs checks that a proof holds for its leaf and its log only.
func TestProofs(t *testing.T) {
	s, err := proof.NewSigner(proof.NewOrigin(), proof.NewSeed())
	if err != nil {
		t.Fatalf("proof.NewSigner: %v", err)
	}
	other, err := proof.NewSigner(s.Origin(), proof.NewSeed())
	if err != nil {
		t.Fatalf("proof.NewSigner: %v", err)
	}
	tree, changed := newTree(t, "a", "b", "c", "d", "e"), newTree(t, "a", "x", "c", "d", "e")
	three, five := sign(t, s, tree, 3), sign(t, s, tree, 5)

	text, err := proof.WriteInclusion(tree, five, 1, []byte("b"))
	if err != nil {
		t.Fatalf("proof.WriteInclusion: %v", err)
	}
	got, err := proof.CheckInclusion(text, s.Public())
	if err != nil || len(got) != 1 || got[0].Seq != 1 || string(got[0].Leaf) != "b" || got[0].Checkpoint.Size != 5 {
		t.Errorf("the proof of leaf 1 proves %+v, %v", got, err)
	}
	if _, err := proof.CheckInclusion(text, other.Public()); err == nil {
		t.Error("a proof is accepted with another log's key")
	}
	if _, err := proof.CheckInclusion(strings.Replace(text, "index 1", "index 2", 1), s.Public()); err == nil {
		t.Error("a proof is accepted for another index")
	}
	if _, err := proof.WriteInclusion(tree, five, 1, []byte("x")); err == nil {
		t.Error("a proof is written for a leaf that is not in the log")
	}

	text, err = proof.WriteConsistency(tree, three, five)
	if err != nil {
		t.Fatalf("proof.WriteConsistency: %v", err)
	}
	older, newer, err := proof.CheckConsistency(text, s.Public())
	if err != nil || older.Head != three.Head || newer.Head != five.Head || !proof.IsConsistency(text) {
		t.Errorf("the proof of consistency proves %+v and %+v, %v", older, newer, err)
	}
	if _, err := proof.WriteConsistency(tree, five, three); err == nil {
		t.Error("a proof is written for a log that was truncated")
	}
	if _, err := proof.WriteConsistency(changed, three, sign(t, s, changed, 5)); err == nil {
		t.Error("a proof is written for a log whose beginning was changed")
	}
}
