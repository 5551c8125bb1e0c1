package bench

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/openapi"
)

// A documentQuery is a query over a public document, with the tools that answer it.
type documentQuery struct {
	text string
	want []string
	held bool // not used for tuning
}

// readDocumentQueries returns the queries by document.
func readDocumentQueries(t *testing.T) map[string][]documentQuery {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "documents.txt"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	out := map[string][]documentQuery{}
	name := ""
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "= "); ok {
			name = rest
			continue
		}
		query, want, ok := strings.Cut(line, " => ")
		if !ok || line[0] == '#' {
			continue
		}
		out[name] = append(out[name], documentQuery{query, strings.Split(want, ", "), len(out[name])%2 == 1})
	}
	return out
}

// loadDocument returns the tools of a document that was reduced to what search reads.
func loadDocument(t *testing.T, name string) []*tool.Tool {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "third_party", "openapi", name+".json.gz"))
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	spec := filepath.Join(t.TempDir(), name+".json")
	if err := os.WriteFile(spec, text, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return loadSpec(t, name, spec)
}

func loadSpec(t *testing.T, name, spec string) []*tool.Tool {
	t.Helper()
	u, err := openapi.New(openapi.Config{Name: name, Spec: spec, Server: "https://api.example.com"})
	if err != nil {
		t.Fatalf("openapi.New: %v", err)
	}
	_, snap, err := u.LoadAPI(t.Context())
	if err != nil {
		t.Fatalf("LoadAPI of %s: %v", name, err)
	}
	return snap.Tools
}

// mustFind are queries that must find their tools, whatever the recall is.
var mustFind = map[string]bool{"list issues of a repository": true, "star a repository": true}

// TestSearchDocuments searches the tools of three public documents. The full documents are used
// where $BIPLANE_OPENAPI_github and so on name them.
func TestSearchDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	var found, asked [2]int
	for name, queries := range readDocumentQueries(t) {
		tools := []*tool.Tool(nil)
		if spec := os.Getenv("BIPLANE_OPENAPI_" + name); spec != "" {
			tools = loadSpec(t, name, spec)
		} else {
			tools = loadDocument(t, name)
		}
		c := catalog.New(catalog.Config{})
		c.Set(catalog.Source{Name: name, Tools: tools, Health: tool.Health{State: tool.Ready}})
		v := c.View()
		var own, all [2]int
		for _, q := range queries {
			half := map[bool]int{true: 1}[q.held]
			for _, w := range q.want {
				if !slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Name == w }) {
					t.Errorf("%s has no tool %s", name, w)
				}
			}
			all[half]++
			var got []string
			for _, h := range v.Search(q.text, 5) {
				got = append(got, h.Entry.Tool.Name)
			}
			if slices.ContainsFunc(got, func(n string) bool { return slices.Contains(q.want, n) }) {
				own[half]++
			} else if mustFind[q.text] {
				t.Errorf("%s: %q finds %v, want %v", name, q.text, got, q.want)
			} else if !q.held {
				t.Logf("%s: %q finds %v, want %v", name, q.text, got, q.want)
			} else if os.Getenv("BIPLANE_EVAL_HELD") != "" {
				t.Logf("held: %s: %q finds %v, want %v", name, q.text, got, q.want)
			}
		}
		t.Logf("%s: recall@5 %d of %d, held out %d of %d", name, own[0], all[0], own[1], all[1])
		for i := range own {
			found[i], asked[i] = found[i]+own[i], asked[i]+all[i]
		}
	}
	t.Logf("recall@5 %d of %d, held out %d of %d", found[0], asked[0], found[1], asked[1])
	for i, least := range [2]int{96, 91} {
		if found[i]*100 < least*asked[i] {
			t.Errorf("recall@5 is %d of %d, want at least %d %%", found[i], asked[i], least)
		}
	}
}
