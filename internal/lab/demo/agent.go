package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
)

// job is the task of the agents.
const job = `Find the inactive customers among our 100 and deactivate them, with the reason "inactive". A customer ` +
	`is inactive if the ` +
	`account is active, nobody has logged in since 1 January 2026, and the newest order is older than that as well. ` +
	`Tell me how many there were, and their names.`

// program is the program that an agent submits after reading the search results.
const program = `const since = "2026-01-01";
const first = await crm.list_customers({ status: "active", per_page: 50 });
const more = await Promise.all(Array.from({ length: Math.ceil(first.total / 50) - 1 }, (_, i) =>
  crm.list_customers({ status: "active", per_page: 50, page: i + 2 })));
const quiet = [first, ...more].flatMap((p) => p.customers).filter((c) => c.last_login_at < since);
const profiles = await Promise.all(quiet.map((c) => crm.get_customer({ id: c.id })));
const inactive = profiles.filter((c) => !c.orders.last_order_at || c.orders.last_order_at < since);
await Promise.all(inactive.map((c) => accounts.deactivate_customer({ id: c.id, reason: "inactive" })));
return { checked: first.total, deactivated: inactive.map((c) => c.name) };`

// needs are that agent's search queries, and the tools that must be found before the program can be
// written.
var needs = []struct{ query, path string }{
	{"list all customers with their last login", "crm.list_customers"},
	{"everything about one customer, with the newest order", "crm.get_customer"},
	{"deactivate a customer", "accounts.deactivate_customer"},
}

// An agent does the job through a client, and counts the tokens that a model in its place would
// read and write. It makes the choices that a model would make, and gets all facts from the tools.
type agent struct {
	client *client
	tokens *tokens.Counter
	way    Way
	defs   []definition
}

// listTools lists the tools, as client software does before the first turn.
func (a *agent) listTools(ctx context.Context) error {
	defs, err := listTools(ctx, a.client)
	if err != nil {
		return err
	}
	a.defs = defs
	for _, d := range defs {
		text, err := tool.Marshal(d)
		if err != nil {
			return err
		}
		a.way.Tokens.Definitions += a.tokens.Count(string(text), 0)
	}
	a.way.Tools = len(defs)
	a.way.Tokens.Job = a.tokens.Count(job, 0)
	return nil
}

// countContext returns the number of tokens in the model's context.
func (w *Way) countContext() int {
	t := w.Tokens
	return t.Definitions + t.Job + t.Calls + t.Results + t.Answer
}

// takeTurn is one turn of the model: it reads the whole context and writes calls. The calls are
// made at once, and their results are added to the context.
func (a *agent) takeTurn(ctx context.Context, calls ...call) ([]string, error) {
	a.way.Turns++
	a.way.Tokens.Read += a.way.countContext()
	for _, k := range calls {
		text, err := tool.Marshal(k)
		if err != nil {
			return nil, err
		}
		n := a.tokens.Count(string(text), 0)
		a.way.Tokens.Calls += n
		a.way.Tokens.Written += n
		a.way.Calls++
	}
	start := time.Now()
	texts, err := a.callTogether(ctx, calls)
	a.way.took += time.Since(start)
	for _, t := range texts {
		a.way.Tokens.Results += a.tokens.Count(t, 0)
	}
	return texts, err
}

func (a *agent) callTogether(ctx context.Context, calls []call) ([]string, error) {
	texts := make([]string, len(calls))
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, k := range calls {
		wg.Go(func() { texts[i], errs[i] = a.client.callTool(ctx, k) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// finishJob is the last turn: the model writes its answer.
func (a *agent) finishJob(names []string) {
	a.way.Turns++
	a.way.Tokens.Read += a.way.countContext()
	text := fmt.Sprintf("%d customers were inactive and are now deactivated: %s.", len(names),
		strings.Join(names, ", "))
	a.way.Tokens.Answer = a.tokens.Count(text, 0)
	a.way.Tokens.Written += a.way.Tokens.Answer
}

// findTool returns the listed name of an upstream's tool.
func (a *agent) findTool(upstream, name string) (string, error) {
	for _, d := range a.defs {
		if strings.HasPrefix(d.Name, upstream) && strings.HasSuffix(d.Name, name) {
			return d.Name, nil
		}
	}
	return "", fmt.Errorf("%s.%s is not among the %d tools listed", upstream, name, len(a.defs))
}

// makeCalls returns calls of one tool, one for each of args.
func (a *agent) makeCalls(upstream, name string, args ...any) ([]call, error) {
	listed, err := a.findTool(upstream, name)
	if err != nil {
		return nil, err
	}
	out := make([]call, len(args))
	for i, v := range args {
		raw, err := tool.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[i] = call{listed, raw}
	}
	return out, nil
}

// useTool makes calls of one tool: all in one turn if parallel is set, otherwise each in its own
// turn.
func (a *agent) useTool(ctx context.Context, parallel bool, upstream, name string, args ...any) ([]string, error) {
	calls, err := a.makeCalls(upstream, name, args...)
	if err != nil {
		return nil, err
	}
	if parallel && len(calls) > 0 {
		return a.takeTurn(ctx, calls...)
	}
	var all []string
	for _, k := range calls {
		texts, err := a.takeTurn(ctx, k)
		if err != nil {
			return nil, err
		}
		all = append(all, texts...)
	}
	return all, nil
}

type pageArgs struct {
	Status  string `json:"status"`
	PerPage int    `json:"per_page"`
	Page    int    `json:"page,omitempty"`
}

type reasonArgs struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// toolByTool does the job with direct tool calls. It requests details only for customers who may be
// inactive according to the list, and asks for the largest pages.
func (a *agent) toolByTool(ctx context.Context, parallel bool) error {
	if err := a.listTools(ctx); err != nil {
		return err
	}
	type page struct {
		Customers []customer `json:"customers"`
		Total     int        `json:"total"`
	}
	const size = 50
	texts, err := a.useTool(ctx, parallel, "crm", "list_customers", pageArgs{"active", size, 0})
	if err != nil {
		return err
	}
	first, err := parseAll[page](texts)
	if err != nil {
		return err
	}
	var rest []any
	for n := 2; (n-1)*size < first[0].Total; n++ {
		rest = append(rest, pageArgs{"active", size, n})
	}
	if texts, err = a.useTool(ctx, parallel, "crm", "list_customers", rest...); err != nil {
		return err
	}
	pages, err := parseAll[page](texts)
	if err != nil {
		return err
	}
	var quiet []any
	for _, p := range append(first, pages...) {
		for _, c := range p.Customers {
			if c.LastLogin < formatTime(cutoff) {
				quiet = append(quiet, byID{c.ID})
			}
		}
	}
	if texts, err = a.useTool(ctx, parallel, "crm", "get_customer", quiet...); err != nil {
		return err
	}
	profiles, err := parseAll[profile](texts)
	if err != nil {
		return err
	}
	var inactive []any
	var names []string
	for _, p := range profiles {
		if at := p.Orders.LastOrderAt; at == nil || *at < formatTime(cutoff) {
			inactive = append(inactive, reasonArgs{p.ID, "inactive"})
			names = append(names, p.Name)
		}
	}
	if _, err = a.useTool(ctx, parallel, "accounts", "deactivate_customer", inactive...); err != nil {
		return err
	}
	a.finishJob(names)
	return nil
}

func parseAll[T any](texts []string) ([]T, error) {
	out := make([]T, len(texts))
	for i, t := range texts {
		if err := json.Unmarshal([]byte(t), &out[i]); err != nil {
			return nil, fmt.Errorf("answer of a tool: %w", err)
		}
	}
	return out, nil
}

// oneProgram does the job with one program: searches, then the program, which returns the names.
func (a *agent) oneProgram(ctx context.Context) error {
	if err := a.listTools(ctx); err != nil {
		return err
	}
	if err := a.searchTools(ctx); err != nil {
		return err
	}
	args, err := tool.Marshal(map[string]string{"code": program})
	if err != nil {
		return err
	}
	texts, err := a.takeTurn(ctx, call{"execute", args})
	if err != nil {
		return err
	}
	var value struct {
		Deactivated []string `json:"deactivated"`
	}
	if err := json.NewDecoder(strings.NewReader(texts[0])).Decode(&value); err != nil {
		return fmt.Errorf("answer of execute: %w:\n%s", err, texts[0])
	}
	a.way.Answered = texts[0]
	a.finishJob(value.Deactivated)
	return nil
}

// searchArguments are the arguments of search.
type searchArguments struct {
	Detail string `json:"detail,omitempty"`
	Limit  int    `json:"limit"`
	Query  string `json:"query"`
}

// searchTools searches for the tools that the program needs, all in one turn. It repeats the search
// with more hits for tools that it missed.
func (a *agent) searchTools(ctx context.Context) error {
	left := needs
	for _, limit := range []int{2, 10} {
		var calls []call
		for _, n := range left {
			args, err := tool.Marshal(searchArguments{Limit: limit, Query: n.query})
			if err != nil {
				return err
			}
			calls = append(calls, call{"search", args})
		}
		texts, err := a.takeTurn(ctx, calls...)
		if err != nil {
			return err
		}
		found := strings.Join(texts, "\n")
		left = slices.DeleteFunc(slices.Clone(left), func(n struct{ query, path string }) bool {
			return strings.Contains(found, n.path+"(")
		})
		if len(left) == 0 {
			return nil
		}
	}
	return fmt.Errorf("search didn't find %s when asked for %q: without it the program can't be written", left[0].path,
		left[0].query)
}

// waitUntilReady waits until all tools are available: upstreams connect while the agent's client is
// already being answered.
func waitUntilReady(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := ask()
		if ok {
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait for the demo's MCP servers: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the demo's MCP servers: %w", ctx.Err())
		}
	}
}

// hasAllTools reports whether all tools of both servers are listed.
func (c *client) hasAllTools(ctx context.Context) (bool, error) {
	defs, err := listTools(ctx, c)
	if err != nil {
		return false, err
	}
	for _, name := range []string{"list_customers", "deactivate_customer"} {
		if !slices.ContainsFunc(defs, func(d definition) bool { return strings.HasSuffix(d.Name, name) }) {
			return false, nil
		}
	}
	return true, nil
}

// findsTools reports whether search finds the tools of both servers.
func (c *client) findsTools(ctx context.Context) (bool, error) {
	for _, n := range needs {
		args, err := tool.Marshal(searchArguments{Detail: "brief", Limit: 10, Query: n.query})
		if err != nil {
			return false, err
		}
		text, err := c.callTool(ctx, call{"search", args})
		if err != nil || !strings.Contains(text, n.path) {
			return false, err
		}
	}
	return true, nil
}
