package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
)

// A routeBook records which routes of the API have answered with success.
type routeBook struct {
	mu   sync.Mutex
	seen map[string]bool // "GET /api/v1/tools"
}

// add records the route of a request.
func (b *routeBook) add(r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[r.Method+" "+r.URL.EscapedPath()] = true
}

// A recorder is the transport of a client whose routes are recorded.
type recorder struct {
	next http.RoundTripper
	book *routeBook
}

func (r recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	next := r.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(q)
	if err == nil && resp.StatusCode/100 == 2 {
		r.book.add(q)
	}
	return resp, err
}

// record returns a client that does what c does, and records its routes.
func (b *routeBook) record(c *api.Client) *api.Client {
	return &api.Client{Base: c.Base, HTTP: &http.Client{Transport: recorder{c.HTTP.Transport, b}}}
}

// tripped fails the test if a call has failed, and returns its result.
func tripped[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Errorf("a call of the client failed: %v", err)
		}
		return v
	}
}

// notForClients has the routes that the Go client has no method for.
var notForClients = map[string]string{
	"GET /api/v1/docs": "it is a page for people",
}

// TestClientRoundTrip calls each route of the API with the Go client, over the socket or the
// network, at a real server. A route that the client lacks, or that no call here covers, fails.
func TestClientRoundTrip(t *testing.T) {
	t.Parallel()
	book := &routeBook{seen: map[string]bool{}}
	var routes map[string]string // pattern of the path, by method and path of the document
	t.Run("shared", func(t *testing.T) {
		hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(hook.Close)
		p := newPeer(t)
		d, _ := run(t, t.TempDir(), "policy: ask-for-writes\nmcpServers: { peer: { url: '"+p.URL+"' } }\n"+
			"notify: { hook: { webhook: '"+hook.URL+"', secret: 0123456789abcdef, per_minute: 600 } }")
		c := book.record(d.Client())
		routes = documentedRoutes(t, c)
		tripState(t, c)
		id := tripExecutions(t, c)
		tripSessions(t, c)
		tripSkills(t, c)
		tripAudit(t, c, id)
		tripPolicies(t, c)
		tripAdmin(t, c)
		tripStop(t, c)
	})
	t.Run("accept", func(t *testing.T) {
		dir, p := t.TempDir(), newShifty(t)
		first, stop := p.run(t, dir)
		awaitTool(t, first, "drop_table", func(api.Tool) bool { return true })
		stop()
		p.say("drop_table", reads)
		d, _ := p.run(t, dir)
		awaitTool(t, d, "drop_table", func(x api.Tool) bool { return x.Weaker != nil })
		claim := claimOf(t, d, "drop_table")
		tripped[*api.WeakerHints](t)(book.record(d.Client()).AcceptHints(t.Context(), "db.drop_table", claim.Claim))
	})
	t.Run("policies", func(t *testing.T) {
		r := newTierRig(t)
		r.start(anyTier, nil)
		p := api.PolicyFolder{Client: book.record(r.d.Client())}
		files := tripped[*api.PolicyFiles](t)(p.ReadFiles(t.Context()))
		tripped[*api.PolicyReport](t)(p.EditFile(t.Context(), api.PolicyEdit{Digest: files.Digest,
			File: api.PolicyFile{Name: "more.cedar", Text: anyTier}}))
	})
	t.Run("signin", func(t *testing.T) { tripSignIn(t, book) })
	boxes := t.Run("sandboxes", func(t *testing.T) {
		r := newProcessRig(t, inSandboxes)
		client := book.record(r.d.Client())
		tripSandboxes(t, client.OwnSandboxes())
		tripImageCopy(t, client)
		putImage(t, r.dir, image.Manifest{Name: "warm"}, map[string]string{"usr/share/warm": "x"})
		w := tripped[*api.ImageWarmth](t)(book.record(r.d.Client()).WarmImage(t.Context(), "warm",
			api.ImageWarmRequest{}))
		if w != nil && w.Ready != 1 {
			t.Errorf("WarmImage: %+v, want one that waits", w)
		}
	})
	for route, pattern := range routes {
		covered := slices.ContainsFunc(book.routes(), regexp.MustCompile(pattern).MatchString)
		switch why := notForClients[route]; {
		case covered && why != "":
			t.Errorf("%s is called, so it should not be listed as %q", route, why)
		case !covered && why == "" && (boxes && !book.lacksBoxes() || !needsBoxes(route)):
			t.Errorf("%s is called by no method of the client in this test: add one, and call it", route)
		}
	}
}

// needsBoxes reports whether a route needs process sandboxes.
func needsBoxes(route string) bool {
	return strings.Contains(route, "/me/sandboxes") || strings.Contains(route, "/images/")
}

func (b *routeBook) routes() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.seen {
		all = append(all, r)
	}
	return all
}

// lacksBoxes reports whether no sandbox could be created, as on a host without process sandboxes.
func (b *routeBook) lacksBoxes() bool {
	return !slices.Contains(b.routes(), "POST /api/v1/me/sandboxes")
}

// documentedRoutes returns the routes of the OpenAPI document, each with a pattern for requests. It
// has all routes of the server: see httpapi.TestOpenAPI.
func documentedRoutes(t *testing.T, c *api.Client) map[string]string {
	t.Helper()
	text := tripped[json.RawMessage](t)(c.ReadDocument(t.Context()))
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("the document: %v", err)
	}
	out := map[string]string{}
	for path, methods := range doc.Paths {
		pattern := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		for method := range methods {
			m := strings.ToUpper(method)
			out[m+" "+path] = "^" + m + " " + pattern + "$"
		}
	}
	if len(out) < 60 {
		t.Fatalf("the document has only %d routes", len(out))
	}
	return out
}

// tripState reads the state of the process and the tools, some of it in pages.
func tripState(t *testing.T, c *api.Client) {
	ctx := t.Context()
	if s := tripped[*api.Status](t)(c.Status(ctx)); s.Version != "test" {
		t.Errorf("the status is %+v", s)
	}
	tripped[[]api.LogLine](t)(c.ReadLogs(ctx, 0, false))
	if all := tripped[[]api.Upstream](t)(c.Upstreams(ctx)); len(all) != 1 || all[0].Name != "peer" {
		t.Errorf("the upstreams are %+v", all)
	}
	tripped[[]api.Capability](t)(c.Sandboxes(ctx))
	whole := tripped[[]api.Tool](t)(c.Tools(ctx))
	var paths []string
	for page, err := range api.ListPages(ctx, 1, c.Tools) {
		if err != nil || len(page) != 1 {
			t.Fatalf("a page of tools: %+v, %v, want one tool", page, err)
		}
		paths = append(paths, page[0].Path)
	}
	if len(whole) < 2 || len(paths) != len(whole) || !slices.Contains(paths, "peer.echo") {
		t.Errorf("the tools in pages are %q, and %d at once", paths, len(whole))
	}
	if x := tripped[*api.ToolDetail](t)(c.Tool(ctx, "peer.echo")); len(x.InputSchema) == 0 {
		t.Errorf("the tool is %+v", x)
	}
	tripped[*api.Hits](t)(c.Search(ctx, "number", 3))
	tripped[map[string]string](t)(c.Types(ctx))
	tripped[*api.Usage](t)(c.Usage(ctx, api.UsageQuery{}))
}

// tripExecutions runs a program that needs approval, decides that, and returns the execution.
func tripExecutions(t *testing.T, c *api.Client) (id string) {
	ctx := t.Context()
	x := tripped[*api.Execution](t)(c.Run(ctx, api.RunRequest{
		Code: `await callTool("peer.meet", { n: 1 }); 42`, NoWait: true}))
	open := tripped[[]api.Approval](t)(c.Approvals().ListFor(ctx, x.ID, false))
	if len(open) != 1 {
		t.Fatalf("%d requests are open, want 1", len(open))
	}
	one := tripped[*api.Approval](t)(c.Approvals().Get(ctx, open[0].ID))
	tripped[*api.Approval](t)(c.Approvals().Decide(ctx, one.ID, api.Decision{Approve: true, Digest: one.Digest}))
	until(t, func() bool {
		return tripped[*api.Execution](t)(c.Execution(ctx, x.ID)).State == api.StateDone
	})
	d := tripped[*api.ExecutionDetail](t)(c.Journal(ctx, x.ID))
	tripped[*api.ExecutionDetail](t)(c.Watch(ctx, x.ID, "an old version"))
	if len(d.Calls) != 1 || string(d.Value) != "42" {
		t.Errorf("the execution is %+v", d)
	}
	tripped[*api.ExecutionCall](t)(c.Call(ctx, x.ID, 1))
	if r := tripped[*api.Replay](t)(c.Replay(ctx, x.ID, api.ReplayRequest{})); !r.Same {
		t.Errorf("the replay is %+v", r)
	}
	page := tripped[*api.ExecutionPage](t)(c.Executions(ctx, api.ExecutionFilter{Limit: 1}))
	if len(page.Executions) != 1 {
		t.Errorf("the list is %+v", page)
	}
	return x.ID
}

// tripStop stops an execution that waits, and follows the events of that.
func tripStop(t *testing.T, c *api.Client) {
	x := tripped[*api.Execution](t)(c.Run(t.Context(), api.RunRequest{
		Code: `await callTool("peer.meet", { n: 2 })`, NoWait: true}))
	if err := c.StopExecution(t.Context(), x.ID); err != nil {
		t.Errorf("StopExecution: %v", err)
	}
	err := c.FollowEvents(t.Context(), "of another process-1",
		func(api.Event) error { return errStop })
	if err != errStop {
		t.Errorf("FollowEvents: %v", err)
	}
}

// tripSessions uses a session and its files.
func tripSessions(t *testing.T, c *api.Client) {
	ctx := t.Context()
	tripped[*api.Execution](t)(c.Run(ctx, api.RunRequest{Session: "work", Code: "let n = 1"}))
	tripped[[]api.Session](t)(c.Sessions().List(ctx))
	tripped[*api.Session](t)(c.Sessions().Get(ctx, "work"))
	tripped[*api.Session](t)(c.Sessions().Fork(ctx, "work", "other"))
	tripped[*api.Session](t)(c.Sessions().Suspend(ctx, "work"))
	tripped[*api.Session](t)(c.Sessions().Resume(ctx, "work"))
	var file, text bytes.Buffer
	for _, err := range []error{
		c.Sessions().Export(ctx, "work", "a passphrase", &file),
		c.Sessions().WriteFile(ctx, "work", "a.txt", strings.NewReader("hello")),
		c.Sessions().ReadFile(ctx, "work", "a.txt", &text),
		c.Sessions().ChangeFile(ctx, "work", api.FileOp{Op: "rename", Path: "a.txt", To: "b.txt"}),
		c.Sessions().End(ctx, "other"),
	} {
		if err != nil {
			t.Errorf("sessions: %v", err)
		}
	}
	if text.String() != "hello" {
		t.Errorf("the file is %q, want hello", &text)
	}
	tripped[*api.Session](t)(c.Sessions().Import(ctx, "third", "a passphrase", &file))
	tripped[*api.FileInfo](t)(c.Sessions().StatFile(ctx, "work", "b.txt"))
	tripped[[]api.DirEntry](t)(c.Sessions().ListFiles(ctx, "work", "."))
}

// tripSkills saves, shares and removes a skill.
func tripSkills(t *testing.T, c *api.Client) {
	ctx := t.Context()
	tripped[*api.Execution](t)(c.Run(ctx, api.RunRequest{Code: `import { writeFile } from "node:fs/promises";
		await writeFile("./skills/twice.ts", "export const twice = (x: number): number => 2 * x;\n"); 1`}))
	if all := tripped[[]api.Skill](t)(c.Skills().List(ctx)); len(all) != 1 {
		t.Errorf("the skills are %+v", all)
	}
	tripped[*api.Skill](t)(c.Skills().Get(ctx, "twice.ts"))
	for _, err := range []error{c.Skills().Share(ctx, "twice.ts", true), c.Skills().Share(ctx, "twice.ts", false),
		c.Skills().Remove(ctx, "twice.ts")} {
		if err != nil {
			t.Errorf("skills: %v", err)
		}
	}
}

// tripAudit reads, verifies and proves the record.
func tripAudit(t *testing.T, c *api.Client, execution string) {
	ctx := t.Context()
	point := tripped[*api.AuditCheckpoint](t)(c.Audit().MakeCheckpoint(ctx))
	tripped[[]api.AuditCheckpoint](t)(c.Audit().ListCheckpoints(ctx))
	tripped[*api.AuditState](t)(c.Audit().ReadState(ctx))
	all := tripped[[]api.AuditRecord](t)(c.Audit().ListRecords(ctx, api.AuditQuery{Execution: execution}))
	if len(all) == 0 {
		t.Fatal("the execution has no records")
	}
	n := 0
	for page, err := range api.ListPages(ctx, 1, func(ctx context.Context) ([]api.AuditRecord, error) {
		return c.Audit().ListRecords(ctx, api.AuditQuery{Execution: execution})
	}) {
		if err != nil {
			t.Fatalf("a page of records: %v", err)
		}
		n += len(page)
	}
	if n != len(all) {
		t.Errorf("%d records in pages, want %d", n, len(all))
	}
	tripped[*api.AuditRecord](t)(c.Audit().ReadRecord(ctx, all[0].ID))
	tripped[*api.AuditProof](t)(c.Audit().ProveRecord(ctx, all[0].ID, ""))
	tripped[*api.AuditProof](t)(c.Audit().ProveConsistency(ctx, point.Checkpoint))
	if r := tripped[*api.AuditReport](t)(c.Audit().Verify(ctx, point.Checkpoint)); !r.OK {
		t.Errorf("verify reports %+v", r)
	}
	var csv, zip bytes.Buffer
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if err := c.Audit().Export(ctx, "csv", from, to, &csv); err != nil || csv.Len() == 0 {
		t.Errorf("ExportAudit: %v, %d bytes", err, csv.Len())
	}
	if err := c.Audit().WriteEvidence(ctx, from, to, &zip); err != nil || zip.Len() == 0 {
		t.Errorf("AuditEvidence: %v, %d bytes", err, zip.Len())
	}
}

func tripPolicies(t *testing.T, c *api.Client) {
	ctx := t.Context()
	if s := tripped[string](t)(c.Policies().ReadSchema(ctx)); s == "" {
		t.Error("the schema is empty")
	}
	files := []api.PolicyFile{{Name: "a.cedar", Text: "permit (principal, action, resource);"}}
	tripped[*api.PolicyReport](t)(c.Policies().Check(ctx, files))
	tripped[*api.PolicyAnswer](t)(c.Policies().Explain(ctx, api.PolicyQuestion{Tool: "peer.echo"}))
	tripped[*api.PolicyReplay](t)(c.Policies().Replay(ctx, api.PolicyReplayRequest{Since: time.Now().Add(-time.Hour)}))
}

// tripAdmin manages keys, secrets, notices and old data.
func tripAdmin(t *testing.T, c *api.Client) {
	ctx := t.Context()
	k := tripped[*api.Key](t)(c.Keys().Create(ctx, api.KeyRequest{Name: "ci"}))
	tripped[*api.Key](t)(c.Keys().Rotate(ctx, "ci", api.RotateRequest{}))
	if all := tripped[[]api.Key](t)(c.Keys().List(ctx)); len(all) != 1 || all[0].ID != k.ID {
		t.Errorf("the keys are %+v", all)
	}
	tripped[*api.Key](t)(c.Keys().Revoke(ctx, "ci"))
	tripped[*api.Secret](t)(c.Secrets().Set(ctx, "", "TOKEN", "a value"))
	if all := tripped[[]api.Secret](t)(c.Secrets().List(ctx, "")); len(all) != 1 {
		t.Errorf("the secrets are %+v", all)
	}
	if err := c.Secrets().Remove(ctx, "", "TOKEN"); err != nil {
		t.Errorf("RemoveSecret: %v", err)
	}
	own := c.OwnSecrets()
	tripped[*api.Secret](t)(own.Set(ctx, "MINE", "a value"))
	tripped[[]api.Secret](t)(own.List(ctx))
	if err := own.Remove(ctx, "MINE"); err != nil {
		t.Errorf("RemoveSecret: %v", err)
	}
	tripped[[]api.NoticeChannel](t)(c.Notices().ListChannels(ctx))
	tripped[[]api.NoticeChannel](t)(c.Notices().SendTest(ctx, ""))
	for _, kind := range api.PruneKinds {
		tripped[*api.PruneStep](t)(c.PruneData(ctx,
			api.PruneRequest{Kind: kind, Before: time.Now(), DryRun: true}))
	}
}

// tripSignIn signs in to an upstream, and out, by both ways.
func tripSignIn(t *testing.T, book *routeBook) {
	s := newSignInScene(t, "")
	for _, way := range []struct {
		c      *api.Client
		target api.SignInTarget
	}{
		{book.record(s.client("ann")), ownPeer},
		{book.record(s.d.Client()), api.SignInTarget{Upstream: "peer", Owner: "key:bob"}},
	} {
		in := tripped[*api.SignIn](t)(way.c.SignIns().Begin(t.Context(), way.target, 45678))
		if in == nil || in.URL == "" {
			t.Fatalf("the sign-in is %+v, want an address", in)
		}
		at := consent(t, in.URL, "one")
		tripped[*api.SignIn](t)(way.c.SignIns().Paste(t.Context(), way.target, in.ID, at))
		if got := tripped[*api.SignIn](t)(way.c.SignIns().Get(t.Context(), way.target,
			in.ID)); got.State != api.SignInDone {
			t.Errorf("the sign-in is %+v, want done", got)
		}
		tripped[*api.SignOut](t)(way.c.SignIns().SignOut(t.Context(), way.target))
	}
}

// tripImageCopy builds an image from a sandbox.
func tripImageCopy(t *testing.T, c *api.Client) {
	ctx, boxes := t.Context(), c.OwnSandboxes()
	tripped[*api.OwnSandbox](t)(boxes.CreateSandbox(ctx, api.OwnSandboxRequest{Name: "packed"}))
	tripped[*api.SandboxAnswer](t)(boxes.UseSandbox(ctx, "packed", "run",
		api.SandboxOperation{Command: "mkdir -p node_modules/a && echo 1 > node_modules/a/index.js"}))
	i := tripped[*api.CopiedImage](t)(c.CopyImage(ctx, "copied", api.ImageCopyRequest{Sandbox: "packed"}))
	if i != nil && len(i.Notes) == 0 {
		t.Errorf("CopyImage: %+v, want notes on what was copied", i)
	}
}

func tripSandboxes(t *testing.T, c api.SandboxClient) {
	ctx := t.Context()
	tripped[*api.OwnSandbox](t)(c.CreateSandbox(ctx, api.OwnSandboxRequest{Name: "box"}))
	tripped[[]api.OwnSandbox](t)(c.ListSandboxes(ctx))
	tripped[*api.OwnSandbox](t)(c.ShowSandbox(ctx, "box"))
	if a := tripped[*api.SandboxAnswer](t)(c.UseSandbox(ctx, "box", "run",
		api.SandboxOperation{Command: "echo hello"})); a.Stdout != "hello\n" {
		t.Errorf("run answers %+v", a)
	}
	var out, errs bytes.Buffer
	tripped[*api.SandboxAnswer](t)(c.RunInSandbox(ctx, "box", api.SandboxOperation{Command: "echo again"}, &out, &errs))
	if out.String() != "again\n" {
		t.Errorf("run writes %q", &out)
	}
	if s := tripped[*api.OwnSandbox](t)(c.SuspendSandbox(ctx, "box")); s.State != "frozen" {
		t.Errorf("SuspendSandbox: %+v", s)
	}
	if s := tripped[*api.OwnSandbox](t)(c.ResumeSandbox(ctx, "box")); s.State != "idle" {
		t.Errorf("ResumeSandbox: %+v", s)
	}
	if err := c.EndSandbox(ctx, "box"); err != nil {
		t.Errorf("EndSandbox: %v", err)
	}
}
