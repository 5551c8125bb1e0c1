package wasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// TestDifferences writes pages as differences from an image, and applies them to that image.
func TestDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		base, memory := make([]byte, 50*pageSize), make([]byte, 60*pageSize) // memory has grown since the image
		fillLines(random, base)
		copy(memory, base)
		var pages []uint32
		for p := range uint32(60) {
			if random.IntN(3) > 0 {
				pages = append(pages, p)
				fillLines(random, memory[int(p)*pageSize:][:pageSize])
			}
		}
		img, runs := &image{base: base, size: len(base)}, runsOf(pages)
		var c codec
		var out bytes.Buffer
		if err := c.differences(memory, img)(&out, runs); err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		got := append(bytes.Clone(base), make([]byte, 10*pageSize)...)
		u := &unpacker{c: &c, r: &out}
		if err := errors.Join(u.differences(runs, got), u.end()); err != nil || !bytes.Equal(got, memory) {
			t.Fatalf("%d pages come back as others: %v", len(pages), err)
		}
	})
}

// fillLines changes some of the words of some lines of b.
func fillLines(random *rand.Rand, b []byte) {
	for at := 0; at < len(b); at += lineSize {
		if few := random.IntN(10); random.IntN(2) == 0 {
			for w := 0; w < lineSize; w += wordSize {
				if random.IntN(10) >= few {
					binary.LittleEndian.PutUint64(b[at+w:], random.Uint64()>>(8*random.IntN(9)))
				}
			}
		}
	}
}

// TestDifferencesRefused checks that a write error ends writing. Truncated or invalid differences
// are refused.
func TestDifferencesRefused(t *testing.T) {
	var c codec
	memory := bytes.Repeat([]byte{1}, 40*pageSize)
	img, runs := &image{}, []pageRun{{0, 40}}
	broken := errors.New("broken")
	for n := range 6 {
		if err := c.differences(memory, img)(&failing{left: n, err: broken}, runs); err != broken {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
	var out bytes.Buffer
	if err := c.differences(memory[:pageSize], img)(&out, nil); err != nil || out.Len() > 0 {
		t.Errorf("no pages are %d bytes, %v", out.Len(), err)
	}
	one := []pageRun{{0, 1}}
	if err := c.differences(memory, img)(&out, one); err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	whole := out.Bytes()
	for n := range len(whole) {
		u := &unpacker{c: &c, r: bytes.NewReader(whole[:n])}
		if err := u.differences(one, make([]byte, pageSize)); err == nil {
			t.Fatalf("%d of %d bytes are taken", n, len(whole))
		}
	}
	odd := make([]byte, 16)
	odd[8] = 1
	u := &unpacker{c: &c, r: bytes.NewReader(odd)}
	if err := u.differences(one, make([]byte, pageSize)); err == nil || !strings.Contains(err.Error(), "lines that don't exist") {
		t.Errorf("a whole line that is not marked as changed: %v, want an error", err)
	}
}

// A failing is a writer that fails with err after left writes.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// TestOldSnapshot restores a snapshot in the old format. The restored guest's next snapshot is in
// the current format.
func TestOldSnapshot(t *testing.T) {
	d := realDriver(t, Config{})
	k := newKept(t, d, sandbox.Spec{})
	k.say(program(`(() => { globalThis.a = Array.from({ length: 3000 }, (_, i) => "text " + i); })`))
	now := k.snapshot()
	old := oldSnapshot(t, k)
	if bytes.Equal(now[:len(stateMagic)], old[:len(oldStateMagic)]) || len(now) >= len(old) {
		t.Errorf("%d bytes, the old one %d", len(now), len(old))
	}
	r := restore(t, d, old)
	if again := r.snapshot(); !bytes.Equal(again, now) {
		t.Error("what was restored has another snapshot")
	}
	if got := r.say(program(`(() => a.length + a[2999])`)); !strings.Contains(got, "3000text 2999") {
		t.Errorf(`got = %v, want strings.Contains(got, "3000text 2999")`, got)
	}
	old[len(old)/2]++
	if _, err := d.Restore(t.Context(), sandbox.Spec{}, old); err == nil ||
		!strings.Contains(err.Error(), errDamaged.Error()) {
		t.Errorf("a damaged one: %v", err)
	}
}

// oldSnapshot returns a snapshot of k in the old format.
func oldSnapshot(t *testing.T, k kept) []byte {
	t.Helper()
	memory, le := k.region.memory(), binary.LittleEndian
	state, err := k.guest.engine.state()
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	fields := le.AppendUint32(le.AppendUint32(nil, uint32(len(memory)/wasmPage)),
		uint32(k.Sandbox.spec.Memory/wasmPage))
	fields = le.AppendUint32(le.AppendUint64(fields, uint64(k.guest.clock)), uint32(k.guest.readings))
	fields = append(le.AppendUint32(fields, uint32(len(state))), state...)
	b, err := k.d.codec.pack(head{oldStateMagic, "js", k.img.id},
		zstd.SpeedFastest, fields, runsOf(k.changedPages(k.img)), squeezed(func(b []byte, page uint32) {
			copy(b, memory[int(page)*pageSize:])
			for i, old := range k.img.at(page, len(b)) {
				b[i] ^= old
			}
		}))
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	return b
}

// FuzzDifferences reads arbitrary bytes as differences, which yields pages or an error.
func FuzzDifferences(f *testing.F) {
	var c codec
	var out bytes.Buffer
	memory := bytes.Repeat([]byte{1, 2, 0, 0, 0, 0, 0, 0, 0}, 20*pageSize/9+1)[:20*pageSize]
	runs := []pageRun{{0, 3}, {5, 15}}
	if err := c.differences(memory, &image{})(&out, runs); err != nil {
		f.Fatalf("err = %v, want nil", err)
	}
	f.Add(out.Bytes())
	f.Add(bytes.Repeat([]byte{0xff}, 20*pageSize))
	f.Add(make([]byte, 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := make([]byte, 20*pageSize)
		u := &unpacker{c: &c, r: bytes.NewReader(b)}
		if err := u.differences(runs, got); err == nil &&
			!bytes.Equal(got[3*pageSize:5*pageSize], make([]byte, 2*pageSize)) {
			t.Error("pages that it isn't about have changed")
		}
	})
}
