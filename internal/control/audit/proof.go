package audit

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/tool"
)

// First lines of the two kinds of proof.
const (
	proofHeader       = "c2sp.org/tlog-proof@v1"
	consistencyHeader = "biplane/tlog-consistency@v1"
)

// proofBytes is the maximum size of an external proof, and proofHashes the maximum number of its
// hashes.
const (
	proofBytes  = 1 << 20
	proofHashes = 128
)

// A Proved is the statement of a proof: the leaf is in the checkpoint's log at index Seq.
type Proved struct {
	Seq        int64
	Leaf       []byte // canonical JSON
	Checkpoint *Checkpoint
}

// Prove returns the proof that a record is in the log, as text that can be checked with only the
// log's public key. For each leaf of the record it has a C2SP tlog-proof with the leaf as extra
// data. It makes a new checkpoint, unless at is the text of an earlier one, which must cover the
// record's first half. Later leaves are not in such a proof.
func (l *Log) Prove(ctx context.Context, id, at string) (string, error) {
	c, err := l.checkpointAt(ctx, at)
	if err != nil {
		return "", err
	}
	leaves, err := l.Leaves(ctx, id)
	if err != nil {
		return "", err
	}
	var out []string
	err = l.store.View(ctx, func(v View) error {
		for _, leaf := range leaves {
			if leaf.Seq >= c.Size {
				continue
			}
			text, err := writeProof(v, c, leaf)
			if err != nil {
				return err
			}
			out = append(out, text)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(out) == 0 {
		return "", tool.Errorf(tool.Conflict,
			"record %s is younger than the checkpoint of %d leaves: prove it with a later one", id, c.Size)
	}
	return strings.Join(out, "\n"), nil
}

func (l *Log) checkpointAt(ctx context.Context, at string) (*Checkpoint, error) {
	if at == "" {
		return l.Checkpoint(ctx)
	}
	return ParseCheckpoint(at, l.signer.Public())
}

func writeProof(v View, c *Checkpoint, leaf Leaf) (string, error) {
	p, err := tlog.ProveRecord(c.Size, leaf.Seq, v)
	if err != nil {
		return "", err
	}
	if err := tlog.CheckRecord(p, c.Size, c.Root, leaf.Seq, tlog.RecordHash(leaf.Data)); err != nil {
		return "", tool.Errorf(tool.Conflict,
			"leaf %d is not what the checkpoint of %d leaves says: run biplane audit verify", leaf.Seq, c.Size)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nextra %s\nindex %d\n", proofHeader, base64.StdEncoding.EncodeToString(leaf.Data), leaf.Seq)
	for _, h := range p {
		fmt.Fprintln(&b, h)
	}
	return b.String() + "\n" + c.Text, nil
}

// ProveConsistency returns the proof that the log of an older checkpoint is a prefix of this one.
// Its parts are a first line, the older checkpoint, the hashes of RFC 6962's consistency proof, and
// a new checkpoint, separated by empty lines.
func (l *Log) ProveConsistency(ctx context.Context, older string) (string, error) {
	old, err := ParseCheckpoint(older, l.signer.Public())
	if err != nil {
		return "", err
	}
	c, err := l.Checkpoint(ctx)
	if err != nil {
		return "", err
	}
	if old.Size > c.Size {
		return "", tool.Errorf(tool.Conflict,
			"the checkpoint has %d leaves, this record only %d: it was truncated, or an older copy was put back",
			old.Size, c.Size)
	}
	var p tlog.TreeProof
	if old.Size > 0 {
		err = l.store.View(ctx, func(v View) (err error) { p, err = tlog.ProveTree(c.Size, old.Size, v); return err })
		if err != nil {
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

// CheckProof checks the output of Prove, with only the log's public key, and returns the proved
// statements.
func CheckProof(text, public string) ([]Proved, error) {
	if len(text) > proofBytes {
		return nil, tool.Errorf(tool.Invalid, "the proof is larger than %d bytes", proofBytes)
	}
	parts := strings.Split(text, "\n"+proofHeader+"\n")
	var out []Proved
	for i, part := range parts {
		if i > 0 {
			part = proofHeader + "\n" + part
		}
		p, err := checkOne(strings.TrimRight(part, "\n")+"\n", public)
		if err != nil {
			return nil, err
		}
		out = append(out, *p)
	}
	return out, nil
}

func checkOne(text, public string) (*Proved, error) {
	head, checkpoint, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 3 || lines[0] != proofHeader {
		return nil, tool.Errorf(tool.Invalid, "the file is not a proof: it begins with %q", proofHeader)
	}
	extra, isExtra := strings.CutPrefix(lines[1], "extra ")
	leaf, err := base64.StdEncoding.DecodeString(extra)
	if !isExtra || err != nil {
		return nil, tool.Errorf(tool.Invalid, "the proof's second line is not the leaf")
	}
	index, isIndex := strings.CutPrefix(lines[2], "index ")
	seq, err := strconv.ParseInt(index, 10, 64)
	if !isIndex || err != nil || seq < 0 || formatInt(seq) != index {
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
	return &Proved{seq, leaf, c}, nil
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

// IsConsistencyProof reports whether text has the first line of ProveConsistency's output.
func IsConsistencyProof(text string) bool { return strings.HasPrefix(text, consistencyHeader+"\n") }

// CheckConsistency checks the output of ProveConsistency, with only the log's public key, and
// returns both checkpoints.
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
