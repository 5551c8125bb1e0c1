package openapi

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// TestLargeDocuments counts the operations that are kept and dropped of the documents that
// `make documents` installs. It prints the same for the documents in $BIPLANE_OPENAPI, separated by
// colons.
func TestLargeDocuments(t *testing.T) {
	if all := os.Getenv("BIPLANE_OPENAPI"); all != "" {
		for name := range strings.SplitSeq(all, ":") {
			loadLarge(t, name)
		}
	}
	if os.Getenv("BIPLANE_DOCUMENTS") == "" {
		t.Skip("run `make documents`")
	}
	for name, want := range map[string]struct{ kept, dropped int }{
		"github.json":     {1223, 0},
		"stripe.json":     {594, 0},
		"kubernetes.json": {1123, 0},
		"docker.yaml":     {108, 0},
		"figma.yaml":      {54, 0},
		"hydra.json":      {47, 0},
		"weaviate.json":   {96, 0},
	} {
		r := loadLarge(t, peertest.Module(t, "../documents/"+name))
		if r != nil && (len(r.tools) != want.kept || r.dropped != want.dropped) {
			t.Errorf("%s: %d operations are kept and %d dropped, want %d and %d", name, len(r.tools), r.dropped,
				want.kept, want.dropped)
		}
	}
}

// loadLarge loads a document, and logs what it becomes.
func loadLarge(t *testing.T, name string) *table {
	t.Helper()
	began := time.Now()
	d, err := loadDocument(t.Context(), fileSource{filepath.Dir(name)}, filepath.Base(name))
	if err != nil {
		t.Errorf("%s, err = %v, want nil", name, err)
		return nil
	}
	parsed := time.Since(began)
	r, err := readTable(d, "api", serverConfig{fixed: "https://api.example.com"})
	if err != nil {
		t.Errorf("%s, err = %v, want nil", name, err)
		return nil
	}
	took, schemas := time.Since(began), 0
	for _, x := range r.tools {
		schemas += len(x.InputSchema) + len(x.OutputSchema)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%s: %s, %d kept, %d broken, parsed in %s, loaded in %s, schemas %d KiB, heap %d MiB", filepath.Base(name),
		r.title, len(r.tools), r.dropped, parsed.Round(time.Millisecond), took.Round(time.Millisecond), schemas>>10,
		m.HeapAlloc>>20)
	for _, b := range r.broken[:min(len(r.broken), 10)] {
		t.Logf("  %s: %s", b.Tool, b.Reason)
	}
	return r
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
