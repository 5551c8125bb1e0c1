package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A forged is a Store with a log as left by an attacker who can write to the database.
type forged struct {
	audit.Store
	leaves      []audit.Leaf
	checkpoints []string
	kept        map[string]string
	sealed      *proof.Head
	unsealed    error
}

func (f *forged) View(ctx context.Context, see func(audit.View) error) error {
	return f.Store.View(ctx, func(v audit.View) error { return see(forgedView{v, f}) })
}

func (f *forged) ViewWhole(ctx context.Context, _ interface{ PauseWork(context.Context) },
	see func(audit.View) error) error {
	return f.View(ctx, see)
}

type forgedView struct {
	audit.View
	f *forged
}

func (v forgedView) Leaves(from int64, f func(audit.Leaf) error) error {
	for _, l := range v.f.leaves {
		if l.Seq < from {
			continue
		}
		if err := f(l); err != nil {
			return err
		}
	}
	return nil
}

func (v forgedView) Checkpoints(f func(string) error) error {
	for _, c := range v.f.checkpoints {
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

func (v forgedView) SealedHead() (*proof.Head, error) { return v.f.sealed, v.f.unsealed }

func (v forgedView) AllKept(f func(string, []byte, error) error) error {
	for d, data := range v.f.kept {
		if err := f(d, []byte(data), nil); err != nil {
			return err
		}
	}
	return nil
}

// A badLog is a log that tests tamper with.
type badLog struct {
	*forged
	signer *proof.Signer
	log    *audit.Log // reads the forged log
}

// newLog returns a log of calls, with and without an end, and events, with checkpoints at the given
// sizes.
func newLog(t interface {
	Helper()
	Fatalf(string, ...any)
}, leaves int, checkpoints ...int) *badLog {
	t.Helper()
	signer, err := proof.NewSigner("example.com/log", bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatalf("proof.NewSigner: %v", err)
	}
	ctx := context.Background()
	memory := audittest.NewMemory()
	l := audit.New(audit.Config{Store: memory, Signer: signer, Clock: steps()})
	c := &badLog{forged: &forged{Store: memory, kept: map[string]string{}}, signer: signer}
	var last *audit.Entry
	for n := 0; n <= leaves; n++ {
		if slices.Contains(checkpoints, n) {
			p, err := l.Checkpoint(ctx)
			if err != nil {
				t.Fatalf("Checkpoint: %v", err)
			}
			c.checkpoints = append(c.checkpoints, p.Text)
		}
		switch {
		case n == leaves:
		case last != nil && n%3 == 1:
			err = last.End(ctx, tool.Text(false, "fine"), nil)
			last = nil
		case n%5 == 4:
			_, err = l.Event(ctx, audit.Event{Kind: audit.KindRead})
		default:
			last, err = l.Begin(ctx, &tool.Call{Path: "crm.update", Arguments: fmt.Appendf(nil, `{"n":%d}`, n)}, allow)
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
	}
	err = memory.View(ctx, func(v audit.View) error {
		err := v.Leaves(0, func(l audit.Leaf) error {
			c.leaves = append(c.leaves,
				audit.Leaf{Seq: l.Seq, Data: bytes.Clone(l.Data), Hashes: slices.Clone(l.Hashes)})
			return nil
		})
		if err != nil {
			return err
		}
		if c.sealed, err = v.SealedHead(); err != nil {
			return err
		}
		return v.AllKept(func(d string, data []byte, _ error) error { c.kept[d] = string(data); return nil })
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	c.log = audit.New(audit.Config{Store: c.forged, Signer: signer})
	return c
}

// sign signs a head of the first size leaves as they are now.
func (c *badLog) sign(t *testing.T, size int64) string {
	t.Helper()
	var all []tlog.Hash
	for _, l := range c.leaves {
		all = append(all, l.Hashes...)
	}
	root, err := tlog.TreeHash(size, tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, all[i])
		}
		return out, nil
	}))
	if err != nil {
		t.Fatalf("tlog.TreeHash: %v", err)
	}
	text, err := c.signer.SignHead(proof.Head{Size: size, Root: root})
	if err != nil {
		t.Fatalf("SignHead: %v", err)
	}
	return text
}

// verify returns the report. Kept data is left out, because its key is another one here.
func (c *badLog) verify(outside ...string) *audit.Report {
	c.kept = nil
	r, err := c.log.Verify(context.Background(), outside...)
	if err != nil {
		panic(err)
	}
	return r
}

// change changes the bytes of a leaf.
func (c *badLog) change(n int) {
	c.leaves[n].Data = bytes.Replace(c.leaves[n].Data, []byte(".000000Z"), []byte(".000001Z"), 1)
}

// renumber sets the index of each row to its position.
func (c *badLog) renumber() {
	for i := range c.leaves {
		c.leaves[i].Seq = int64(i)
	}
}

// rehash recomputes all stored hashes from the leaves, and rewrites the leaves' own indexes, as an
// attacker who knows the format would.
func (c *badLog) rehash() {
	var all []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, all[i])
		}
		return out, nil
	})
	for i := range c.leaves {
		l := &c.leaves[i]
		l.Data = ownIndex.ReplaceAll(l.Data, fmt.Appendf(nil, `"seq":%d,`, i))
		l.Seq = int64(i)
		var err error
		if l.Hashes, err = tlog.StoredHashes(l.Seq, l.Data, read); err != nil {
			panic(err)
		}
		all = append(all, l.Hashes...)
	}
}

var anID = regexp.MustCompile(`"record":"[^"]*"`)

var ownIndex = regexp.MustCompile(`"seq":\d+,`)

// reseq replaces the index in a leaf.
func reseq(data []byte, from, to int64) []byte {
	return bytes.Replace(data, fmt.Appendf(nil, `"seq":%d,`, from), fmt.Appendf(nil, `"seq":%d,`, to), 1)
}

// fake returns a leaf like another one, with index n.
func (c *badLog) fake(like, n int) audit.Leaf {
	data := bytes.Replace(reseq(c.leaves[like].Data, c.leaves[like].Seq, int64(n)), []byte("crm.update"),
		[]byte("crm.forged"), 1)
	return audit.Leaf{Seq: int64(n), Data: data, Hashes: []tlog.Hash{tlog.RecordHash(data)}}
}

func (c *badLog) swapRows(i, j int) {
	a, b := &c.leaves[i], &c.leaves[j]
	*a, *b = *b, *a
	a.Seq, b.Seq = b.Seq, a.Seq
}

func (c *badLog) swapTexts(i, j int) {
	c.leaves[i].Data, c.leaves[j].Data = c.leaves[j].Data, c.leaves[i].Data
}

// TestTampering changes a log of 23 leaves, signed at 8, 16 and 21, in every way that a row can be
// changed. Each change is reported.
func TestTampering(t *testing.T) {
	if r := newLog(t, 23, 8, 16, 21).verify(); !r.OK() || r.Checkpoints != 3 || r.Covered != 21 || r.Size != 23 {
		t.Fatalf("a log that nobody touched: %+v", r)
	}
	for _, tt := range []struct {
		name string
		do   func(c *badLog)
		want string // the faults: kind, first, last
	}{
		{"change the first", func(c *badLog) { c.change(0) }, "changed 0-0"},
		{"change an even one", func(c *badLog) { c.change(12) }, "changed 12-12"},
		{"change an odd one", func(c *badLog) { c.change(13) }, "changed 13-13"},
		{"change two neighbors", func(c *badLog) { c.change(12); c.change(13) }, "changed 12-12, changed 13-13"},
		{"change the last signed", func(c *badLog) { c.change(20) }, "changed 20-20"},
		{"change the last", func(c *badLog) { c.change(22) }, "changed 22-22"},
		{"change one with its own hash", func(c *badLog) {
			c.change(12)
			c.leaves[12].Hashes[0] = tlog.RecordHash(c.leaves[12].Data)
		}, "changed 12-13"},
		{"change the hash of one", func(c *badLog) { c.leaves[12].Hashes[0][3]++ }, "hash 12-12"},
		{"change the hash of an odd one", func(c *badLog) { c.leaves[13].Hashes[0][3]++ }, "hash 13-13"},
		{"change the hash of the last signed", func(c *badLog) { c.leaves[20].Hashes[0][3]++ }, "hash 20-20"},
		{"change a hash of two", func(c *badLog) { c.leaves[13].Hashes[1][3]++ }, "hash 12-13"},
		{"change a hash of eight", func(c *badLog) { c.leaves[7].Hashes[3][3]++ }, "hash 0-7"},
		{"take a stored hash away", func(c *badLog) { c.leaves[13].Hashes = c.leaves[13].Hashes[:1] }, "hash 13-13"},
		{"take all stored hashes of one away", func(c *badLog) { c.leaves[13].Hashes = nil }, "hash 13-13"},
		{"remove the first", func(c *badLog) { c.leaves = c.leaves[1:] }, "missing 0-0"},
		{"remove one", func(c *badLog) { c.leaves = slices.Delete(c.leaves, 10, 11) }, "missing 10-10"},
		{"remove some", func(c *badLog) { c.leaves = slices.Delete(c.leaves, 10, 14) }, "missing 10-13"},
		{"remove two in two places", func(c *badLog) {
			c.leaves = slices.Delete(slices.Delete(c.leaves, 15, 16), 4, 5)
		}, "missing 4-4, missing 15-15"},
		{"remove the last signed ones", func(c *badLog) { c.leaves = c.leaves[:19] }, "truncated 19-22"},
		{"remove all", func(c *badLog) { c.leaves = nil }, "truncated 0-22"},
		{"remove one and renumber", func(c *badLog) {
			c.leaves = slices.Delete(c.leaves, 10, 11)
			c.renumber()
		}, "missing 10-10"},
		{"remove two and renumber", func(c *badLog) {
			c.leaves = slices.Delete(c.leaves, 10, 12)
			c.renumber()
		}, "missing 10-11"},
		{"put one in and renumber", func(c *badLog) {
			c.leaves = slices.Insert(c.leaves, 10, c.fake(9, 10))
			c.renumber()
		}, "inserted 10-10"},
		{"put in one of another place", func(c *badLog) {
			c.leaves = slices.Insert(c.leaves, 10, c.fake(9, 99))
			c.renumber()
		}, "inserted 10-10"},
		{"put one in before the first", func(c *badLog) {
			c.leaves = slices.Insert(c.leaves, 0, c.fake(0, -1))
		}, "inserted -1--1"},
		{"swap two rows", func(c *badLog) { c.swapRows(3, 12) }, "moved 3-12"},
		{"swap two rows beside each other", func(c *badLog) { c.swapRows(12, 13) }, "moved 12-13"},
		{"swap two rows far apart", func(c *badLog) { c.swapRows(0, 19) }, "moved 0-19"},
		{"swap two texts", func(c *badLog) { c.swapTexts(3, 12) }, "moved 3-12"},
		{"swap two texts beside each other", func(c *badLog) { c.swapTexts(12, 13) }, "moved 12-13"},
		{"change one and all hashes", func(c *badLog) { c.change(10); c.rehash() }, "fork 8-15"},
		{"remove one and all traces", func(c *badLog) {
			c.leaves = slices.Delete(c.leaves, 14, 15)
			c.rehash()
		}, "fork 8-15"},
		{"put one in and all hashes", func(c *badLog) {
			c.leaves = slices.Insert(c.leaves, 18, c.fake(9, 18))
			c.rehash()
		}, "fork 16-20"},
		{"swap two and all hashes", func(c *badLog) { c.swapTexts(17, 20); c.rehash() }, "fork 16-20"},
		{"write another index into one, with its hash", func(c *badLog) {
			l := &c.leaves[11]
			l.Data = reseq(l.Data, 11, 77)
			l.Hashes[0] = tlog.RecordHash(l.Data)
		}, "moved 11-11"},
		{"no JSON, with all hashes", func(c *badLog) {
			c.leaves[22].Data = []byte(`nothing`)
			c.rehash()
		}, "form 22-22, fork 21-22"},
		{"another member, with all hashes", func(c *badLog) {
			c.leaves[22].Data = bytes.Replace(c.leaves[22].Data, []byte(`"v":1`), []byte(`"v":1,"w":1`), 1)
			c.rehash()
		}, "form 22-22, fork 21-22"},
		{"other white space, with all hashes", func(c *badLog) {
			c.leaves[22].Data = bytes.Replace(c.leaves[22].Data, []byte(`"v":1`), []byte(`"v": 1`), 1)
			c.rehash()
		}, "form 22-22, fork 21-22"},
		{"a checkpoint changed", func(c *badLog) {
			c.checkpoints[1] = strings.Replace(c.checkpoints[1], "16", "15", 1)
		}, "checkpoint -1--1"},
		{"a checkpoint of another key", func(c *badLog) {
			other, _ := proof.NewSigner("example.com/log", bytes.Repeat([]byte{8}, 32))
			l := audit.New(audit.Config{Store: audittest.NewMemory(), Signer: other})
			p, _ := l.Checkpoint(context.Background())
			c.checkpoints[1] = p.Text
		}, "checkpoint -1--1"},
		{"checkpoints in another order", func(c *badLog) {
			c.checkpoints[0], c.checkpoints[2] = c.checkpoints[2], c.checkpoints[0]
		}, "checkpoint -1--1, checkpoint -1--1"},
		{"remove the last", func(c *badLog) { c.leaves = c.leaves[:22] }, "truncated 22-22"},
		{"change the last and its hashes", func(c *badLog) { c.change(22); c.rehash() }, "fork 21-22"},
		{"change one and all hashes, and take the checkpoints away", func(c *badLog) {
			c.change(10)
			c.rehash()
			c.checkpoints = nil
		}, "fork 0-22"},
		{"go back to a checkpoint, and take the others away", func(c *badLog) {
			c.leaves, c.checkpoints = c.leaves[:16], c.checkpoints[:2]
		}, "truncated 16-22"},
		{"add one", func(c *badLog) { c.leaves = append(c.leaves, c.fake(9, 23)); c.rehash() }, "forged 23-23"},
		{"add two", func(c *badLog) {
			c.leaves = append(c.leaves, c.fake(9, 23), c.fake(10, 24))
			c.rehash()
		}, "forged 23-24"},
		{"take the seal away", func(c *badLog) {
			c.sealed, c.unsealed = nil, errors.New("it was taken away")
		}, "seal -1--1"},
		{"an id of another time, with all hashes and a seal", func(c *badLog) {
			c.leaves[18].Data = anID.ReplaceAll(c.leaves[18].Data,
				fmt.Appendf(nil, `"record":"%s"`, audit.FirstID(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))))
			c.rehash()
			c.checkpoints, c.sealed = nil, nil
		}, "form 18-18"},
		{"an id that is none, with all hashes and a seal", func(c *badLog) {
			c.leaves[18].Data = anID.ReplaceAll(c.leaves[18].Data, []byte(`"record":"zzz"`))
			c.rehash()
			c.checkpoints, c.sealed = nil, nil
		}, "form 18-18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newLog(t, 23, 8, 16, 21)
			tt.do(c)
			r := c.verify()
			var got []string
			for _, f := range r.Faults {
				if f.What != "pair" { // a consequence of a removed leaf
					got = append(got, fmt.Sprintf("%s %d-%d", f.What, f.Seq, f.Last))
				}
				if f.Seq >= 0 && f.Seq == f.Last && !strings.Contains(f.Msg, fmt.Sprint(f.Seq)) {
					t.Errorf("%q does not name leaf %d", f.Msg, f.Seq)
				}
				t.Log(f.Msg)
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
}

// External checkpoints reveal what stored ones can't: that the store was replaced by an older copy,
// or completely rewritten.
func TestOutsideCheckpoints(t *testing.T) {
	newLog := func(t *testing.T, leaves int, checkpoints ...int) *badLog {
		c := newLog(t, leaves, checkpoints...)
		c.sealed = nil // a replaced store has its own seal
		return c
	}
	c := newLog(t, 23, 8, 21)
	old, recent := c.checkpoints[0], c.checkpoints[1]
	if r := c.verify(old, recent); !r.OK() || !r.Outside[0].OK || !r.Outside[1].OK || r.Outside[1].Size != 21 {
		t.Fatalf("r = %+v, want r.OK() && r.Outside[0].OK && r.Outside[1].OK && r.Outside[1].Size == 21", r)
	}
	c.checkpoints, c.leaves = c.checkpoints[:1], c.leaves[:12]
	if r := c.verify(); !r.OK() {
		t.Errorf("the store alone can't know: %+v", r)
	}
	r := c.verify(old, recent)
	if len(r.Faults) != 1 || r.Faults[0].What != "truncated" || !r.Outside[0].OK || r.Outside[1].OK {
		t.Errorf("an older copy: %+v", r)
	}

	// An older copy, of 8 leaves, that continued on its own: its own checkpoint says nothing about
	// earlier leaves.
	c = newLog(t, 23, 8, 16, 21)
	old, recent = c.checkpoints[0], c.checkpoints[2]
	c.change(10)
	c.rehash()
	c.checkpoints = []string{old, c.sign(t, 16)}
	if r := c.verify(old, recent); len(r.Faults) != 1 || r.Faults[0].What != "fork" || r.Faults[0].Seq != 8 ||
		r.Faults[0].Last != 20 {
		t.Errorf("another history: %+v", r)
	}

	c = newLog(t, 23, 8, 21)
	old, c.checkpoints = c.checkpoints[0], nil
	c.change(3)
	c.rehash()
	if r := c.verify(); !r.OK() {
		t.Errorf("the store alone can't know: %+v", r)
	}
	if r := c.verify(old); len(r.Faults) != 1 || r.Faults[0].What != "fork" || r.Faults[0].Seq != 0 ||
		r.Faults[0].Last != 7 || r.Outside[0].OK {
		t.Errorf("written anew: %+v", r)
	}
	if r := c.verify("nothing"); len(r.Faults) != 1 || r.Faults[0].What != "checkpoint" {
		t.Errorf("no checkpoint: %+v", r)
	}
}

// Any change to a row of a log is found, and its leaf is among those reported.
func TestTamperingProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 70).Draw(t, "size")
		var signed []int
		for range rapid.IntRange(0, 3).Draw(t, "checkpoints") {
			signed = append(signed, rapid.IntRange(0, size).Draw(t, "at"))
		}
		slices.Sort(signed)
		c := newLog(t, size, signed...)
		if r := c.verify(); !r.OK() {
			t.Fatalf("untouched: %+v", r)
		}
		n := rapid.IntRange(0, size-1).Draw(t, "leaf")
		inner := rapid.IntRange(0, size-2).Draw(t, "inner") // not the last one
		var at int
		switch rapid.SampledFrom([]string{"change", "hash", "remove", "renumber", "insert", "swap", "texts"}).Draw(t,
			"how") {
		case "change":
			at = n
			c.change(n)
		case "hash":
			at = n
			h := c.leaves[n].Hashes
			h[rapid.IntRange(0, len(h)-1).Draw(t, "level")][0]++
		case "remove":
			at = n
			c.leaves = slices.Delete(c.leaves, n, n+1)
		case "renumber":
			at = inner
			c.leaves = slices.Delete(c.leaves, inner, inner+1)
			c.renumber()
		case "insert":
			at = inner
			c.leaves = slices.Insert(c.leaves, inner, c.fake(inner, inner))
			c.renumber()
		case "swap", "texts":
			at = n
			other := rapid.IntRange(0, size-1).Filter(func(i int) bool { return i != n }).Draw(t, "other")
			if rapid.Bool().Draw(t, "row") {
				c.swapRows(n, other)
			} else {
				c.swapTexts(n, other)
			}
		}
		r := c.verify()
		if !slices.ContainsFunc(r.Faults, func(f audit.Fault) bool {
			return f.Seq <= int64(at) && int64(at) <= f.Last
		}) {
			t.Fatalf("leaf %d is not named: %+v", at, r.Faults)
		}
	})
}
