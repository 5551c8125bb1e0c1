package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
)

// A treeView is a View of the stored hashes of a tree.
type treeView struct {
	View
	hashes []tlog.Hash
}

func (v treeView) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, i := range indexes {
		if i < 0 || i >= int64(len(v.hashes)) {
			return nil, fmt.Errorf("no hash %d", i)
		}
		out = append(out, v.hashes[i])
	}
	return out, nil
}

// TestCover checks some leaves of trees of all sizes, after changing some of them. outside reports
// exactly those.
func TestCover(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var v treeView
	var all []Leaf
	for size := int64(1); size <= 150; size++ {
		data := fmt.Appendf(nil, "leaf %d", size-1)
		hashes, err := tlog.StoredHashes(size-1, data, v)
		if err != nil {
			t.Fatalf("tlog.StoredHashes: %v", err)
		}
		v.hashes, all = append(v.hashes, hashes...), append(all, Leaf{Seq: size - 1, Data: data, Hashes: hashes})
		root, err := tlog.TreeHash(size, v)
		if err != nil {
			t.Fatalf("tlog.TreeHash: %v", err)
		}
		for range 20 {
			share, changes := rnd.Float64(), rnd.IntN(3)
			var some []*Leaf
			for _, l := range all {
				if rnd.Float64() < share {
					some = append(some, &l)
				}
			}
			rnd.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			want := map[int64]bool{}
			for range min(changes, len(some)) {
				l := some[rnd.IntN(len(some))]
				l.Data = []byte("changed")
				want[l.Seq] = true
			}
			got := map[int64]bool{}
			if err := addOutside(v, proof.Head{Size: size, Root: root}, some, got); err != nil {
				t.Fatalf("addOutside: %v", err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%d of %d leaves: %v are outside, want %v", len(some), size, got, want)
			}
		}
	}
	twice := []*Leaf{{Seq: 3, Data: all[3].Data, Hashes: all[3].Hashes},
		{Seq: 3, Data: []byte("other"), Hashes: all[3].Hashes}}
	root, err := tlog.TreeHash(150, v)
	if err != nil {
		t.Fatalf("tlog.TreeHash: %v", err)
	}
	if ok, err := hasLeaves(v, proof.Head{Size: 150, Root: root}, twice); ok || err != nil {
		t.Errorf("a leaf with two contents is within the tree: %v", err)
	}
	changed := Leaf{Seq: 7, Data: all[7].Data, Hashes: append([]tlog.Hash{all[7].Hashes[0], {1}}, all[7].Hashes[2:]...)}
	var eight []*Leaf
	for i := range 7 {
		eight = append(eight, &all[i])
	}
	if ok, err := hasLeaves(v, proof.Head{Size: 150, Root: root}, append(eight, &changed)); ok || err != nil {
		t.Errorf("a changed hash of a subtree is not seen: %v", err)
	}
}
