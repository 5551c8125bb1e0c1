package demo

import (
	"strings"
	"testing"
)

// TestBenchServer calls the tools of the server used for measurements; hold is called after
// release.
func TestBenchServer(t *testing.T) {
	got := exchange(t, Bench,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"text":"x"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"wait","arguments":{"ms":1}}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"wait","arguments":{"ms":-1}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"held"}}`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"release"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hold"}}`,
	)
	for id, want := range map[string]string{
		"1": `"readOnlyHint":true`, "2": `"structuredContent":{"text":"x"}`, "3": `{"waited":1}`,
		"4": "ms is 0 to 10000",
		"5": `{"held":0}`, "6": `{"released":true}`, "7": `{"released":true}`,
	} {
		if !strings.Contains(string(got[id].Result), want) {
			t.Errorf("%s: %s, want %s", id, got[id].Result, want)
		}
	}
}
