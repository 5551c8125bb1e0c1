package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// FuzzMembers compares members with a JSON decoder.
func FuzzMembers(f *testing.F) {
	f.Add(`{"a":"b","n":-1,"o":{"a":"}","x":{"y":"\"{"}},"record":"é\\\"\u2028"}`)
	f.Add(`{"a\\":"\\\\","b":""}`)
	f.Add(`{"a":`)
	f.Add(`{"`)
	f.Fuzz(func(t *testing.T, text string) {
		walkMembers([]byte(text), func(_, _ []byte) {})
		var all map[string]any
		if json.Unmarshal([]byte(text), &all) != nil || len(all) == 0 {
			return // leaves are never like that; it only must not crash
		}
		canonical, err := json.Marshal(all)
		if err != nil || bytes.ContainsAny(canonical, "[") || !utf8.ValidString(text) {
			return
		}
		got := map[string]string{}
		if !walkMembers(canonical, func(name, value []byte) { got[string(name)] = string(value) }) {
			t.Errorf("%s is no object", canonical)
		}
		for name, value := range all {
			if s, ok := value.(string); ok && got[name] != s {
				t.Errorf("%s: %q is %q, want %q", canonical, name, got[name], s)
			}
		}
	})
}

// TestFactsOfLeaf checks that a leaf is found by the same members whether it was decoded or not.
func TestFactsOfLeaf(t *testing.T) {
	const ended = `{"begun":1222,"duration_us":202,"kind":"call","outcome":"ok","part":"ended","record":` +
		`"06h0fzhtsr000001x7a8pyxkfw","result":{"digest":"hmac-sha256:00","size":57},"seq":1223,` +
		`"time":"2026-11-23T10:40:31.438535Z","v":1}`
	const event = `{"effect":"approved","kind":"approval","name":"ap_1","outcome":"ok","part":"event",` +
		`"principal":"local:ann","record":"06h0fzhtsr000001x7a8pyxkfx","seq":1224,` +
		`"time":"2026-11-23T10:40:31.438535Z","v":1}`
	for _, text := range []string{begun, ended, event} {
		l := audit.Leaf{Data: []byte(text)}
		l.DecodeText(text, &audit.Leaf{})
		if _, _, ok := l.EachMember(func(_, _ string) {}); !ok {
			t.Fatalf("DecodeText refuses %s, want it decoded", text)
		}
		got, _ := factsOfLeaf(&l)
		want, ok := factsOf(l.Data)
		slices.Sort(got.marks[:])
		slices.Sort(want.marks[:])
		if !ok || got != want {
			t.Errorf("the facts of %s are %+v, want %+v", text, got, want)
		}
	}
}
