package catalog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// largeSources returns upstreams with n tools in total, composed of the evaluation sets' tools and
// English words. They have at least as many different words as real ones.
func largeSources(tb testing.TB, n int) []Source {
	r := rand.New(rand.NewPCG(3, 4))
	vectors := loadVectors()
	var common []string
	for i := range vectors.n {
		if vectors.rank(i) < 8000 {
			common = append(common, vectors.word(i))
		}
	}
	word := func() string { return common[r.IntN(len(common))] }
	var models []*Entry
	for _, name := range []string{"dev", "heldout-software", "heldout-work"} {
		models = append(models, readEval(tb, name).view.Entries()...)
	}
	var out []Source
	for i := 0; i < n; i++ {
		if i%100 == 0 {
			out = append(out, Source{Name: fmt.Sprintf("%s-%d", word(), i), Health: tool.Health{State: tool.Ready}})
		}
		m := models[r.IntN(len(models))].Tool
		var schema map[string]any
		if err := json.Unmarshal(m.InputSchema, &schema); err != nil {
			tb.Fatalf("json.Unmarshal: %v", err)
		}
		schema["properties"].(map[string]any)[word()+"_"+word()] = map[string]any{"type": "string",
			"description": word() + " of the " + word() + " and its " + word()}
		raw, err := json.Marshal(schema)
		if err != nil {
			tb.Fatalf("json.Marshal: %v", err)
		}
		s := &out[len(out)-1]
		s.Tools = append(s.Tools, &tool.Tool{Upstream: s.Name, Name: m.Name + "_" + word() + "_" + word(),
			Description: m.Description + ", with " + word() + " " + word() + " for the " + word(), InputSchema: raw})
	}
	return out
}

func largeCatalog(tb testing.TB, n int) *Catalog {
	c := New(Config{})
	for _, s := range largeSources(tb, n) {
		c.Set(s)
	}
	return c
}

func BenchmarkSearch10000(b *testing.B) {
	v := largeCatalog(b, 10_000).View()
	v.Search("warm", 1)
	words := len(v.index.posts)
	queries := []string{
		"open a bug report about the broken login page",
		"list_issues",
		"what did I spend on groceries in May",
		"which statemnts eat most of the databse's time",
		"schedule a meeting with Maria on Friday at three and tell everybody in the marketing channel about it, with " +
			"a link to the agenda",
	}
	for _, q := range queries {
		b.Run(q[:11], func(b *testing.B) {
			for b.Loop() {

				v.Search(q, 5)
			}
			b.ReportMetric(float64(words), "words")
		})
	}
}

// BenchmarkSearchCopies10000 measures a query when each tool is at 330 servers.
func BenchmarkSearchCopies10000(b *testing.B) {
	v := officeView(330)
	v.Search("warm", 1)
	for b.Loop() {
		v.Search("update contact", 50)
	}
}

func BenchmarkIndex10000(b *testing.B) {
	sources := largeSources(b, 10_000)
	for b.Loop() {
		c := New(Config{})
		for _, s := range sources {
			c.Set(s)
		}
		c.View().Search("issue", 1)
	}
}

// BenchmarkChange10000 measures a query after one of a hundred upstreams has changed its tools.
func BenchmarkChange10000(b *testing.B) {
	sources := largeSources(b, 10_000)
	c := largeCatalog(b, 10_000)
	c.View().Search("issue", 1)
	s := sources[0]
	all := s.Tools
	for i := 0; b.Loop(); i++ {
		s.Tools = all[:len(all)-1-i%2]
		c.Set(s)
		c.View().Search("issue", 1)
	}
}

func BenchmarkSet10000(b *testing.B) {
	s := Source{Name: "big"}
	for _, o := range largeSources(b, 10_000) {
		for _, t := range o.Tools {
			own := *t
			own.Upstream = "big"
			s.Tools = append(s.Tools, &own)
		}
	}
	for b.Loop() {
		New(Config{}).Set(s)
	}
}

func BenchmarkSetHealth10000(b *testing.B) {
	c := largeCatalog(b, 10_000)
	s := largeSources(b, 100)[0]
	for b.Loop() {
		c.Set(s)
	}
}

func BenchmarkNotFound10000(b *testing.B) {
	v := largeCatalog(b, 10_000).View()
	for b.Loop() {
		if _, err := v.Resolve("github.creat_isue"); err == nil {
			b.Fatal("found")
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	c := New(Config{})
	c.Set(Source{Name: "gh", Tools: []*tool.Tool{{Upstream: "gh", Name: "list", InputSchema: []byte(
		`{"type":"object","required":["owner","repo"],"properties":{"owner":{"type":"string"},` +
			`"repo":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}}}}`)}}})
	e := c.View().Entries()[0]
	args := []byte(`{"owner":"a","repo":"b","labels":["x","y"]}`)
	for b.Loop() {
		if err := e.Validate(args); err != nil {
			b.Fatalf("Validate: %v", err)
		}
	}
}
