// Package segment defines the files that old leaves of the audit log are moved to. A segment is a
// signed header and the leaves, one a line, compressed with gzip in blocks of 256. Any program that
// reads gzip shows all of it. The hashes of the leaves stay in the store. So the tree, and proofs
// that need no archived leaf, don't depend on the files.
package segment

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// Folder is the folder of the segments, in the data folder.
	Folder = "archive"
	// BlockLeaves is the number of leaves in a block. A segment has whole blocks.
	BlockLeaves = 256
	// MaxLeaves is the maximum number of leaves in a segment.
	MaxLeaves = 64 * BlockLeaves
)

const (
	format     = "biplane/audit-segment@v1"
	timeFormat = time.RFC3339Nano
	maxHeader  = 4 << 10
	maxBlock   = 64 << 20 // bytes of a block that is not compressed
	// fullBody is the number of bytes at which a segment is full: it gets no further blocks.
	fullBody = 16 << 20
	// maxFile is the maximum size of a segment, in bytes: of one with only the largest blocks.
	maxFile = (MaxLeaves/BlockLeaves)*(maxBlock+maxHeader) + maxHeader
)

// A Header describes a segment.
type Header struct {
	Origin       string    // name of the log
	First, Count int64     // its leaves
	Since, Until time.Time // the least and the greatest time of its leaves
	Digest       string    // SHA-256 of the file after the header, in hexadecimal
	Note         string    // the signed text of the header (C2SP signed-note)
}

// A Stored is a segment that the store has a header of.
type Stored struct {
	First, Last int64  // its leaves
	Note        string // as in Header
	Path        string // where its file should be
}

// A Store moves leaves from a log to segments. Its methods are not called concurrently.
type Store interface {
	// CountOld returns the number of leaves that WriteNext and MoveLeaves would move, in several
	// steps.
	CountOld(ctx context.Context, before time.Time) (int64, error)
	// WriteNext writes the file of the next segment, with the oldest leaves from before a time, as
	// many as one has. It calls sign with the header, and returns it with its Note, or nil if there
	// are no such leaves.
	// Leaves that differ from the recorded ones are an error of kind tool.Conflict.
	WriteNext(ctx context.Context, before time.Time, sign func(*Header) error) (*Header, error)
	// MoveLeaves moves the leaves of a segment that WriteNext wrote out of the log.
	MoveLeaves(ctx context.Context, h *Header) error
	// FinishMove completes a MoveLeaves that was interrupted. Leaves stay in the log if their
	// segment's file is not as it was signed. The error is of kind tool.Conflict then, or
	// tool.NotFound if there is no file. public is the verifier key of the log.
	FinishMove(ctx context.Context, public string) error
}

// FileName returns the name of the file of a segment.
func FileName(first, last int64) string { return fmt.Sprintf("audit-%012d-%012d.gz", first, last) }

// FileName returns the name of the file.
func (h *Header) FileName() string { return FileName(h.First, h.First+h.Count-1) }

// signedText returns the text that is signed.
func (h *Header) signedText() string {
	return fmt.Sprintf("%s\n%s\n%d\n%d\n%s\n%s\nsha256:%s\n", format, h.Origin, h.First, h.Count,
		h.Since.UTC().Format(timeFormat), h.Until.UTC().Format(timeFormat), h.Digest)
}

// A Signer signs texts with the key of a log: see proof.Signer.
type Signer interface {
	Origin() string
	SignText(text string) (string, error)
}

// SignHeader signs the header.
func (h *Header) SignHeader(s Signer) (err error) {
	h.Origin = s.Origin()
	h.Note, err = s.SignText(h.signedText())
	return err
}

// ParseHeader parses the signed text of a header, and checks its signature with a verifier key.
func ParseHeader(signed, public string) (*Header, error) {
	v, err := note.NewVerifier(strings.TrimSpace(public))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid,
			"invalid public key: it has the form name+hash+key, as biplane audit key prints it")
	}
	if len(signed) > maxHeader {
		return nil, tool.Errorf(tool.Invalid, "the header of the segment is too large")
	}
	n, err := note.Open([]byte(signed), note.VerifierList(v))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the segment is not signed by %s: %w", v.Name(), err)
	}
	h, err := parseText(n.Text)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the header of the segment is invalid: %w", err)
	}
	if h.Origin != v.Name() {
		return nil, tool.Errorf(tool.Invalid, "the segment is of the log %q, but the key is of %q", h.Origin, v.Name())
	}
	h.Note = signed
	return h, nil
}

func parseText(text string) (*Header, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 8 || lines[0] != format {
		return nil, errors.New("it is not " + format)
	}
	h := &Header{Origin: lines[1], Digest: strings.TrimPrefix(lines[6], "sha256:")}
	var errs [4]error
	h.First, errs[0] = strconv.ParseInt(lines[2], 10, 64)
	h.Count, errs[1] = strconv.ParseInt(lines[3], 10, 64)
	h.Since, errs[2] = time.Parse(timeFormat, lines[4])
	h.Until, errs[3] = time.Parse(timeFormat, lines[5])
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if h.First < 0 || h.Count < 1 || h.Count > MaxLeaves || h.First%BlockLeaves != 0 || h.Count%BlockLeaves != 0 {
		return nil, fmt.Errorf("it has the leaves from %d on, %d of them", h.First, h.Count)
	}
	if h.signedText() != text {
		return nil, errors.New("it is not written as Biplane writes it")
	}
	return h, nil
}

// A Builder compresses the leaves of a segment.
type Builder struct {
	body   bytes.Buffer
	block  bytes.Buffer
	leaves int64
}

// AddLeaf adds a leaf.
func (b *Builder) AddLeaf(leaf []byte) error {
	if bytes.IndexByte(leaf, '\n') >= 0 || b.block.Len()+len(leaf) >= maxBlock {
		return tool.Errorf(tool.Internal, "the leaf can't be archived: it has several lines, or is too large")
	}
	b.block.Write(leaf)
	b.block.WriteByte('\n')
	if b.leaves++; b.leaves%BlockLeaves != 0 {
		return nil
	}
	err := appendMember(&b.body, b.block.Bytes())
	b.block.Reset()
	return err
}

// IsFull reports whether the segment should have no further leaves: its blocks are whole and large.
func (b *Builder) IsFull() bool { return b.leaves%BlockLeaves == 0 && b.body.Len() >= fullBody }

// CountLeaves returns the number of leaves.
func (b *Builder) CountLeaves() int64 { return b.leaves }

// BodyDigest returns Header.Digest.
func (b *Builder) BodyDigest() string {
	sum := sha256.Sum256(b.body.Bytes())
	return hex.EncodeToString(sum[:])
}

// WriteFile writes the segment to a folder, which is created if it is missing. It replaces a file
// of that name. The file is complete, and on the disk, or it is not there.
func (b *Builder) WriteFile(folder string, h *Header) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return tool.Errorf(tool.Unavailable, "archive: %w", err)
	}
	if err := atomicfile.SyncFolder(filepath.Dir(folder)); err != nil { // the folder may be new
		return tool.Errorf(tool.Unavailable, "archive: %w", err)
	}
	var file bytes.Buffer
	if err := appendMember(&file, []byte(h.Note+"\n")); err != nil {
		return err
	}
	file.Write(b.body.Bytes())
	if err := atomicfile.WriteFile(filepath.Join(folder, h.FileName()), file.Bytes(), 0o600); err != nil {
		return tool.Errorf(tool.Unavailable, "archive: %w", err)
	}
	return nil
}

// A member of gzip begins with 10 bytes, the size of the extra field, and that field: the letters
// BP, their size, and the size of the member. So a reader finds a block without reading those
// before it.
const (
	extraAt  = 12
	sizeAt   = extraAt + 4
	headSize = sizeAt + 4
)

func appendMember(out *bytes.Buffer, data []byte) error {
	from := out.Len()
	w := gzip.NewWriter(out)
	w.Extra = []byte{'B', 'P', 4, 0, 0, 0, 0, 0}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	member := out.Bytes()[from:]
	binary.LittleEndian.PutUint32(member[sizeAt:], uint32(len(member)))
	return nil
}

// memberSize returns the size of the member at an offset.
func memberSize(f io.ReaderAt, at int64) (int64, error) {
	var head [headSize]byte
	if _, err := f.ReadAt(head[:], at); err != nil {
		return 0, err
	}
	n := int64(binary.LittleEndian.Uint32(head[sizeAt:]))
	if head[extraAt] != 'B' || head[extraAt+1] != 'P' || n <= headSize {
		return 0, errors.New("it is not a segment")
	}
	return n, nil
}

func readMember(f io.ReaderAt, at, size, most int64) ([]byte, error) {
	r, err := gzip.NewReader(io.NewSectionReader(f, at, size))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = errors.New("a block of it is too large")
	}
	return data, err
}

// ErrMissing means that the file of a segment doesn't exist.
var ErrMissing = errors.New("the file is missing")

// openFile opens a segment. The error is ErrMissing if there is no such file.
func openFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	} else if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		f.Close()
		return nil, errors.New("it is not a file, or too large")
	}
	return f, nil
}

// ReadBlock returns the leaves of a block of a segment. The error is ErrMissing if there is no such
// file. The leaves are not checked.
func ReadBlock(path string, block int64) ([][]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := int64(0)
	for range block + 1 { // the header comes first
		n, err := memberSize(f, at)
		if err != nil {
			return nil, err
		}
		at += n
	}
	n, err := memberSize(f, at)
	if err != nil {
		return nil, err
	}
	data, err := readMember(f, at, n, maxBlock)
	if err != nil {
		return nil, err
	}
	leaves := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	if len(leaves) != BlockLeaves {
		return nil, fmt.Errorf("a block has %d leaves, not %d", len(leaves), BlockLeaves)
	}
	return leaves, nil
}

// CheckFile compares a file with its signed header. The error is ErrMissing if there is no such
// file.
func CheckFile(path, public string) (*Header, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := memberSize(f, 0)
	if err != nil {
		return nil, err
	}
	head, err := readMember(f, 0, n, maxHeader)
	if err != nil {
		return nil, err
	}
	h, err := ParseHeader(strings.TrimSuffix(string(head), "\n"), public)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, n, maxFile)); err != nil {
		return nil, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != h.Digest {
		return nil, errors.New("its leaves differ from the signed ones")
	}
	return h, nil
}
