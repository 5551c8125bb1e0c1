package audit_test

// This is a second implementation of the record's verification: its trees, checkpoints and proofs.
// It shares no code with package audit or golang.org/x/mod. It follows RFC 6962 and RFC 9162
// (section 2.1), and C2SP's signed-note, tlog-checkpoint and tlog-proof.

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
)

type sum = [32]byte

func leafSum(b []byte) sum { return sha256.Sum256(append([]byte{0}, b...)) }

func innerSum(l, r sum) sum { return sha256.Sum256(slices.Concat([]byte{1}, l[:], r[:])) }

// treeSum computes MTH of RFC 6962, section 2.1.
func treeSum(leaves [][]byte) sum {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leafSum(leaves[0])
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		return innerSum(treeSum(leaves[:k]), treeSum(leaves[k:]))
	}
}

// included implements the algorithm of RFC 9162, section 2.1.3.2.
func included(leaf sum, index, size uint64, path []sum, root sum) bool {
	if index >= size {
		return false
	}
	fn, sn, r := index, size-1, leaf
	for _, p := range path {
		if sn == 0 {
			return false
		}
		if fn&1 == 1 || fn == sn {
			r = innerSum(p, r)
			for fn&1 == 0 && fn != 0 {
				fn >>= 1
				sn >>= 1
			}
		} else {
			r = innerSum(r, p)
		}
		fn >>= 1
		sn >>= 1
	}
	return sn == 0 && r == root
}

// extends implements the algorithm of RFC 9162, section 2.1.4.2.
func extends(first, second uint64, path []sum, firstRoot, secondRoot sum) bool {
	switch {
	case first > second || first == 0:
		return false
	case first == second:
		return len(path) == 0 && firstRoot == secondRoot
	}
	if first&(first-1) == 0 {
		path = append([]sum{firstRoot}, path...)
	}
	if len(path) == 0 {
		return false
	}
	fn, sn := first-1, second-1
	for fn&1 == 1 {
		fn >>= 1
		sn >>= 1
	}
	fr, sr := path[0], path[0]
	for _, c := range path[1:] {
		if sn == 0 {
			return false
		}
		if fn&1 == 1 || fn == sn {
			fr, sr = innerSum(c, fr), innerSum(c, sr)
			for fn&1 == 0 && fn != 0 {
				fn >>= 1
				sn >>= 1
			}
		} else {
			sr = innerSum(sr, c)
		}
		fn >>= 1
		sn >>= 1
	}
	return sn == 0 && fr == firstRoot && sr == secondRoot
}

// A signedHead is a checkpoint with a valid signature.
type signedHead struct {
	origin string
	size   uint64
	root   sum
}

// openHead checks a checkpoint with a verifier key, name+hash+key.
func openHead(text, vkey string) (*signedHead, error) {
	part := strings.SplitN(vkey, "+", 3)
	if len(part) != 3 {
		return nil, fmt.Errorf("no key")
	}
	key, err := base64.StdEncoding.DecodeString(part[2])
	if err != nil || len(key) != 33 || key[0] != 1 {
		return nil, fmt.Errorf("no Ed25519 key")
	}
	id := sha256.Sum256(append([]byte(part[0]+"\n"), key...))
	if hex.EncodeToString(id[:4]) != part[1] {
		return nil, fmt.Errorf("the key has another hash")
	}
	i := strings.LastIndex(text, "\n\n")
	if i < 0 || !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("no note")
	}
	body, signed := text[:i+1], false
	for line := range strings.Lines(text[i+2:]) {
		name, sig, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "— "), " ")
		if !ok || !strings.HasPrefix(line, "— ") {
			return nil, fmt.Errorf("no signature: %q", line)
		}
		raw, err := base64.StdEncoding.DecodeString(sig)
		if err != nil || len(raw) < 5 {
			return nil, fmt.Errorf("no signature: %q", line)
		}
		if name == part[0] && bytes.Equal(raw[:4], id[:4]) {
			if !ed25519.Verify(key[1:], []byte(body), raw[4:]) {
				return nil, fmt.Errorf("a bad signature")
			}
			signed = true
		}
	}
	lines := strings.Split(body, "\n")
	if !signed || len(lines) < 4 {
		return nil, fmt.Errorf("not signed, or no checkpoint")
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	root, err2 := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || err2 != nil || len(root) != 32 {
		return nil, fmt.Errorf("no checkpoint")
	}
	return &signedHead{lines[0], size, sum(root)}, nil
}

func sums(lines []string) (out []sum, err error) {
	for _, l := range lines {
		b, err := base64.StdEncoding.DecodeString(l)
		if err != nil || len(b) != 32 {
			return nil, fmt.Errorf("no hash: %q", l)
		}
		out = append(out, sum(b))
	}
	return out, nil
}

// openProof checks a tlog-proof, and returns the leaf in its extra line.
func openProof(text, vkey string) (leaf []byte, index uint64, err error) {
	head, note, ok := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" || !strings.HasPrefix(lines[1], "extra ") ||
		!strings.HasPrefix(lines[2], "index ") {
		return nil, 0, fmt.Errorf("no proof")
	}
	if leaf, err = base64.StdEncoding.DecodeString(lines[1][len("extra "):]); err != nil {
		return nil, 0, err
	}
	if index, err = strconv.ParseUint(lines[2][len("index "):], 10, 63); err != nil {
		return nil, 0, err
	}
	path, err := sums(lines[3:])
	if err != nil {
		return nil, 0, err
	}
	h, err := openHead(note, vkey)
	if err != nil {
		return nil, 0, err
	}
	if !included(leafSum(leaf), index, h.size, path, h.root) {
		return nil, 0, fmt.Errorf("not included")
	}
	return leaf, index, nil
}

func splitProofs(text string) (out []string) {
	for part := range strings.SplitSeq(text, "\nc2sp.org/tlog-proof@v1\n") {
		if len(out) > 0 {
			part = "c2sp.org/tlog-proof@v1\n" + part
		}
		out = append(out, part)
	}
	return out
}

// TestIndependent checks the output of package audit with the second implementation.
func TestIndependent(t *testing.T) {
	ctx := t.Context()
	for _, size := range []int{1, 2, 3, 7, 8, 9, 23, 64, 65} {
		c := newLog(t, size, 0, 1, size/2, size)
		l := audit.New(audit.Config{Store: c.Store, Signer: c.signer})
		var leaves [][]byte
		for i, leaf := range c.leaves {
			if !bytes.Contains(leaf.Data, fmt.Appendf(nil, `"seq":%d,`, i)) {
				t.Errorf("leaf %d doesn't say its index: %s", i, leaf.Data)
			}
			leaves = append(leaves, leaf.Data)
		}
		for _, text := range c.checkpoints {
			h, err := openHead(text, l.Public())
			if err != nil || h.origin != "example.com/log" || h.root != treeSum(leaves[:h.size]) {
				t.Fatalf("checkpoint %s: %+v, %v", text, h, err)
			}
			if h.size == 0 {
				continue
			}
			checkConsistency(t, l, text, h, leaves)
		}
		records, err := l.Records(ctx, audit.Query{Limit: 1000})
		if err != nil {
			t.Fatalf("Records: %v", err)
		}
		for _, r := range records {
			text, err := l.Prove(ctx, r.ID, "")
			if err != nil {
				t.Fatalf("Prove: %v", err)
			}
			parts := splitProofs(text)
			if want := map[bool]int{true: 2, false: 1}[r.Kind == audit.KindCall &&
				r.End.Outcome != audit.Unfinished]; len(parts) != want {
				t.Fatalf("%d proofs of %+v", len(parts), r)
			}
			for i, p := range parts {
				leaf, index, err := openProof(p, l.Public())
				if err != nil || !bytes.Equal(leaf, leaves[index]) || i == 0 && index != uint64(r.Seq) ||
					i == 1 && index != uint64(r.End.Seq) {
					t.Fatalf("%s: %s at %d, %v", p, leaf, index, err)
				}
			}
			proved, err := proof.CheckInclusion(text, l.Public())
			if err != nil || len(proved) != len(parts) || proved[0].Seq != r.Seq ||
				!bytes.Equal(proved[0].Leaf, leaves[r.Seq]) {
				t.Fatalf("proved = %+v, err = %v", proved, err)
			}
		}
	}
}

func checkConsistency(t *testing.T, l *audit.Log, older string, h *signedHead, leaves [][]byte) {
	t.Helper()
	text, err := l.ProveConsistency(t.Context(), older)
	if err != nil {
		t.Fatalf("ProveConsistency: %v", err)
	}
	body, ok := strings.CutPrefix(text, "biplane/tlog-consistency@v1\n\n"+older+"\n")
	if !ok {
		t.Fatalf("a proof of consistency without the older checkpoint: %s", text)
	}
	hashes, note, ok := strings.Cut(body, "\n\n")
	if strings.HasPrefix(body, "\n") {
		hashes, note, ok = "", body[1:], true
	}
	newer, err := openHead(note, l.Public())
	if err != nil || !ok {
		t.Fatalf("err = %v, text = %s, want err == nil && ok", err, text)
	}
	var path []sum
	if hashes != "" {
		if path, err = sums(strings.Split(hashes, "\n")); err != nil {
			t.Fatalf("sums: %v", err)
		}
	}
	if newer.size != uint64(len(leaves)) || !extends(h.size, newer.size, path, h.root, newer.root) {
		t.Fatalf("from %d to %d: does not hold:\n%s", h.size, newer.size, text)
	}
	a, b, err := proof.CheckConsistency(text, l.Public())
	if err != nil || a.Text != older || b.Text != note || a.Size != int64(h.size) {
		t.Fatalf("a = %+v, b = %+v, err = %v, want err == nil && a.Text == older && b.Text == note && "+
			"a.Size == int64(h.size)", a, b, err)
	}
}

// The bytes of a leaf are canonical: members sorted by name, without white space, each once.
func TestLeavesAreCanonical(t *testing.T) {
	for _, l := range newLog(t, 23).leaves {
		var v map[string]any
		if err := json.Unmarshal(l.Data, &v); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		out, err := json.Marshal(v) // sorted; nothing in these leaves is escaped differently
		if err != nil || !bytes.Equal(out, l.Data) {
			t.Errorf("leaf %d: %s, want %s", l.Seq, l.Data, out)
		}
	}
}

// A proof with any change is invalid for both implementations, or still proves the same leaf at the
// same index.
func TestProofProperty(t *testing.T) {
	c := newLog(t, 45, 20)
	l := audit.New(audit.Config{Store: c.Store, Signer: c.signer})
	records, err := l.Records(t.Context(), audit.Query{Limit: 1000})
	if err != nil {
		t.Fatalf("Records: %v", err)
	}
	at := ""
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(records).Draw(t, "record")
		if at = ""; r.Seq < 20 && rapid.Bool().Draw(t, "at an earlier checkpoint") {
			at = c.checkpoints[0]
		}
		text, err := l.Prove(t.Context(), r.ID, at)
		if err != nil {
			t.Fatalf("Prove: %v", err)
		}
		text = splitProofs(text)[0]
		b := []byte(text)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "byte")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			b[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			b = slices.Delete(b, i, i+1)
		case 2:
			b = slices.Insert(b, i, rapid.Byte().Draw(t, "more"))
		case 3:
			b = b[:i]
		}
		ours, err1 := proof.CheckInclusion(string(b), l.Public())
		leaf, index, err2 := openProof(string(b), l.Public())
		if err1 == nil && (ours[0].Seq != r.Seq || !bytes.Equal(ours[0].Leaf, c.leaves[r.Seq].Data)) {
			t.Fatalf("proves another leaf: %s", b)
		}
		if err2 == nil && (index != uint64(r.Seq) || !bytes.Equal(leaf, c.leaves[r.Seq].Data)) {
			t.Fatalf("the second one proves another leaf: %s", b)
		}
	})
}

func FuzzCheckProof(f *testing.F) {
	c := newLog(f, 5, 3)
	l := audit.New(audit.Config{Store: c.Store, Signer: c.signer})
	records, err := l.Records(f.Context(), audit.Query{})
	if err != nil {
		f.Fatalf("Records: %v", err)
	}
	text, err := l.Prove(f.Context(), records[0].ID, "")
	if err != nil {
		f.Fatalf("Prove: %v", err)
	}
	f.Add(text)
	f.Add(c.checkpoints[0])
	both, err := l.ProveConsistency(f.Context(), c.checkpoints[0])
	if err != nil {
		f.Fatalf("ProveConsistency: %v", err)
	}
	f.Add(both)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := proof.CheckInclusion(text, l.Public()); err == nil && len(p) == 0 {
			t.Fatal("proves nothing")
		}
		proof.CheckConsistency(text, l.Public())
		proof.ParseCheckpoint(text, l.Public())
		proof.ParseCheckpoint(c.checkpoints[0], text)
	})
}
