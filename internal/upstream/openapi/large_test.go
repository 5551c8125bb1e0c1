package openapi

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestLargeDocuments loads the real documents that $BIPLANE_OPENAPI names, separated by colons. It
// prints what they become.
func TestLargeDocuments(t *testing.T) {
	all := os.Getenv("BIPLANE_OPENAPI")
	if all == "" {
		t.Skip("BIPLANE_OPENAPI names no documents")
	}
	for name := range strings.SplitSeq(all, ":") {
		began := time.Now()
		d, err := loadDocument(t.Context(), fileSource{filepath.Dir(name)}, filepath.Base(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		parsed := time.Since(began)
		r, err := readTable(d, "api", serverConfig{fixed: "https://api.example.com"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		took, schemas := time.Since(began), 0
		for _, x := range r.tools {
			schemas += len(x.InputSchema) + len(x.OutputSchema)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%s: %s, %d kept, %d broken, parsed in %s, loaded in %s, schemas %d KiB, heap %d MiB",
			filepath.Base(name),
			r.title, len(r.tools), r.dropped, parsed.Round(time.Millisecond), took.Round(time.Millisecond), schemas>>10,
			m.HeapAlloc>>20)
		for _, b := range r.broken[:min(len(r.broken), 10)] {
			t.Logf("  %s: %s", b.Tool, b.Reason)
		}
	}
}
