package wasm

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestLess subtracts runs of pages from runs of pages.
func TestLess(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		set := func(name string) []uint32 {
			pages := rapid.SliceOfDistinct(rapid.Uint32Range(0, 40), rapid.ID[uint32]).Draw(rt, name)
			slices.Sort(pages)
			return pages
		}
		a, b := set("runs"), set("minus")
		var want []uint32
		for _, p := range a {
			if !slices.Contains(b, p) {
				want = append(want, p)
			}
		}
		var got []uint32
		for _, r := range less(runsOf(a), runsOf(b)) {
			for p := r.first; p < r.first+r.n; p++ {
				got = append(got, p)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("%v, want %v", got, want)
		}
	})
}

// TestPoolPages checks that the pages of the regions in the pool are counted and stay below the
// maximum.
func TestPoolPages(t *testing.T) {
	d := realDriver(t, Config{})
	for round := range 3 {
		var all []kept
		for i := range 24 {
			k := newKept(t, d, sandbox.Spec{})
			k.say(program(fmt.Sprintf(`(() => { globalThis.a = Array.from({ length: %d }, (_, i) => "text " + i); })`,
				4000*i)))
			all = append(all, k)
		}
		for _, k := range all {
			if err := k.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
		}
		d.pool.fills.Wait()
		for img, ready := range d.pool.ready {
			n := 0
			for _, r := range ready {
				n += int(pagesOf(r.own))
			}
			if n != d.pool.pages[img] || n > warmPages+mostKept || n < warmPages/4 {
				t.Errorf("round %d: %d pages are counted as %d", round, n, d.pool.pages[img])
			}
		}
	}
}

// TestRevokedAgain checks that a region whose guest's memory was revoked holds only the image for
// the next guest.
func TestRevokedAgain(t *testing.T) {
	d := realDriver(t, Config{Spare: 1})
	k := d.kinds[0]
	img, err := k.loadImage()
	if err != nil {
		t.Fatalf("loadImage: %v", err)
	}
	for range 3 {
		r, err := d.newRegion(img, defaultMemory)
		if err != nil {
			t.Fatalf("newRegion: %v", err)
		}
		if b := r.memory(); !slices.Equal(b, img.base) {
			t.Fatal("a region holds something else than the image")
		}
		if !r.grow(img.size + wasmPage) {
			t.Fatal("it can't grow")
		}
		b := r.memory()
		for at := 0; at < len(b); at += 7 * pageSize {
			b[at]++
		}
		if err := r.revoke(); err != nil {
			t.Fatalf("revoke: %v", err)
		}
		d.pool.returnRegion(img, r)
		d.pool.fills.Wait()
	}
}
