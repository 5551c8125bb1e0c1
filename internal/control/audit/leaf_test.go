package audit

import (
	"strings"
	"testing"
)

// TestDecodeLeaf checks what a leaf may not contain.
func TestDecodeLeaf(t *testing.T) {
	const leaf = `{"v":1,"time":"2026-11-22T10:00:00.000000Z"}`
	for text, want := range map[string]string{
		leaf:          "",
		leaf + " \n":  "",
		leaf + "{}":   "more data",
		leaf + "x":    "more data",
		`{"none":1}`:  "no leaf",
		`{"v":2}`:     "version 2",
		`{"v":1}`:     "without a time",
		leaf[:20]:     "no leaf",
		"[" + leaf:    "no leaf",
		`null` + leaf: "more data",
	} {
		_, err := decodeLeaf([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v; want %q", text, err, want)
		}
	}
}
