package audit

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestDecodePlain checks that a leaf is decoded to the same content with and without the decoder
// for plain leaves, and that this decoder refuses everything that isn't canonical.
func TestDecodePlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := randomContent(t)
		leaf, err := want.encodeLeaf()
		if err != nil {
			t.Fatalf("encodeLeaf: %v", err)
		}
		slow := &content{}
		if err := json.Unmarshal(leaf, slow); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		got, ok := decodePlain(leaf)
		if _, plain := want.encodeFast(); ok != plain {
			t.Fatalf("decodePlain(%s) reports %v, want %v", leaf, ok, plain)
		}
		if ok {
			got.canonical = false
			if !reflect.DeepEqual(got, slow) {
				t.Fatalf("decodePlain(%s) = %+v, want %+v", leaf, got, slow)
			}
		}
		i := rapid.IntRange(0, len(leaf)-1).Draw(t, "place")
		changed := append([]byte{}, leaf...)
		changed[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, ok := decodePlain(changed); ok {
			slow := &content{}
			if err := json.Unmarshal(changed, slow); err != nil {
				t.Fatalf("decodePlain accepts %q: %v", changed, err)
			}
			if again, ok := got.encodeFast(); !ok || string(again) != string(changed) {
				t.Fatalf("decodePlain accepts %q, whose canonical form is %q", changed, again)
			}
			got.canonical = false
			if !reflect.DeepEqual(got, slow) {
				t.Fatalf("decodePlain(%s) = %+v, want %+v", changed, got, slow)
			}
		}
	})
	leaf, err := (&content{Kind: KindCall, Part: PartBegun, Record: "06h0", Time: "2026-11-23T07:36:18.508061Z",
		Version: formatVersion, Detail: map[string]string{"a": "b"}}).encodeLeaf()
	if err != nil {
		t.Fatalf("encodeLeaf: %v", err)
	}
	if _, ok := decodePlain(leaf); !ok {
		t.Errorf("decodePlain refuses %s, want it decoded", leaf)
	}
	text := string(leaf)
	for _, s := range []string{"", "{", "{}", " " + text, text + " ", text[:len(text)-1], `{"v":1,` + text[1:],
		strings.Replace(text, `"a":"b"`, `"b":"","a":""`, 1), strings.Replace(text, `{"a":"b"}`, `{}`, 1),
		strings.Replace(text, `"seq":0`, `"seq":00`, 1), strings.Replace(text, `"seq":0`, `"seq":-0`, 1),
		strings.Replace(text, `"seq":0`, `"seq":-01`, 1), strings.Replace(text, `"seq":0`, `"seq":-`, 1),
		strings.Replace(text, `"seq":0`, `"seq":9007199254740992`, 1), strings.Replace(text, `"seq":0,`, ``, 1),
		strings.Replace(text, `"kind"`, `"duration_us":0,"kind"`, 1),
		strings.Replace(text, `"kind"`, `"execution":"","kind"`, 1),
		strings.Replace(text, `"kind"`, `"error":{"digest":""},"kind"`, 1),
		strings.Replace(text, `"kind"`, `"error":{"size":1},"kind"`, 1),
		strings.Replace(text, `"kind"`, `"error":{"digest":"","kept":"","size":1},"kind"`, 1),
		strings.Replace(text, `"kind"`, `"file":"a","file":"a","kind"`, 1),
		strings.Replace(text, `"kind"`, `"extra":"a","kind"`, 1),
	} {
		if _, ok := decodePlain([]byte(s)); ok || s == text {
			t.Errorf("decodePlain accepts %q, want it refused", s)
		}
	}
}

func randomContent(t *rapid.T) *content {
	text := rapid.SampledFrom([]string{"", "a", "ex_oc5pf6udxg4oak3glnoo.4", `with "quotes"`, "ü", "\n", "<b>",
		"\x7f"})
	c := &content{
		Kind: Kind(text.Draw(t, "kind")), Part: text.Draw(t, "part"), Record: text.Draw(t, "record"),
		Call: text.Draw(t, "call"), Client: text.Draw(t, "client"),
		ErrorKind: tool.Kind(text.Draw(t, "error kind")), Execution: text.Draw(t, "execution"),
		File: text.Draw(t, "file"), Name: text.Draw(t, "name"), Outcome: Outcome(text.Draw(t, "outcome")),
		Principal: text.Draw(t, "principal"),
		decision: decision{Effect: text.Draw(t, "effect"), Policy: text.Draw(t, "policy"),
			Reason: text.Draw(t, "reason")},
		Session: text.Draw(t, "session"), Tool: text.Draw(t, "tool"), Upstream: text.Draw(t, "upstream"),
		Time:   time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, "time")).UTC().Format(timeFormat),
		Micros: rapid.Int64Range(0, 1<<52).Draw(t, "duration"), Seq: rapid.Int64Range(0, 1<<52).Draw(t, "seq"),
		Version: formatVersion,
	}
	if rapid.Bool().Draw(t, "ended") {
		c.Begun = &c.Seq
		c.Result = &bytesOf{Digest: text.Draw(t, "digest"), Kept: text.Draw(t, "kept"), Size: 7}
	} else {
		c.Arguments, c.Error = &bytesOf{Digest: text.Draw(t, "digest")}, &bytesOf{Size: -1}
	}
	if rapid.Bool().Draw(t, "detail") {
		c.Detail = map[string]string{"a": text.Draw(t, "first"), "b": text.Draw(t, "second")}
	}
	return c
}

// BenchmarkDecodeLeaf decodes the two leaves of a call.
func BenchmarkDecodeLeaf(b *testing.B) {
	digest := "hmac-sha256:2726fa0124d39a064814b3724e3933b4887a03f11993aaeb641372fd15ac274d"
	seq := int64(20001)
	for name, c := range map[string]*content{
		"begun": {Kind: KindCall, Part: PartBegun, Record: "06h0enck9g000000tw89w1zzcm", Seq: seq, Version: 1,
			Time: "2026-11-23T07:36:18.508465Z", Call: "ex_oc5pf6udxg4oak3glnoo.4", Client: "drv/1",
			Execution: "ex_oc5pf6udxg4oak3glnoo", Principal: "local:root",
			decision: decision{Effect: "allow", Policy: "ask-for-writes.reads@6e92fb9331995336",
				Reason: "it is permitted"}, Tool: "srv.echo", Upstream: "srv",
			Arguments: &bytesOf{Digest: digest, Kept: digest, Size: 14}},
		"ended": {Kind: KindCall, Part: PartEnded, Record: "06h0enck9g000000tw89w1zzcm", Seq: seq + 1, Version: 1,
			Begun: &seq, Time: "2026-11-23T07:36:18.508667Z", Outcome: "ok", Micros: 202,
			Result: &bytesOf{Digest: digest, Size: 57}},
	} {
		leaf, err := c.encodeLeaf()
		if err != nil {
			b.Fatalf("encodeLeaf: %v", err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := decodeLeaf(leaf); err != nil {
					b.Fatalf("decodeLeaf: %v", err)
				}
			}
		})
	}
}

// TestParseLeafTime compares the fast parser with time.Parse.
func TestParseLeafTime(t *testing.T) {
	for _, s := range []string{"2026-11-27T01:02:03.000004Z", "2026-02-28T23:59:59.999999Z",
		"2026-02-29T00:00:00.000000Z",
		"2024-02-29T00:00:00.000000Z", "2026-12-31T00:00:00.000000Z", "2026-13-01T00:00:00.000000Z",
		"2026-00-10T00:00:00.000000Z", "2026-01-00T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z",
		"2026-01-01T00:60:00.000000Z", "2026-01-01T00:00:60.000000Z", "2026-01-01T00:00:00,000000Z",
		"2026-01-01T00:00:00.00000Z", "2026-01-01 00:00:00.000000Z", "2026-01-01T00:00:00.000000+",
		"0000-01-01T00:00:00.000000Z",
		"", "-001-01-01T00:00:00.000000Z"} {
		got, err := parseLeafTime(s)
		want, wantErr := time.Parse(timeFormat, s)
		if !got.Equal(want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%q is %v, %v; want %v, %v", s, got, err, want, wantErr)
		}
	}
}

// TestHashes compares the hashes of a verification with those of the library.
func TestHashes(t *testing.T) {
	var e edge
	a, b := e.hashLeaf([]byte("a")), e.hashLeaf(nil)
	if a != tlog.RecordHash([]byte("a")) || b != tlog.RecordHash(nil) || hashNode(a, b) != tlog.NodeHash(a, b) {
		t.Errorf("the hashes are %v, %v and %v, want those of tlog", a, b, hashNode(a, b))
	}
}
