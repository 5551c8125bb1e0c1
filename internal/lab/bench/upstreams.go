package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/lab/demo"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An UpstreamsConfig configures MeasureUpstreams.
type UpstreamsConfig struct {
	Client *api.Client // of the process that answers the agent
	Quick  bool        // a few rounds only
}

// An UpstreamsReport reports the savings with the user's own servers.
type UpstreamsReport struct {
	Upstreams []UpstreamCost `json:"upstreams"`
	// Tokens of the definitions that a model reads: of all tools, and of Biplane's own.
	Before  int           `json:"tokens_before"`
	After   int           `json:"tokens_after"`
	Saved   float64       `json:"saved_percent"` // negative: Biplane's own are more
	Answer  float64       `json:"search_answer_tokens"`
	Quality []SearchScore `json:"search"`
	Latency []Latency     `json:"latency_ms"`
}

// An UpstreamCost is the cost of the definitions of one server.
type UpstreamCost struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Tools  int    `json:"tools"`
	Tokens int    `json:"tokens"`
}

// A SearchScore says how often search finds the tool that a question is about.
type SearchScore struct {
	Questions string  `json:"questions"` // what they are made from
	N         int     `json:"n"`
	First     float64 `json:"recall_1"` // the share whose tool is the first result
	Five      float64 `json:"recall_5"` // or among the first five
	Rank      float64 `json:"mrr"`      // mean reciprocal rank
	Missed    []Miss  `json:"missed"`   // at most 10
}

// A Miss is a question whose tool was not among the first five results.
type Miss struct {
	Question string `json:"question"`
	Tool     string `json:"tool"`
}

// A Latency is the time of a call, in milliseconds.
type Latency struct {
	What   string  `json:"what"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	N      int     `json:"n"`
}

// MeasureUpstreams measures the saving with the servers of a configuration, without a model: the
// tokens of their definitions and of Biplane's, how well search finds their tools, and how long an
// agent waits. agent is a session in the mode that saves. No tool of a server is called.
func MeasureUpstreams(ctx context.Context, cfg UpstreamsConfig, agent *demo.Session) (*UpstreamsReport, error) {
	ups, err := cfg.Client.Upstreams(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := cfg.Client.Tools(ctx)
	if err != nil {
		return nil, err
	}
	r := &UpstreamsReport{}
	if err := r.countDefinitions(ctx, cfg, agent, ups, tools); err != nil {
		return nil, err
	}
	sets := map[string][]question{"descriptions": askDescriptions(tools), "names": askNames(tools)}
	for _, kind := range []string{"descriptions", "names"} {
		s, answer, err := scoreSearch(ctx, cfg.Client, kind, sets[kind])
		if err != nil {
			return nil, err
		}
		r.Quality = append(r.Quality, s)
		r.Answer = max(r.Answer, answer)
	}
	return r, r.measureLatency(ctx, cfg, agent, sets["descriptions"])
}

// countDefinitions counts the tokens of what a client shows a model of each tool: its name, its
// description and its input schema.
func (r *UpstreamsReport) countDefinitions(ctx context.Context, cfg UpstreamsConfig, agent *demo.Session,
	ups []api.Upstream, tools []api.Tool) error {
	counter := &tokens.Counter{}
	own, err := agent.ListDefinitions(ctx)
	if err != nil {
		return err
	}
	for _, d := range own {
		r.After += counter.Count(d, 0)
	}
	for _, u := range ups {
		r.Upstreams = append(r.Upstreams, UpstreamCost{Name: u.Name, State: u.State})
	}
	for _, t := range tools {
		i := slices.IndexFunc(r.Upstreams, func(u UpstreamCost) bool { return u.Name == t.Upstream })
		if i < 0 { // not one of a server
			continue
		}
		d, err := cfg.Client.Tool(ctx, t.Path)
		if err != nil {
			return err
		}
		text, err := tool.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}{t.Listed, t.Description, d.InputSchema})
		if err != nil {
			return err
		}
		cost := &r.Upstreams[i]
		n := counter.Count(string(text), 0)
		cost.Tools, cost.Tokens, r.Before = cost.Tools+1, cost.Tokens+n, r.Before+n
	}
	if r.Before > 0 {
		r.Saved = 100 * (1 - float64(r.After)/float64(r.Before))
	}
	return nil
}

// A question is a query and the tool that it is about.
type question struct{ text, path string }

var wordPattern = lazily.Regexp(`[A-Za-z0-9]+`)

// askDescriptions returns a question for each tool that has a description: its first sentence,
// without the words of the tool's own name, which would make it easy. Sentences of fewer than three
// other words are left out.
func askDescriptions(tools []api.Tool) (all []question) {
	for _, t := range tools {
		sentence, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		sentence, _, _ = strings.Cut(sentence, ". ")
		own := splitName(t.Name)
		var words []string
		for _, w := range wordPattern.Get().FindAllString(sentence, 40) {
			if !slices.Contains(own, strings.ToLower(w)) {
				words = append(words, w)
			}
		}
		if len(words) >= 3 {
			all = append(all, question{strings.Join(words, " "), t.Path})
		}
	}
	return all
}

// askNames returns a question for each tool: the words of its name, and its server's.
func askNames(tools []api.Tool) (all []question) {
	for _, t := range tools {
		if words := append(splitName(t.Name), splitName(t.Upstream)...); len(words) > 0 {
			all = append(all, question{strings.Join(words, " "), t.Path})
		}
	}
	return all
}

var humpPattern = lazily.Regexp(`([a-z0-9])([A-Z])`)

// splitName returns the words of a name such as list_issues or listIssues, in lower case.
func splitName(name string) []string {
	return wordPattern.Get().FindAllString(strings.ToLower(humpPattern.Get().ReplaceAllString(name, "$1 $2")), -1)
}

// mostQuestions is the maximum number of questions of a kind: with more tools, every n-th is asked
// about.
const mostQuestions = 500

// scoreSearch asks questions. It also returns the average number of tokens of an answer.
func scoreSearch(ctx context.Context, c *api.Client, kind string, all []question) (s SearchScore, answer float64,
	err error) {
	s = SearchScore{Questions: kind, Missed: []Miss{}}
	counter := &tokens.Counter{}
	sum, step := 0, len(all)/mostQuestions+1
	for i := 0; i < len(all); i += step {
		q := all[i]
		hits, err := c.Search(ctx, q.text, 5)
		if err != nil {
			return s, 0, err
		}
		s.N++
		sum += counter.Count(hits.Text, 0)
		at := slices.IndexFunc(hits.Hits, func(h api.Hit) bool {
			return h.Path == q.path || slices.Contains(h.Also, q.path)
		})
		switch {
		case at == 0:
			s.First++
			fallthrough
		case at > 0:
			s.Five++
			s.Rank += 1 / float64(at+1)
		case len(s.Missed) < 10:
			s.Missed = append(s.Missed, Miss{q.text, q.path})
		}
	}
	if n := float64(s.N); n > 0 {
		s.First, s.Five, s.Rank, answer = s.First/n, s.Five/n, s.Rank/n, float64(sum)/n
	}
	return s, answer, nil
}

// measureLatency measures what an agent waits for over stdio: a search, and a program without
// calls.
func (r *UpstreamsReport) measureLatency(ctx context.Context, cfg UpstreamsConfig, agent *demo.Session,
	all []question) error {
	rounds := 100
	if cfg.Quick {
		rounds = 5
	}
	if len(all) == 0 {
		all = []question{{text: "read a file"}}
	}
	n := 0
	for _, m := range []struct {
		what string
		do   func() error
	}{
		{"search", func() error {
			n++
			_, err := agent.CallTool(ctx, "search", map[string]string{"query": all[n%len(all)].text})
			return err
		}},
		{"execute 1+1", func() error {
			text, err := agent.CallTool(ctx, "execute", arguments{Code: "1+1"})
			return checkAnswer(text, err, "2")
		}},
	} {
		if err := m.do(); err != nil { // warm up
			return fmt.Errorf("%s: %w", m.what, err)
		}
		took, err := repeatCalls(ctx, rounds, m.do)
		if err != nil {
			return fmt.Errorf("%s: %w", m.what, err)
		}
		slices.Sort(took)
		ms := func(p float64) float64 { return roundFigure(float64(percentile(took, p)) / float64(time.Millisecond)) }
		r.Latency = append(r.Latency, Latency{m.what, ms(.5), ms(.99), len(took)})
	}
	return nil
}

// WriteReport prints the report for a person.
func (r *UpstreamsReport) WriteReport(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "UPSTREAM\tSTATE\tTOOLS\tTOKENS")
	sum := 0
	for _, u := range r.Upstreams {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\n", u.Name, u.State, u.Tools, u.Tokens)
		sum += u.Tools
	}
	fmt.Fprintf(t, "total\t\t%d\t%d\n", sum, r.Before)
	t.Flush()
	less, saved := "less", r.Saved
	if saved < 0 {
		less, saved = "more", -saved
	}
	fmt.Fprintf(w, "\nDefinitions that a model reads at the start: %d tokens with all tools, %d with Biplane", r.Before,
		r.After)
	if r.Before > 0 {
		fmt.Fprintf(w, ": %.0f %% %s", saved, less)
	}
	fmt.Fprintf(w, ".\nAn answer of search: up to %.0f tokens on average.\n\n", r.Answer)
	fmt.Fprintln(t, "QUESTIONS MADE FROM\tN\tFOUND FIRST\tAMONG FIVE\tMRR")
	for _, s := range r.Quality {
		fmt.Fprintf(t, "%s\t%d\t%.0f %%\t%.0f %%\t%.2f\n", s.Questions, s.N, 100*s.First, 100*s.Five, s.Rank)
	}
	t.Flush()
	for _, s := range r.Quality {
		for _, m := range s.Missed {
			fmt.Fprintf(w, "not among five: %s, asked as %q\n", m.Tool, m.Question)
		}
	}
	fmt.Fprintln(t, "\nAN AGENT WAITS FOR\tMEDIAN\tP99\tN")
	for _, l := range r.Latency {
		fmt.Fprintf(t, "%s\t%.3g ms\t%.3g ms\t%d\n", l.What, l.Median, l.P99, l.N)
	}
	t.Flush()
	fmt.Fprintln(w, "\nTokens are those of o200k_base (OpenAI's); for Claude it is an estimate. Questions are made "+
		"from the tools'\nown names and descriptions, so an agent's may be harder. No tool of a server was called.")
}
