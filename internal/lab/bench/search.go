package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/catalog/evalset"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// The words for the tools of the large catalog: each verb with each item, in ten upstreams.
const (
	verbWords = "create read update delete list search archive restore export import assign approve reject share " +
		"comment rename move copy count schedule"
	itemWords = `issue invoice customer order ticket message channel meeting calendar document folder file page comment branch commit release
		deployment server database table query report dashboard metric alert incident user team role permission token secret webhook workflow job task
		project milestone sprint label contact lead deal campaign payment refund subscription shipment warehouse product`
	placeWords = "northwind contoso fabrikam tailspin litware adatum proseware wingtip lamna relecloud"
)

// questions are queries as agents ask them.
var questions = []string{
	"open a bug report about the broken login page",
	"create issue",
	"who may approve a refund for a customer",
	"schedule a meeting with the marketing team on Friday and share the agenda",
	"fabrikam.export_report",
	"how many servers raised an alert last week",
}

// generateTools returns up to n tools, as many as the words allow, by upstream.
func generateTools(n int) []catalog.Source {
	var out []catalog.Source
	verbs, items := strings.Fields(verbWords), strings.Fields(itemWords)
	for p := range strings.FieldsSeq(placeWords) {
		s := catalog.Source{Name: p, Health: tool.Health{State: tool.Ready}}
		for i, v := range verbs {
			for k, it := range items {
				if n == 0 {
					break
				}
				n--
				other := items[(k*7+i)%len(items)]
				s.Tools = append(s.Tools, &tool.Tool{
					Upstream: p, Name: v + "_" + it,
					Description: fmt.Sprintf("%s%s a %s in %s. Give the %s that it belongs to; the answer names the "+
						"%s and who changed it last.", strings.ToUpper(v[:1]), v[1:], it, p, other, it),
					InputSchema: []byte(fmt.Sprintf(`{"type":"object","required":["%s_id"],`+
						`"properties":{"%s_id":{"type":"string","description":"the %s"},"%s":{"type":"string",`+
						`"description":"name of the %s"},"limit":{"type":"integer","minimum":1,"maximum":100},`+
						`"dry_run":{"type":"boolean"}}}`,
						it, it, it, other, other)),
				})
			}
		}
		out = append(out, s)
	}
	return out
}

// measureSearch measures tool search in a large catalog, including the text of the result.
func (r *runner) measureSearch(ctx context.Context) ([]Figure, error) {
	var out []Figure
	for _, n := range []int{100, 10_000} {
		c := catalog.New(catalog.Config{Describe: func(e *catalog.Entry, _ string) catalog.Signature {
			code, example, note := typegen.Signature(typegen.Item{Tool: e.Tool,
				Names: typegen.Names{Namespace: e.Namespace, Member: e.Member}})
			return catalog.Signature{Code: code, Example: example, ResultNote: note}
		}})
		for _, s := range generateTools(n) {
			c.Set(s)
		}
		if have := len(c.View().Entries()); have != n {
			return nil, fmt.Errorf("the catalog has %d tools, not %d", have, n)
		}
		find := c.SearchTool(nil)
		next := 0
		do := func() error {
			next++
			return checkSearch(ctx, find, questions[next%len(questions)])
		}
		first, err := repeatCalls(ctx, 1, do)
		if err != nil {
			return nil, err
		}
		took, err := repeatCalls(ctx, r.countRounds(600), do)
		if err != nil {
			return nil, err
		}
		out = append(out,
			durationFigure(fmt.Sprintf("search_%d", n), took), durationFigure(fmt.Sprintf("search_index_%d", n), first))
	}
	recall, err := measureRecall()
	return append(out, recall), err
}

// measureRecall returns the share of queries with a right tool among the first five hits, in
// percent. The sets are those on which the search was not tuned.
func measureRecall() (Figure, error) {
	var found, asked float64
	for _, name := range evalset.HeldOut {
		set, err := evalset.ReadSet(name)
		if err != nil {
			return Figure{}, err
		}
		c := catalog.New(catalog.Config{})
		for name, tools := range set.Tools {
			c.Set(catalog.Source{Name: name, Tools: tools, Health: tool.Health{State: tool.Ready}})
		}
		for _, q := range set.Queries {
			asked++
			if slices.ContainsFunc(c.View().Search(q.Text, 5), func(h catalog.Hit) bool {
				return slices.Contains(q.Want, h.Entry.Tool.Path())
			}) {
				found++
			}
		}
	}
	return numberFigure("search_recall_percent", 100*found/asked), nil
}

// checkSearch searches, and checks that something is found.
func checkSearch(ctx context.Context, find tool.Caller, question string) error {
	args, err := tool.Marshal(map[string]string{"query": question})
	if err != nil {
		return err
	}
	res, err := find.Call(ctx, &tool.Call{Path: tool.SearchPath, Arguments: args})
	if err != nil {
		return err
	}
	if res.IsError || len(res.Raw) < 200 {
		return fmt.Errorf("search for %q found nothing: %.200s", question, res.Raw)
	}
	return nil
}
