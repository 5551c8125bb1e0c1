package openapi

import (
	"fmt"
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
			t.Errorf("%s, err = %v, want nil", name, err)
			continue
		}
		parsed := time.Since(began)
		r, err := readTable(d, "api", serverConfig{fixed: "https://api.example.com"})
		if err != nil {
			t.Errorf("%s, err = %v, want nil", name, err)
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

// largeDocument returns a document of 10 MB with 2,500 operations.
func largeDocument() []byte {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.1.0","info":{"title":"L","version":"1"},"paths":{`)
	for i := range 2500 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/things%d/{id}":{"get":{"operationId":"getThing%d","tags":["t%d"],`+
			`"summary":"Get the thing %d",`+
			`"description":%q,"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}`,
			i, i, i%50, i, strings.Repeat("Returns one thing with all of its parts. ", 20))
		for j := range 20 {
			fmt.Fprintf(&b, `,{"name":"filter%d","in":"query","description":%q,"schema":{"type":"string"}}`, j,
				strings.Repeat("what to keep ", 4))
		}
		fmt.Fprintf(&b, `],"responses":{"200":{"description":"ok","content":{"application/json":{"schema":`+
			`{"$ref":"#/components/schemas/S%d"}}}}}}}`, i%500)
	}
	b.WriteString(`},"components":{"schemas":{`)
	for i := range 500 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"S%d":{"type":"object","properties":{"next":{"$ref":"#/components/schemas/S%d"},`+
			`"name":{"type":"string","description":%q}}}`, i, (i+1)%500, strings.Repeat("the name of it ", 20))
	}
	b.WriteString("}}}")
	return []byte(b.String())
}

// BenchmarkLargeDocument loads a document of 10 MB with 2,500 operations.
func BenchmarkLargeDocument(b *testing.B) {
	text := largeDocument()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		d, err := loadDocument(b.Context(), oneFile(text), "api.yaml")
		if err != nil {
			b.Fatalf("load the document: %v", err)
		}
		t, err := readTable(d, "api", serverConfig{fixed: "https://api.example.com"})
		if err != nil || len(t.tools) != 2500 {
			b.Fatalf("read the operations: %v, want 2500 tools", err)
		}
	}
}
