package record

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
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
