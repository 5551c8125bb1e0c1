package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/policy/desk"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A shop is a catalog with one upstream, a folder of policies, and gateways under them.
type shop struct {
	dir      string
	policies *policies
	catalog  *catalog.Catalog
	audit    *audit.Log
	told     []string // versions that came into force; "" for rejected ones
	changes  int
}

func newShop(t *testing.T, text string) *shop {
	t.Helper()
	s := &shop{dir: t.TempDir(), catalog: catalog.New(catalog.Config{}), audit: audittest.NewLog()}
	yes := true
	schema := json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`)
	ok := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "done"), nil
	})
	s.catalog.Set(catalog.Source{Name: "shop", Caller: ok, Health: tool.Health{State: tool.Ready}, Tools: []*tool.Tool{
		{Name: "get", InputSchema: schema, Annotations: tool.Annotations{ReadOnly: &yes}},
		{Name: "put", InputSchema: schema},
	}})
	s.write(t, text)
	settings := config.Default()
	settings.Policy, settings.PolicyDir = "mine", s.dir
	var err error
	s.policies, err = newPolicies(settings,
		gateway.Config{Catalog: s.catalog, Approval: approval.New(approval.Config{}), Audit: s.audit}, s,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("newPolicies: %v", err)
	}
	return s
}

func (s *shop) updateTools() { s.changes++ }

func (s *shop) updateOffers() {}

func (s *shop) recordPolicy(_ context.Context, e *policy.Engine, err error) {
	if err != nil {
		s.told = append(s.told, "")
		return
	}
	s.told = append(s.told, e.Version())
}

// noUpstreams are upstreams without weaker claims that are ready at once.
type noUpstreams struct{}

func (noUpstreams) WaitReady(context.Context) {}

func (noUpstreams) WaitReadyFor(context.Context, tool.Principal)                 {}
func (noUpstreams) addResources(context.Context, []*tool.Offers, tool.Principal) {}

func (noUpstreams) weakerHints(*tool.Tool, string) *api.WeakerHints { return nil }

func (s *shop) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "own.cedar"), []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}

func (s *shop) call(path string, p tool.Principal) error {
	_, err := s.policies.gate.Load().Call(context.Background(),
		&tool.Call{Path: path, Principal: p, Arguments: json.RawMessage(`{"id":1}`)})
	return err
}

const (
	readsOnly  = `permit (principal, action, resource) when { resource.readOnly };`
	everything = `permit (principal, action, resource);`
)

func TestPoliciesAreReadAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, readsOnly)
	first := s.policies.engine.Load().Version()
	s.policies.reloadFolder(t.Context())
	if len(s.told) != 0 || s.changes != 0 {
		t.Errorf("nothing changed, and %v, %d changes were told", s.told, s.changes)
	}
	if s.call("shop.put", tool.Principal{}) == nil {
		t.Error("a write was allowed")
	}

	s.write(t, `permit (principal, action, resource) when { resource.readonly };`)
	s.policies.reloadFolder(t.Context())
	s.policies.reloadFolder(t.Context())
	e, problem := s.policies.state()
	if e.Version() != first || !strings.Contains(problem, `own.cedar:1:54`) ||
		!strings.Contains(problem, "did you mean") || len(s.told) != 1 || s.told[0] != "" {
		t.Errorf("after a mistake: version %s (was %s), problem %q, told %q", e.Version(), first, problem, s.told)
	}
	if s.call("shop.put", tool.Principal{}) == nil || s.call("shop.get", tool.Principal{}) != nil {
		t.Error("a mistake changed what is allowed")
	}

	s.write(t, everything)
	s.policies.reloadFolder(t.Context())
	e, problem = s.policies.state()
	if e.Version() == first || problem != "" || len(s.told) != 2 || s.told[1] != e.Version() || s.changes != 1 {
		t.Errorf("version %s, problem %q, told %q, %d changes", e.Version(), problem, s.told, s.changes)
	}
	if err := s.call("shop.put", tool.Principal{}); err != nil {
		t.Errorf("call: %v", err)
	}

	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatalf("os.RemoveAll: %v", err)
	}
	s.policies.reloadFolder(t.Context())
	if _, problem = s.policies.state(); !strings.Contains(problem, "does not exist") ||
		s.call("shop.put", tool.Principal{}) != nil {
		t.Errorf("without the folder: %q", problem)
	}
}

// TestPoliciesOfAnOpenEditor checks that a file counts only when it was the same at two looks.
func TestPoliciesOfAnOpenEditor(t *testing.T) {
	t.Parallel()
	s := newShop(t, everything)
	s.policies.watchFolder(t.Context())
	for _, text := range []string{"", readsOnly, everything} { // an editor empties the file, and writes it
		s.write(t, text)
		s.policies.watchFolder(t.Context())
		if err := s.call("shop.put", tool.Principal{}); err != nil {
			t.Errorf("after one look at %q: %v, want the previous policies", text, err)
		}
	}
	s.write(t, readsOnly)
	s.policies.watchFolder(t.Context())
	s.policies.watchFolder(t.Context())
	if s.call("shop.put", tool.Principal{}) == nil {
		t.Error("after two looks the new policies are not in force")
	}
}

// TestTurnsOutliveAReload checks that successive gateways share the queue of large work.
func TestTurnsOutliveAReload(t *testing.T) {
	t.Parallel()
	s := newShop(t, everything)
	turns := queue.New(1, 10)
	s.policies.parts.Turns = turns
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", 64<<10) + `"}`)
	for i := range 2 {
		s.write(t, everything+strings.Repeat("\n", i+1))
		s.policies.reloadFolder(t.Context())
		if err := turns.Enter(t.Context(), "eve"); err != nil {
			t.Fatalf("Enter: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		put := &tool.Call{Path: "shop.put", Arguments: large}
		if _, err := s.policies.gate.Load().Call(ctx, put); tool.AsError(err) == nil || !tool.AsError(err).Unsent {
			t.Errorf("reload %d: a large call did not wait for the turn: %v", i+1, err)
		}
		turns.Leave("eve")
		if _, err := s.policies.gate.Load().Call(t.Context(), put); err != nil {
			t.Errorf("reload %d: %v", i+1, err)
		}
	}
}

func TestPoliciesThatAreWrongAtStart(t *testing.T) {
	t.Parallel()
	for _, s := range []*config.Config{{Policy: "nope", PolicyDir: filepath.Join(t.TempDir(), "nope")},
		{Policy: "nope"}} {
		if _, err := newPolicies(s, gateway.Config{}, nil, nil); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("s = %+v, err = %v, want tool.AsError(err) != nil && tool.AsError(err).Kind == "+
				"tool.Invalid", s, err)
		}
	}
}

// TestDeclarationsAreOfWhatMayBeSeen checks that each principal gets declarations of its visible
// tools only, and that principals who see the same tools share them.
func TestDeclarationsAreOfWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	s := newShop(t, `permit (principal, action, resource) when { resource.readOnly || principal in Group::"dev" };`)
	x := &index{
		policies: s.policies, catalog: s.catalog, upstreams: noUpstreams{},
	}
	for _, c := range []struct {
		who   tool.Principal
		write bool
	}{{tool.Principal{ID: "a"}, false}, {tool.Principal{ID: "b", Groups: []string{"dev"}}, true},
		{tool.Principal{ID: "c"}, false}} {
		files := x.Types(t.Context(), c.who)
		_, get := files["tools/shop/get.ts"]
		_, put := files["tools/shop/put.ts"]
		_, err := x.Tool(t.Context(), c.who, "shop.put")
		hits, _ := x.Search(t.Context(), c.who, "put", 5)
		shown := false
		for _, h := range hits {
			shown = shown || h.Path == "shop.put"
		}
		if !get || put != c.write || (err == nil) != c.write || shown != c.write ||
			len(x.ListTools(t.Context(), c.who)) != len(x.Tools(t.Context(), c.who)) ||
			strings.Contains(x.DescribeTools(t.Context(), c.who), "put(") != c.write {
			t.Errorf("%s: get %t, put %t, tool %v, found %t", c.who.ID, get, put, err, shown)
		}
		if strings.Contains(files["tools/shop/__init__.pyi"], "put") != c.write {
			t.Errorf("%s: python %s", c.who.ID, files["tools/shop/__init__.pyi"])
		}
	}
	if x.trees.Len() != 2 {
		t.Errorf("%d trees for two views", x.trees.Len())
	}
}

var ann = tool.Principal{ID: "local:ann", Roles: []string{"admin"}}

func (s *shop) desk() *desk.Desk {
	c := config.Default()
	return desk.New(desk.Config{Policies: s.policies, Rules: fixedRules(c.Tools), Tier: c.Sandbox.Tier,
		Strongest: c.Sandbox.Strongest, Catalog: s.catalog, Audit: s.audit, Local: ann})
}

func TestReplaySaysWhatWouldChange(t *testing.T) {
	t.Parallel()
	s := newShop(t, everything)
	for _, who := range []string{"local:ann", "key:ci", "key:ci"} {
		for _, path := range []string{"shop.get", "shop.put"} {
			if err := s.call(path, tool.Principal{ID: who}); err != nil {
				t.Fatalf("call: %v", err)
			}
		}
	}
	d := s.desk()
	since := time.Now().Add(-time.Hour)
	r, err := d.Replay(t.Context(), ann,
		api.PolicyReplayRequest{Since: since, Files: []api.PolicyFile{{Name: "x.cedar", Text: readsOnly}}})
	if err != nil || r.Calls != 6 || r.Same != 3 || len(r.Changed) != 2 || len(r.Undecided) != 0 {
		t.Fatalf("r = %+v, err = %v, want err == nil && r.Calls == 6 && r.Same == 3 && len(r.Changed) "+
			"== 2 && len(r.Undecided) == 0", r, err)
	}
	if c := r.Changed[0]; c.Calls != 2 || c.Principal != "key:ci" || c.Tool != "shop.put" || c.From != "allow" ||
		c.To != "deny" || c.Policy != "none" || c.Record == "" {
		t.Errorf("c = %+v", c)
	}
	groups := []api.PolicyFile{{Name: "x.cedar", Text: `permit (principal in Group::"dev", action, resource);`}}
	if r, err = d.Replay(t.Context(), ann, api.PolicyReplayRequest{Since: since, Files: groups}); err != nil ||
		len(r.Undecided) != 1 || r.Undecided[0].Calls != 4 || len(r.Changed) != 2 {
		t.Errorf("by groups: %+v, %v", r, err)
	}
	args := []api.PolicyFile{{Name: "x.cedar",
		Text: `permit (principal, action, resource) when { context.arguments.id == 1 };`}}
	if r, err = d.Replay(t.Context(), ann, api.PolicyReplayRequest{Since: since, Files: args}); err != nil ||
		r.Same+sum(r.Undecided) != 6 {
		t.Errorf("by arguments: %+v, %v", r, err)
	}
	s.catalog.Remove("shop")
	if r, err = d.Replay(t.Context(), ann, api.PolicyReplayRequest{Since: since}); err != nil ||
		sum(r.Undecided) != 6 {
		t.Errorf("without the tools: %+v, %v", r, err)
	}
	if r, err = d.Replay(t.Context(), ann, api.PolicyReplayRequest{Since: time.Now().Add(time.Hour)}); err != nil ||
		r.Calls != 0 {
		t.Errorf("of the future: %+v, %v", r, err)
	}
	reads, err := s.audit.Records(t.Context(), audit.Query{Kind: audit.KindRead})
	if err != nil || len(reads) != 5 {
		t.Errorf("%d reads are on the record, %v", len(reads), err)
	}
}

func sum(list []api.PolicyUndecided) (n int) {
	for _, u := range list {
		n += u.Calls
	}
	return n
}

func TestDeskExplainsAndChecks(t *testing.T) {
	t.Parallel()
	s := newShop(t, readsOnly)
	d := s.desk()
	a, err := d.Explain(t.Context(), api.PolicyQuestion{Tool: "shop.put", Arguments: json.RawMessage(`{"id":1}`)})
	if err != nil || a.Effect != "deny" || a.Shown || !strings.Contains(a.Change, "resource.readOnly") ||
		len(a.Policies) != 1 {
		t.Errorf("a = %+v, err = %v", a, err)
	}
	if _, err = d.Explain(t.Context(), api.PolicyQuestion{Tool: "shop.putt"}); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("err = %v, want tool.AsError(err) != nil && tool.AsError(err).Kind == tool.NotFound", err)
	}
	if _, err = d.Explain(t.Context(),
		api.PolicyQuestion{Tool: "shop.put", Arguments: json.RawMessage(`{"id":"x"}`)}); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("err = %v, want tool.AsError(err) != nil && tool.AsError(err).Kind == tool.Invalid", err)
	}
	r, err := d.Check(t.Context(),
		[]api.PolicyFile{{Name: "x.cedar", Text: `permit (principal, action, resource in Upstream::"shpo");`}})
	if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Message, `did you mean "shop"?`) {
		t.Errorf("r = %+v, err = %v, want err == nil && len(r.Problems) == 1 && "+
			"strings.Contains(r.Problems[0].Message, `did you mean \"shop\"?`)", r, err)
	}
	var wrong *policy.Error
	if _, err := d.Explain(t.Context(),
		api.PolicyQuestion{Tool: "shop.put", Files: []api.PolicyFile{{Name: "x.cedar", Text: `permit`}}}); !errors.As(
		err, &wrong) {
		t.Errorf("err = %v, want errors.As( err, &wrong)", err)
	}
}

// TestPoliciesAreRecordedOnce checks that policies are recorded only when they change or are
// rejected, though each process loads them.
func TestPoliciesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, readsOnly)
	first := s.policies.engine.Load()
	s.write(t, everything)
	s.policies.reloadFolder(t.Context())
	second := s.policies.engine.Load()
	o := observer{&Daemon{audit: s.audit, log: slog.New(slog.DiscardHandler)}}
	for _, e := range []*policy.Engine{first, first, second, second, first} {
		o.recordPolicy(t.Context(), e, nil)
	}
	o.recordPolicy(t.Context(), first, tool.Errorf(tool.Invalid, "a mistake"))
	o.recordPolicy(t.Context(), first, nil)
	all, err := s.audit.Records(t.Context(), audit.Query{Kind: audit.KindPolicy})
	if err != nil || len(all) != 5 {
		t.Fatalf("len(all) = %v, err = %v, want err == nil && len(all) == 5", len(all), err)
	}
	for i, want := range []string{first.Version(), first.Version(), first.Version(), second.Version(),
		first.Version()} {
		if r := all[i]; r.Detail["version"] != want || (r.End.Outcome == audit.Failed) != (i == 1) ||
			r.Principal == "" {
			t.Errorf("i = %d, r = %+v, want r.Detail[\"version\"] == want && (r.End.Outcome == "+
				"audit.Failed) == (i == 1) && r.Principal != \"\"", i, r)
		}
	}
}

// fixedRules are settings of tools that don't change.
type fixedRules []policy.Rule

// ListRules implements desk.Rules.
func (r fixedRules) ListRules() []policy.Rule { return r }
