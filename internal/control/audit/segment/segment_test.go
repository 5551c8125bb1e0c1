package segment_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
)

func writeSegment(t *testing.T, leaves int64) (path string, h *segment.Header, s *proof.Signer) {
	t.Helper()
	s, err := proof.NewSigner("example.com/log", proof.NewSeed())
	if err != nil {
		t.Fatalf("NewSigner: %v", err)
	}
	b := &segment.Builder{}
	for i := range leaves {
		if err := b.AddLeaf(fmt.Appendf(nil, `{"seq":%d}`, 512+i)); err != nil {
			t.Fatalf("AddLeaf: %v", err)
		}
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	h = &segment.Header{First: 512, Count: leaves, Since: at, Until: at.Add(time.Hour), Digest: b.BodyDigest()}
	if err := h.SignHeader(s); err != nil {
		t.Fatalf("Sign: %v", err)
	}
	folder := filepath.Join(t.TempDir(), segment.Folder)
	if err := b.WriteFile(folder, h); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	return filepath.Join(folder, h.FileName()), h, s
}

// TestSegment checks that a segment can be read in blocks, by gzip, and with the key only.
func TestSegment(t *testing.T) {
	path, want, s := writeSegment(t, 3*segment.BlockLeaves)
	h, err := segment.CheckFile(path, s.Public())
	if err != nil || *h != *want {
		t.Fatalf("CheckFile: %+v, %v, want %+v", h, err, want)
	}
	for block := range int64(3) {
		leaves, err := segment.ReadBlock(path, block)
		if err != nil {
			t.Fatalf("ReadBlock: %v", err)
		}
		if got, want := string(leaves[7]), fmt.Sprintf(`{"seq":%d}`, 512+256*block+7); got != want {
			t.Errorf("leaf 7 of block %d is %s, want %s", block, got, want)
		}
	}
	if _, err := segment.ReadBlock(path, 3); err == nil {
		t.Error("block 3 was read, and there are three")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	all, err := io.ReadAll(z)
	if err != nil || !strings.HasPrefix(string(all), "biplane/audit-segment@v1\nexample.com/log\n512\n768\n") ||
		bytes.Count(all, []byte(`{"seq":`)) != 768 {
		t.Errorf("gzip reads %d bytes, %v, want the header and the leaves", len(all), err)
	}
	if _, err := segment.CheckFile(path+".none", s.Public()); err != segment.ErrMissing {
		t.Errorf("a missing file: %v, want ErrMissing", err)
	}
	other, err := proof.NewSigner("example.com/log", proof.NewSeed())
	if err != nil {
		t.Fatalf("NewSigner: %v", err)
	}
	if _, err := segment.CheckFile(path, other.Public()); err == nil {
		t.Error("another key's signature is accepted")
	}
}

// TestChangedSegment changes a small segment at many bytes, cuts it there, and appends to it.
// None of that is accepted.
func TestChangedSegment(t *testing.T) {
	path, want, s := writeSegment(t, segment.BlockLeaves)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	for i := 0; i < len(whole); i += 7 {
		for what, data := range map[string][]byte{"changed": bytes.Clone(whole), "cut": whole[:i],
			"longer": append(bytes.Clone(whole), whole[i])} {
			if what == "changed" {
				data[i] ^= 0x40
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatalf("WriteFile: %v", err)
			}
			// gzip's own header has bytes, such as a time, that change nothing
			if h, err := segment.CheckFile(path, s.Public()); err == nil && (what != "changed" || *h != *want) {
				t.Fatalf("%s at byte %d: accepted as %+v", what, i, h)
			}
		}
	}
}

// TestFullSegment checks that a segment with large blocks ends long before it is too large to be
// read, and only with a whole block.
func TestFullSegment(t *testing.T) {
	b, random := &segment.Builder{}, rand.NewChaCha8([32]byte{})
	leaf := make([]byte, 51<<10)
	for i := range 2 * segment.BlockLeaves {
		_, _ = random.Read(leaf) // it never fails
		if err := b.AddLeaf([]byte(base64.StdEncoding.EncodeToString(leaf))); err != nil {
			t.Fatalf("AddLeaf: %v", err)
		}
		if full := (i+1)%segment.BlockLeaves == 0 && i+1 > segment.BlockLeaves; b.IsFull() != full {
			t.Fatalf("after %d leaves, it is full: %v, want %v", i+1, !full, full)
		}
	}
}

// FuzzSegment reads hostile files: errors are fine, endless work is not.
func FuzzSegment(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff\x08\x00BP\x04\x00\x20\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "a.gz")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		if _, err := segment.CheckFile(path, "example.com/log+00000000+AQ"); err == nil {
			t.Error("accepted without a valid key")
		}
		if leaves, err := segment.ReadBlock(path, 0); err == nil && len(leaves) != segment.BlockLeaves {
			t.Errorf("a block has %d leaves", len(leaves))
		}
	})
}
