package record

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

const begun = `{"arguments":{"digest":"hmac-sha256:ed49319adb3ee16712ab3abb0faf954e39ef5ad435238e31d84b4b89fe4d3697",` +
	`"size":14},"call":"ex_oc5zwiq2cnpje7wopraz.1","client":"agent/1","effect":"allow","execution":` +
	`"ex_oc5zwiq2cnpje7wopraz","kind":"call","part":"begun","policy":"ask-for-writes.reads@6e92fb9331995336",` +
	`"principal":"local:ann","reason":"it is permitted","record":"06h0fzhtsr000001x7a8pyxkfw","seq":1222,` +
	`"time":"2026-11-23T10:40:31.438333Z","tool":"crm.find","upstream":"crm","v":1}`

const event = `{"client":"agent/1","detail":{"calls":"10","ms":"6","state":"done","tier":"wasm"},"execution":` +
	`"ex_oc5zwiq2cnpje7wopraz","kind":"execution","outcome":"ok","part":"event","principal":"local:ann",` +
	`"record":"06h1ttcj0m000000rx4cratvb0","seq":2001,"time":"2026-11-27T14:29:47.653248Z","v":1}`

func TestPackLeaf(t *testing.T) {
	if packed := packLeaf([]byte(event)); len(packed) > len(event)/3 || packed[0] != packedEvent {
		t.Errorf("packLeaf made %d bytes of an event of %d, want less than a third", len(packed), len(event))
	}
	if packed := packLeaf([]byte(begun)); packed == nil || len(packed) > len(begun)/2 {
		t.Errorf("packLeaf made %d bytes of %d, want less than half", len(packed), len(begun))
	}
	for _, data := range []string{"", "x", strings.Repeat("a", maxUnpacked+1)} {
		if packed := packLeaf([]byte(data)); packed != nil {
			t.Errorf("packLeaf made %d bytes of %d, want nil", len(packed), len(data))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{begun, begun[:100], `"reason":"`, "hmac-sha256:",
			"hmac-sha256:0123456789ABCDEF", strings.Repeat("0a", 32), strings.Repeat("0A", 32), "\x00\xff",
			`"record":"`, "06h0fzhtsr000001x7a8pyxkfw", "06h0fzhtsr000001x7a8pyxkfz", `"`, `"time":"`,
			"2026-11-23T10:40:31.438333Z", "1969-11-23T10:40:31.438333Z", "2026-11-23T10:40:31.4383330", "ex_",
			"oc5zwiq2cnpje7wopraz", "oc5zwiq2\npje7wopraz", "@", "0123456789abcdef", "\x06", "\x08",
			`{"begun":`, `,"v":1}`, `{"arguments":{"digest":"`, `","kind":"call","part":"begun","policy":"`,
			`","kind":"`, event, "\n", "\x1f"})
		data := []byte(strings.Join(rapid.SliceOfN(part, 1, 40).Draw(t, "parts"), ""))
		packed := packLeaf(data)
		if packed == nil {
			return
		}
		if got, err := UnpackLeaf(nil, packed); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("UnpackLeaf(packLeaf(%q)) = %q, %v, want the same leaf", data, got, err)
		}
	})
}

// TestOldPackedLeaf unpacks leaves of each form: dictionaries and folds must not change.
func TestOldPackedLeaf(t *testing.T) {
	for old, want := range map[string]string{
		"01b3031500117ced49319adb3ee16712ab3abb0faf954e39ef5ad435238e31d84b4b89fe4d3697197b366702" +
			"4c6f63357a77697132636e706a6537776f7072617a367b02186167656e742f318a82024e4c0000223e9d01b2" +
			"96023c3665393266623933333139393533333652a60204616ec932a6a5024473723030303030317837613870" +
			"79786b667755af0432324691014432335431303a34303a33312e3433383333335db21c63726d2e66696e6436" +
			"ba022863726d222c2276223a317d": begun,
		"03e5026239027ced49319adb3ee16712ab3abb0faf954e39ef5ad435238e31d84b4b89fe4d369719592e0e02" +
			"3470bb9b221a135e927ece7072617a360e02186167656e742f31820402364400510415004b08616e6e760302" +
			"3c01a207fe3ace00000001e9d48b7bb37f11002c3232322c030660ef3915b5fd55061c63726d2e66696e6441" +
			"0e1100183a2263726d2207": begun,
		"04a601f0400801ed49319adb3ee16712ab3abb0faf954e39ef5ad435238e31d84b4b89fe4d36970a31340b04" +
			"70bb9b221a135e927ece7072617a2e310c6167656e742f310d0e3a1b00920501c0616e6e110201a207fe3a" +
			"ce00000001e9d48b7bb37f12313232322c030660ef3915b5fd1363726d2e66696e641463726d15": begun,
		"0582011c1a6167656e742f3199c4003091c500367ac4043470bb9b221a135e927ece7072617a4ec4042c616e" +
			"6e222c0201a21d699205010050c748cc2b5b5812323030312c03066142e462648007": event,
	} {
		packed, err := hex.DecodeString(old)
		if err != nil {
			t.Fatalf("decode %q: %v", old, err)
		}
		got, err := UnpackLeaf(nil, packed)
		if err != nil || string(got) != want {
			t.Errorf("UnpackLeaf(%q) = %q, %v, want %q", old, got, err, want)
		}
	}
}

// TestAppendTime compares times in unpacked leaves with those in leaves.
func TestAppendTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(0, 1<<56-1).Draw(t, "micros")).UTC()
		if got, want := string(appendTime([]byte("x"), at)), "x"+audit.FormatTime(at); got != want {
			t.Fatalf("appendTime = %s, want %s", got, want)
		}
	})
}

// TestPackedForm checks that only events have the form of events, by which Newest searches.
func TestPackedForm(t *testing.T) {
	folded, _ := foldTexts(nil, []byte(event), newerFolds)
	older := append([]byte{packedTexts}, newerDict.Get().Encode(make([]byte, s2.MaxEncodedLen(len(folded))), folded)...)
	inForm := func(form byte, leaf string) []byte { return append([]byte{form}, packLeaf([]byte(leaf))[1:]...) }
	for _, packed := range [][]byte{older, inForm(packedCall, event), inForm(packedEvent, begun)} {
		if got, err := UnpackLeaf(nil, packed); err == nil {
			t.Errorf("UnpackLeaf of form %d = %q, want an error", packed[0], got)
		}
	}
}

// FuzzUnpackLeaf unpacks hostile data.
func FuzzUnpackLeaf(f *testing.F) {
	f.Add("", packLeaf([]byte(begun)))
	f.Add("{}", []byte(nil))
	f.Add("", []byte{packedDigests, 0xff, 0xff, 0xff, 0x7f})
	f.Add("", []byte{packedTexts, 0xff, 0xff, 0xff, 0x7f})
	f.Add("", append([]byte{packedCall}, s2.Encode(nil, bytes.Repeat([]byte{14}, maxUnpacked))...))
	f.Add("", append([]byte{packedTexts}, s2.Encode(nil, []byte("\x03\xff\xff\xff\xff\xff\xff\xff\x02"))...))
	f.Fuzz(func(t *testing.T, leaf string, packed []byte) {
		got, err := UnpackLeaf([]byte(leaf), packed)
		if err == nil && packed != nil && len(got) > maxUnpacked {
			t.Errorf("UnpackLeaf returned %d bytes, want %d at most", len(got), maxUnpacked)
		}
	})
}

func BenchmarkPackLeaf(b *testing.B) {
	data := []byte(begun)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		packLeaf(data)
	}
	b.ReportMetric(float64(len(packLeaf(data))), "B/leaf")
}

func BenchmarkUnpackLeaf(b *testing.B) {
	packed := packLeaf([]byte(begun))
	var u unpacker
	for b.Loop() {
		if _, err := u.unpackLeaf(nil, packed); err != nil {
			b.Fatalf("unpack the leaf: %v", err)
		}
	}
}
