package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// officeSources returns n servers s0, s1 and so on with the same tools, each of which has the
// parameter include_archived.
func officeSources(n int) []Source {
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"due_date":{"type":"string"},` +
		`"include_archived":{"type":"boolean","description":"Include archived items"}}}`)
	var out []Source
	for i := range n {
		s := Source{Name: fmt.Sprintf("s%d", i), Health: tool.Health{State: tool.Ready}}
		for _, item := range []string{"invoice", "calendar", "ticket", "document", "contact", "shipment"} {
			s.Tools = append(s.Tools, &tool.Tool{Name: "archive_" + item, InputSchema: schema,
				Description: "Put it away at " + s.Name})
			for _, verb := range []string{"create", "list", "update", "share"} {
				s.Tools = append(s.Tools, &tool.Tool{Name: verb + "_" + item, InputSchema: schema,
					Description: fmt.Sprintf("%s one %s or several %[2]ss at %s", verb, item, s.Name)})
			}
		}
		out = append(out, s)
	}
	return out
}

func officeView(servers int) *View {
	c := New(Config{})
	for _, s := range officeSources(servers) {
		c.Set(s)
	}
	return c.View()
}

// TestSearchCommonParameter checks that a word in the parameters of every tool does not outvote the
// name of a tool.
func TestSearchCommonParameter(t *testing.T) {
	for _, servers := range []int{1, 5, 20} {
		v := officeView(servers)
		for _, query := range []string{"archive the calendar", "archive an old invoice", "shipments archive"} {
			hits := v.Search(query, 5)
			if !strings.HasPrefix(hits[0].Entry.Tool.Name, "archive_") || hits[0].Score < hits[1].Score+0.2 {
				t.Errorf("%d servers: %q finds %v, want an archive tool clearly first", servers, query,
					describeHits(hits))
			}
		}
		for _, h := range v.Search("archive", 5) {
			if !strings.HasPrefix(h.Entry.Tool.Name, "archive_") {
				t.Errorf("%d servers: archive finds %s", servers, h.Entry.Path())
			}
		}
	}
}

func describeHits(hits []Hit) (out []string) {
	for _, h := range hits {
		out = append(out, fmt.Sprintf("%s %.2f", h.Entry.Path(), h.Score))
	}
	return out
}

// TestSearchCopies checks that the same tool of several servers is one hit, which names the other
// visible servers, and that tools with different definitions are not the same.
func TestSearchCopies(t *testing.T) {
	v := officeView(4)
	hits := v.Search("archive the calendar", 5)
	var names []string
	for _, h := range hits {
		names = append(names, h.Entry.Tool.Name)
		if len(h.Also) != 3 || slices.Contains(h.Also, h.Entry) {
			t.Errorf("%s has the copies %v, want three others", h.Entry.Path(), copyPaths(h.Also))
		}
	}
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != 5 {
		t.Errorf("got %v, want five different tools", names)
	}
	if h := v.Search("s2 archive calendar", 1)[0]; h.Entry.Path() != "s2.archive_calendar" {
		t.Errorf("a query for s2 finds %s", h.Entry.Path())
	}
	some := v.Only(func(e *Entry) bool { return e.Namespace == "s1" || e.Namespace == "s3" })
	h := some.Search("archive the calendar", 1)[0]
	if h.Entry.Path() != "s1.archive_calendar" || !slices.Equal(copyPaths(h.Also), []string{"s3.archive_calendar"}) {
		t.Errorf("found %s, also %v; want the visible ones of s1 and s3", h.Entry.Path(), copyPaths(h.Also))
	}

	c := New(Config{})
	for name, description := range map[string]string{"notion": "Search pages", "slack": "Search messages"} {
		c.Set(Source{Name: name, Tools: []*tool.Tool{{Name: "search", Description: description}}})
	}
	if hits := c.View().Search("search", 5); len(hits) != 2 || hits[0].Also != nil {
		t.Errorf("got %v, want two tools without copies", describeHits(hits))
	}
	if got := listCopies(slices.Repeat([]*Entry{{Namespace: "a", Member: "b"}}, maxCopies+2)); !strings.HasSuffix(got,
		"a.b and 2 more") {
		t.Errorf("got %s", got)
	}
}

// TestSearchNothingFits checks that most queries without an answer are recognized, and that few
// queries with an answer are taken for such.
func TestSearchNothingFits(t *testing.T) {
	absurd := []string{"brew a coffee", "translate this poem to Latin", "bake sourdough bread", "horoscope for Leo",
		"trim the hedge", "knit a sweater", "water the plants in the garden", "feed my cat", "catch a fish",
		"tune the piano"}
	var confident, asked, refused, answered int
	for _, name := range []string{"dev", "dev-second", "heldout-software", "heldout-work", "heldout-last",
		"heldout-independent"} {
		set := readEval(t, name)
		for _, query := range absurd {
			asked++
			if hits, found := set.view.searchTools(query, 5); found {
				confident++
				t.Logf("%s: %q is answered by %v", name, query, describeHits(hits))
			}
		}
		for _, q := range set.queries {
			hits, found := set.view.searchTools(q.text, 5)
			if slices.ContainsFunc(hits, func(h Hit) bool { return slices.Contains(q.want, h.Entry.Tool.Path()) }) {
				answered++
				if !found {
					refused++
				}
			}
		}
	}
	if confident*10 > asked {
		t.Errorf("%d of %d queries that no tool fits have a confident answer, want at most a tenth", confident, asked)
	}
	if refused*100 > 3*answered {
		t.Errorf("%d of %d answered queries are said to have no answer, want at most 3 %%", refused, answered)
	}
}
