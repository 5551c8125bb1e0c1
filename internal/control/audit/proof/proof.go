package proof

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/tool"
)

// First lines of the two kinds of proof.
const (
	inclusionHeader   = "c2sp.org/tlog-proof@v1"
	consistencyHeader = "biplane/tlog-consistency@v1"
)

// proofBytes is the maximum size of an external proof, and proofHashes the maximum number of its
// hashes.
const (
	proofBytes  = 1 << 20
	proofHashes = 128
)

// An Inclusion is the statement of a proof: Leaf is at index Seq of the checkpoint's log.
type Inclusion struct {
	Seq        int64
	Leaf       []byte // canonical JSON
	Checkpoint *Checkpoint
}

// WriteInclusion returns the proof that a leaf is in the log of a checkpoint, at index seq. tree
// has the stored hashes of the log.
func WriteInclusion(tree tlog.HashReader, c *Checkpoint, seq int64, leaf []byte) (string, error) {
	p, err := tlog.ProveRecord(c.Size, seq, tree)
	if err != nil {
		return "", err
	}
	if err := tlog.CheckRecord(p, c.Size, c.Root, seq, tlog.RecordHash(leaf)); err != nil {
		return "", tool.Errorf(tool.Conflict,
			"leaf %d is not what the checkpoint of %d leaves says: run biplane audit verify", seq, c.Size)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nextra %s\nindex %d\n", inclusionHeader, base64.StdEncoding.EncodeToString(leaf), seq)
	for _, h := range p {
		fmt.Fprintln(&b, h)
	}
	return b.String() + "\n" + c.Text, nil
}

// WriteConsistency returns the proof that the log of an older checkpoint is a prefix of c's log.
// Its parts are a first line, the older checkpoint, the hashes of RFC 6962's consistency proof, and
// c, separated by empty lines. tree has the stored hashes of the log.
func WriteConsistency(tree tlog.HashReader, old, c *Checkpoint) (string, error) {
	if old.Size > c.Size {
		return "", tool.Errorf(tool.Conflict,
			"the checkpoint has %d leaves, this record only %d: it was truncated, or an older copy was put back",
			old.Size, c.Size)
	}
	var p tlog.TreeProof
	if old.Size > 0 {
		var err error
		if p, err = tlog.ProveTree(c.Size, old.Size, tree); err != nil {
			return "", err
		}
	}
	if err := checkConsistency(p, old, c); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", consistencyHeader, old.Text)
	for _, h := range p {
		fmt.Fprintln(&b, h)
	}
	return b.String() + "\n" + c.Text, nil
}

// checkConsistency checks a consistency proof. The empty log is a prefix of every log.
func checkConsistency(p tlog.TreeProof, old, c *Checkpoint) error {
	var err error
	switch empty, _ := tlog.TreeHash(0, nil); {
	case old.Size > 0:
		err = tlog.CheckTree(p, c.Size, c.Root, old.Size, old.Root)
	case old.Root != empty || len(p) > 0:
		err = fmt.Errorf("the root of an empty log is different")
	}
	if err != nil {
		return tool.Errorf(tool.Conflict, "the log of %d leaves is not a continuation of the checkpoint of %d: "+
			"records before leaf %d were changed: run biplane audit verify", c.Size, old.Size, old.Size)
	}
	return nil
}

// CheckInclusion checks proofs of WriteInclusion, joined by empty lines, with only the log's public
// key. It returns what they prove.
func CheckInclusion(text, public string) ([]Inclusion, error) {
	if len(text) > proofBytes {
		return nil, tool.Errorf(tool.Invalid, "the proof is larger than %d bytes", proofBytes)
	}
	parts := strings.Split(text, "\n"+inclusionHeader+"\n")
	var out []Inclusion
	for i, part := range parts {
		if i > 0 {
			part = inclusionHeader + "\n" + part
		}
		p, err := checkOne(strings.TrimRight(part, "\n")+"\n", public)
		if err != nil {
			return nil, err
		}
		out = append(out, *p)
	}
	return out, nil
}

func checkOne(text, public string) (*Inclusion, error) {
	head, checkpoint, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 3 || lines[0] != inclusionHeader {
		return nil, tool.Errorf(tool.Invalid, "the file is not a proof: a proof begins with %q", inclusionHeader)
	}
	extra, isExtra := strings.CutPrefix(lines[1], "extra ")
	leaf, err := base64.StdEncoding.DecodeString(extra)
	if !isExtra || err != nil {
		return nil, tool.Errorf(tool.Invalid, "the proof's second line is not the leaf")
	}
	index, isIndex := strings.CutPrefix(lines[2], "index ")
	seq, err := strconv.ParseInt(index, 10, 64)
	if !isIndex || err != nil || seq < 0 || strconv.FormatInt(seq, 10) != index {
		return nil, tool.Errorf(tool.Invalid, "the proof's third line is not the index")
	}
	hashes, err := parseHashes(lines[3:])
	if err != nil {
		return nil, err
	}
	c, err := ParseCheckpoint(checkpoint, public)
	if err != nil {
		return nil, err
	}
	if err := tlog.CheckRecord(hashes, c.Size, c.Root, seq, tlog.RecordHash(leaf)); err != nil {
		return nil, tool.Errorf(tool.Invalid,
			"the proof is invalid: this leaf is not at index %d of the signed log", seq)
	}
	return &Inclusion{seq, leaf, c}, nil
}

func parseHashes(lines []string) ([]tlog.Hash, error) {
	if len(lines) > proofHashes {
		return nil, tool.Errorf(tool.Invalid, "the proof has more than %d hashes", proofHashes)
	}
	var out []tlog.Hash
	for _, line := range lines {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return nil, tool.Errorf(tool.Invalid, "the proof contains a line that is not a hash")
		}
		out = append(out, h)
	}
	return out, nil
}

// IsConsistency reports whether text has the first line of WriteConsistency's output.
func IsConsistency(text string) bool { return strings.HasPrefix(text, consistencyHeader+"\n") }

// CheckConsistency checks a proof of WriteConsistency, with only the log's public key, and returns
// both checkpoints.
func CheckConsistency(text, public string) (older, newer *Checkpoint, err error) {
	if len(text) > proofBytes {
		return nil, nil, tool.Errorf(tool.Invalid, "the proof is larger than %d bytes", proofBytes)
	}
	// A checkpoint contains one empty line, before its signatures.
	parts := strings.Split(text, "\n\n")
	// There are no hashes if both logs are the same, or the first is empty.
	if len(parts) == 5 && strings.HasPrefix(parts[3], "\n") {
		parts = []string{parts[0], parts[1], parts[2], "", parts[3][1:], parts[4]}
	}
	if len(parts) != 6 || parts[0] != consistencyHeader {
		return nil, nil, tool.Errorf(tool.Invalid,
			"the file is not a proof of consistency: it begins with %q", consistencyHeader)
	}
	if older, err = ParseCheckpoint(parts[1]+"\n\n"+parts[2]+"\n", public); err != nil {
		return nil, nil, err
	}
	var p []tlog.Hash
	if parts[3] != "" {
		if p, err = parseHashes(strings.Split(parts[3], "\n")); err != nil {
			return nil, nil, err
		}
	}
	if newer, err = ParseCheckpoint(parts[4]+"\n\n"+strings.TrimRight(parts[5], "\n")+"\n", public); err != nil {
		return nil, nil, err
	}
	if newer.Size < older.Size {
		return nil, nil, tool.Errorf(tool.Invalid, "the newer checkpoint has fewer leaves than the older one")
	}
	if err := checkConsistency(p, older, newer); err != nil {
		return nil, nil, err
	}
	return older, newer, nil
}
