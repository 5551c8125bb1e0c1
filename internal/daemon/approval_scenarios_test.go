package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/cli"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A book is an upstream over HTTP that outlives the daemon in front of it, and counts what it is asked to write, by its arguments byte for byte.
type book struct {
	url    string
	server *mcp.Server
	mu     sync.Mutex
	wrote  map[string]int
	read   map[string]int
}

type entry struct {
	Key string `json:"key"`
}

func newBook(t *testing.T) *book {
	b := &book{server: mcp.NewServer(&mcp.Implementation{Name: "book", Version: "1"}, nil), wrote: map[string]int{}, read: map[string]int{}}
	b.define("Writes one entry")
	mcp.AddTool(b.server, &mcp.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, any, error) {
		return b.count(b.read, a.Key), nil, nil
	})
	type order struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	}
	mcp.AddTool(b.server, &mcp.Tool{Name: "order"}, func(_ context.Context, _ *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, order, error) {
		b.count(b.wrote, a.Key)
		return nil, order{7, a.Key}, nil
	})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	b.url = s.URL
	return b
}

// define adds the tool write, or another one in its place.
func (b *book) define(description string) {
	mcp.AddTool(b.server, &mcp.Tool{Name: "write", Description: description}, func(_ context.Context, r *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, any, error) {
		if want := fmt.Sprintf(`{"key":%q}`, a.Key); string(r.Params.Arguments) != want {
			return nil, nil, fmt.Errorf("sent %s, not %s", r.Params.Arguments, want)
		}
		return b.count(b.wrote, a.Key), nil, nil
	})
}

func (b *book) count(in map[string]int, key string) *mcp.CallToolResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	in[key]++
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s was number %d", key, in[key])}}}
}

// of gives what was written, or read, with keys that begin so, each as often as it was.
func (b *book) of(in map[string]int, prefix string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, n := range in {
		for range n {
			if strings.HasPrefix(key, prefix) {
				out = append(out, strings.TrimPrefix(key, prefix))
			}
		}
	}
	slices.Sort(out)
	return out
}

// A house is a daemon in front of a book, and the people around it.
type house struct {
	dir    string
	book   *book
	config string
	d      *daemon.Daemon
	stop   func()
	keys   map[string]string // by name; of people who share the house
}

// people are the API keys that each house has, with their roles.
var people = map[string][]string{"bot": {"user", "approver"}, "carol": {"approver"}, "dave": {"user"}, "vera": {"viewer"}}

const askForWrites = "policy: ask-for-writes\n"

// newHouse makes a house. more goes into its configuration.
func newHouse(t *testing.T, more string) *house {
	h := &house{dir: t.TempDir(), book: newBook(t), keys: map[string]string{}}
	h.config = more + "auth: { keys: true }\nstart_wait: 30s\nmcpServers: { book: { url: '" + h.book.url + "' } }\n"
	h.open(t)
	for name, roles := range people {
		h.keys[name] = makeKey(t, h.d, api.KeyRequest{Name: name, Person: name, Roles: roles, Scopes: []string{"api", "mcp"}})
	}
	return h
}

// groups is a folder of policies by which people of different groups decide.
const groups = `@id("programs") permit (principal, action == Action::"execute", resource);
@id("reads") permit (principal, action == Action::"call", resource) when { resource.readOnly };
@id("writes") @ask("leads") permit (principal, action == Action::"call", resource == Tool::"book.write");
@id("orders") @ask("finance") permit (principal, action == Action::"call", resource == Tool::"book.order");
`

// open starts the daemon, as serve does.
func (h *house) open(t *testing.T) {
	for name, text := range map[string]string{"biplane.yaml": h.config, "policies/groups.cedar": groups} {
		if err := errors.Join(os.MkdirAll(filepath.Join(h.dir, "policies"), 0o700), os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := daemon.ParseConfig(filepath.Join(h.dir, "biplane.yaml"), []byte(h.config), env)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for { // processes that begin just now, of other scenarios, may hold the folder's lock until they are themselves
		if h.d, err = daemon.New(t.Context(), daemon.Config{Settings: s, DataDir: h.dir, Listen: "127.0.0.1:0", Version: "test", Recover: true}); err == nil {
			break
		}
		if !strings.Contains(err.Error(), "is in use") || time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
	h.stop = running(t, h.d)
}

// restart ends the daemon and starts another one; change may do something in between.
func (h *house) restart(t *testing.T, change func()) {
	h.stop()
	if change != nil {
		change()
	}
	h.open(t)
}

// A channel is how people decide.
type channel func(s *scene, approve bool, id, note string) error

// byCLI decides with the command line, as the user of the machine.
func byCLI(s *scene, approve bool, id, note string) error {
	verb := "deny"
	if approve {
		verb = "approve"
	}
	var out bytes.Buffer
	code := cli.Main(cli.Process{Args: []string{"approvals", verb, id, "--note", note, "--data-dir", s.dir, "--config", filepath.Join(s.dir, "biplane.yaml")}, In: strings.NewReader(""), Out: &out, Err: &out})
	if code != 0 {
		return errors.New(out.String())
	}
	return nil
}

// byAPI decides over the network, as somebody who has the role.
func byAPI(s *scene, approve bool, id, note string) error { return s.as("carol", approve, id, note) }

// A scene is one scenario under way.
type scene struct {
	*testing.T
	*house
	channel channel
	plan    bool
	label   string // what its keys begin with
	run     string // the execution
	who     string // whose it is; empty: the user of the machine
}

func (s *scene) client() *api.Client { return s.d.Client() }

// mine is the client of whose program it is.
func (s *scene) mine() *api.Client {
	if s.who == "" {
		return s.client()
	}
	return clientOf(s.d, s.keys[s.who])
}

// as decides as somebody.
func (s *scene) as(who string, approve bool, id, note string) error {
	_, err := clientOf(s.d, s.keys[who]).Decide(s.Context(), id, api.Decision{Approve: approve, Note: note})
	return err
}

// begin runs a program as somebody ("": the user of the machine), in which K is the label, until it waits or has ended.
func (s *scene) begin(who string, r api.RunRequest) *api.Execution {
	s.Helper()
	if s.plan {
		r.Mode = "plan"
	}
	if r.Language == "" {
		r.Code = fmt.Sprintf("const K = %q;\n%s", s.label, r.Code)
	}
	s.who = who
	x, err := s.mine().Run(s.Context(), r)
	if err != nil {
		s.Fatal(err)
	}
	s.run = x.ID
	return x
}

// waits begins a program that has to wait, and gives what it asks for.
func (s *scene) waits(code string) []api.Approval {
	s.Helper()
	if x := s.begin("", api.RunRequest{Code: code}); x.State != api.StateWaiting {
		s.Fatalf("it is %s: %s %+v", x.State, x.Value, x.Error)
	}
	return s.pending()
}

// pending gives what the program asks for now.
func (s *scene) pending() []api.Approval {
	s.Helper()
	all, err := s.client().Approvals(s.Context(), s.run, false)
	if err != nil || len(all) == 0 {
		s.Fatalf("%d requests, %v", len(all), err)
	}
	return all
}

// decides decides, and must be able to.
func (s *scene) decides(approve bool, id, note string) {
	s.Helper()
	if err := s.channel(s, approve, id, note); err != nil {
		s.Fatal(err)
	}
}

// ends waits until the program has ended.
func (s *scene) ends() *api.ExecutionDetail {
	s.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		d, err := s.mine().Journal(s.Context(), s.run)
		if err != nil {
			s.Fatal(err)
		}
		if d.State != api.StateRunning && d.State != api.StateWaiting { // what it asked for is withdrawn soon
			if left, err := s.client().Approvals(s.Context(), s.run, false); err == nil && len(left) == 0 {
				return d
			}
		}
		if time.Now().After(deadline) {
			s.Fatalf("it is still %s, or waits for a person", d.State)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// done is ends for a program that has to end well.
func (s *scene) done() *api.ExecutionDetail {
	s.Helper()
	d := s.ends()
	if d.State != api.StateDone {
		s.Fatalf("it is %s: %+v", d.State, d.Error)
	}
	return d
}

// fails is ends for a program that has to fail, for a reason.
func (s *scene) fails(why string) *api.ExecutionDetail {
	s.Helper()
	d := s.ends()
	if d.State != api.StateFailed || d.Error == nil || !strings.Contains(d.Error.Message, why) {
		s.Fatalf("it is %s, %+v: want %q", d.State, d.Error, why)
	}
	return d
}

// wrote holds the book against what it must have by now, each once.
func (s *scene) wrote(want ...string) {
	s.Helper()
	if got := s.book.of(s.book.wrote, s.label); !slices.Equal(got, want) {
		s.Errorf("written is %q, and it must be %q", got, want)
	}
}

func (s *scene) refused(err error, kind string) {
	s.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Kind != kind {
		s.Errorf("%v: want an error of kind %s", err, kind)
	}
}

// one writes once, three together.
const (
	one   = `return await book.write({ key: K + "1" })`
	three = `const got = await Promise.all([1, 2, 3].map(i => book.write({ key: K + i }).catch(e => e.kind + " " + e.message))); return got.map(t => t.slice(0, 6))`
)

// A scenario is a row of the table.
type scenario struct {
	name    string
	channel channel // nil: both the command line and the API
	plan    modes   // in which it makes sense
	own     string  // a house of its own, with this configuration; empty: one that many share
	play    func(s *scene)
}

// modes says whether a scenario is played with a plan, without one, or both.
type modes int

const (
	both modes = iota
	alone
	planned
)

// TestApprovalScenarios plays what people, agents and machines do around an approval. Each ends with a look at the upstream: what was written,
// byte for byte, and that it was written once.
func TestApprovalScenarios(t *testing.T) {
	shared := newHouse(t, askForWrites)
	n := 0
	for _, row := range slices.Concat(decisions, deciders, changes, restarts, plans) {
		channels := map[string]channel{"command line": byCLI, "API": byAPI}
		if row.channel != nil {
			channels = map[string]channel{"": row.channel}
		}
		for by, c := range channels {
			for _, plan := range []bool{false, true} {
				if plan && row.plan == alone || !plan && row.plan == planned {
					continue
				}
				n++
				label := fmt.Sprintf("s%d-", n)
				name := row.name
				if by != "" {
					name += ", " + by
				}
				if plan {
					name += ", planned"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					h := shared
					if row.own != "" {
						h = newHouse(t, row.own)
					}
					row.play(&scene{T: t, house: h, channel: c, plan: plan, label: label})
				})
			}
		}
	}
	if n < 40 {
		t.Errorf("there are %d scenarios", n)
	}
}

// decisions are what comes of deciding.
var decisions = []scenario{
	{name: "it waits, and nothing is sent", channel: byAPI, play: func(s *scene) {
		r := s.waits(one)[0]
		if r.State != "pending" || r.Execution != s.run || !strings.Contains(string(r.Arguments), s.label+"1") || r.Kind == api.KindPlan != s.plan {
			s.Errorf("%+v", r)
		}
		s.wrote()
		s.decides(false, r.ID, "")
		s.ends()
	}},
	{name: "approved", play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "as agreed")
		s.done()
		s.wrote("1")
	}},
	{name: "denied", play: func(s *scene) {
		s.decides(false, s.waits(one)[0].ID, "ask finance first")
		s.fails("ask finance first")
		s.wrote()
	}},
	{name: "approved by the execution's id", channel: byCLI, play: func(s *scene) {
		s.waits(three)
		s.decides(true, s.run, "")
		s.done()
		s.wrote("1", "2", "3")
	}},
	{name: "denied by the execution's id", channel: byCLI, play: func(s *scene) {
		s.waits(three)
		s.decides(false, s.run, "no")
		s.ends()
		s.wrote()
	}},
	{name: "some of many", plan: alone, play: func(s *scene) {
		for _, r := range s.waits(three) {
			s.decides(!strings.Contains(string(r.Arguments), s.label+"2"), r.ID, "not this one")
		}
		if d := s.done(); !strings.Contains(string(d.Value), `"denied"`) {
			s.Errorf("%s", d.Value)
		}
		s.wrote("1", "3")
	}},
	{name: "all of many", channel: byAPI, play: func(s *scene) {
		all := s.waits(three)
		if s.plan && (len(all) != 1 || len(all[0].Writes) != 3) || !s.plan && len(all) != 3 {
			s.Errorf("%+v", all)
		}
		for _, r := range all {
			s.decides(true, r.ID, "")
		}
		s.done()
		s.wrote("1", "2", "3")
	}},
	{name: "none of many", channel: byAPI, play: func(s *scene) {
		for _, r := range s.waits(three) {
			s.decides(false, r.ID, "")
		}
		s.ends()
		s.wrote()
	}},
	{name: "a race of deciders", channel: byAPI, play: func(s *scene) {
		id := s.waits(one)[0].ID
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = s.as("carol", i%2 == 0, id, fmt.Sprint(i)) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			if err == nil && won >= 0 {
				s.Error("two of them decided")
			}
			if err == nil {
				won = i
				continue
			}
			s.refused(err, api.Conflict)
		}
		s.ends()
		if won%2 == 0 {
			s.wrote("1")
		} else {
			s.wrote()
		}
	}},
	{name: "decided twice", play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.decides(true, id, "")
		for _, approve := range []bool{true, false} {
			if err := s.channel(s, approve, id, ""); err == nil || !strings.Contains(err.Error(), "already") {
				s.Errorf("%v", err)
			}
		}
		s.done()
		s.wrote("1")
	}},
	{name: "approved when it was denied", channel: byAPI, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.decides(false, id, "")
		s.ends()
		s.refused(s.channel(s, true, id, ""), api.Conflict)
		s.wrote()
	}},
	{name: "a request that there isn't", channel: byAPI, plan: alone, play: func(s *scene) {
		s.refused(s.channel(s, true, "apr_nothing", ""), api.NotFound)
	}},
	{name: "the agent resumes", channel: byAPI, play: func(s *scene) {
		a, err := agent(s.T, s.d, s.keys["bot"])
		if err != nil {
			s.Fatal(err)
		}
		s.begin("bot", api.RunRequest{Code: one})
		s.decides(true, s.pending()[0].ID, "")
		text, err := call(s.T, a, "resume", map[string]any{"execution": s.run})
		if err != nil || !strings.Contains(text, s.label+"1 was number 1") {
			s.Errorf("%s %v", text, err)
		}
		s.wrote("1")
	}},
	{name: "too large to read", channel: byAPI, play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `return await book.write({ key: K + "x".repeat(1100000) })`})
		if x.State != api.StateFailed || !strings.Contains(x.Error.Message, "nobody can read its arguments") {
			s.Errorf("%s %+v", x.State, x.Error)
		}
		s.wrote()
	}},
}

// deciders are who may, and who may not.
var deciders = []scenario{
	{name: "by somebody who may not", channel: byAPI, play: func(s *scene) {
		id := s.waits(one)[0].ID
		for _, who := range []string{"dave", "vera"} {
			s.refused(s.as(who, true, id, ""), api.Denied)
		}
		if _, err := clientOf(s.d, s.keys["vera"]).Approval(s.Context(), id); err == nil {
			s.Error("a viewer sees a request of somebody else's")
		}
		s.wrote()
		s.decides(true, id, "")
		s.done()
		s.wrote("1")
	}},
	{name: "by somebody of another group", channel: byCLI, own: "policy: ./policies\n", play: func(s *scene) {
		r := s.waits(one)[0]
		if !slices.Equal(r.Approvers, []string{"leads"}) {
			s.Errorf("%q", r.Approvers)
		}
		s.refused(s.as("carol", true, r.ID, ""), api.Denied)
		s.decides(true, r.ID, "")
		s.done()
		s.wrote("1")
	}},
	{name: "their own, which they may", channel: byAPI, play: func(s *scene) {
		s.begin("bot", api.RunRequest{Code: one})
		if err := s.as("bot", true, s.pending()[0].ID, ""); err != nil {
			s.Error(err)
		}
		s.done()
		s.wrote("1")
	}},
	{name: "their own, which they may not", channel: byAPI, own: askForWrites + "approvals: { separate: true }\n", play: func(s *scene) {
		s.begin("bot", api.RunRequest{Code: one})
		id := s.pending()[0].ID
		s.refused(s.as("bot", true, id, ""), api.Denied)
		s.refused(s.as("bot", false, id, ""), api.Denied)
		records, err := s.client().AuditRecords(s.Context(), api.AuditQuery{Kind: "approval"})
		if err != nil || len(records) != 2 || records[0].Effect != "refused" || records[0].Principal != "key:bot" || records[1].Detail["wanted"] != "approved" {
			s.Errorf("on record: %+v %v", records, err)
		}
		s.wrote()
		s.decides(true, id, "")
		s.done()
		s.wrote("1")
	}},
}

// becomes waits until the catalog has a tool with a description, or, with "", has it no more.
func (s *scene) becomes(path, description string) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		d, err := s.client().Tool(s.Context(), path)
		if err != nil && description == "" || err == nil && d.Description == description && description != "" {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s: %+v %v", path, d, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// inSession runs a program in a session by the way, and gives its value.
func (s *scene) inSession(name, code string) string {
	s.Helper()
	x, err := s.client().Run(s.Context(), api.RunRequest{Code: code, Session: name})
	if err != nil || x.Error != nil {
		s.Fatalf("%v %+v", err, x)
	}
	return string(x.Value)
}

// changes are what a request is bound to, and no longer as it was.
var changes = []scenario{
	{name: "another program makes the same call", channel: byAPI, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.done()
		s.decides(false, s.waits(one + "// once more")[0].ID, "")
		s.ends()
		s.wrote("1")
	}},
	{name: "other policies", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.waits(one)
		s.restart(s.T, func() { s.config = strings.Replace(s.config, askForWrites, "policy: read-only\n", 1) })
		if s.plan {
			s.fails("the policies have changed")
		} else {
			s.fails("denied by policy")
		}
		s.wrote()
	}},
	{name: "the tool means something else", channel: byAPI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.book.define("Deletes everything")
		s.becomes("book.write", "Deletes everything")
		s.decides(true, id, "")
		s.fails("is not what would be called now")
		s.wrote()
	}},
	{name: "the tool means something else after a restart", channel: byAPI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.restart(s.T, func() { s.book.define("Deletes everything") })
		if s.plan {
			s.fails("the tool has changed since it was planned")
			s.wrote()
			return
		}
		deadline := time.Now().Add(30 * time.Second)
		for again := id; ; { // it is asked about anew
			if all, err := s.client().Approvals(s.Context(), s.run, false); err == nil && len(all) == 1 {
				again = all[0].ID
			}
			if again != id {
				s.decides(true, again, "")
				break
			}
			if <-time.After(5 * time.Millisecond); time.Now().After(deadline) {
				s.Fatal("it is not asked about anew")
			}
		}
		s.done()
		s.wrote("1")
	}},
	{name: "the tool is gone", channel: byAPI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.book.server.RemoveTools("write")
		s.becomes("book.write", "")
		s.decides(true, id, "")
		s.fails("not there any more")
		s.wrote()
	}},
	{name: "the upstream is gone after a restart", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.waits(one)
		s.restart(s.T, func() { s.config = s.config[:strings.Index(s.config, "mcpServers")] })
		s.ends()
		s.wrote()
	}},
	{name: "the session goes on", channel: byAPI, play: func(s *scene) {
		name := strings.TrimSuffix(s.label, "-")
		if s.begin("", api.RunRequest{Code: "globalThis.n = 5; " + one, Session: name}); s.plan && s.inSession(name, "typeof n") != `"undefined"` {
			s.Error("the plan has left something in the session")
		}
		if s.plan { // what ran in between has changed it
			s.decides(true, s.pending()[0].ID, "")
			s.fails("has changed since the plan was made")
			s.wrote()
			s.begin("", api.RunRequest{Code: "globalThis.n = 5; " + one, Session: name})
		}
		s.decides(true, s.pending()[0].ID, "")
		s.done()
		s.wrote("1")
		if n := s.inSession(name, "n"); n != "5" {
			s.Errorf("n is %s", n)
		}
	}},
	{name: "the session is gone", channel: byAPI, plan: planned, play: func(s *scene) {
		name := strings.TrimSuffix(s.label, "-")
		s.inSession(name, "globalThis.n = 5")
		s.begin("", api.RunRequest{Code: "n; " + one, Session: name})
		if err := s.client().EndSession(s.Context(), name); err != nil {
			s.Fatal(err)
		}
		s.decides(true, s.pending()[0].ID, "")
		s.fails("or is gone")
		s.wrote()
	}},
}

// restarts are what happens when the process ends and another one begins.
var restarts = []scenario{
	{name: "restarted while it waits", own: askForWrites, play: func(s *scene) {
		id := s.waits(three)[0].ID
		s.restart(s.T, nil)
		s.restart(s.T, nil)
		if again := s.pending(); again[0].ID != id {
			s.Errorf("%s was asked about anew as %s", id, again[0].ID)
		}
		for _, r := range s.pending() {
			s.decides(true, r.ID, "")
		}
		s.done()
		s.wrote("1", "2", "3")
	}},
	{name: "approved while nothing runs", channel: byCLI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.restart(s.T, func() { s.decides(true, id, "") })
		s.done()
		s.wrote("1")
	}},
	{name: "denied while nothing runs", channel: byCLI, own: askForWrites, play: func(s *scene) {
		id := s.waits(one)[0].ID
		s.restart(s.T, func() { s.decides(false, id, "no") })
		s.fails("denied")
		s.wrote()
	}},
	{name: "restarted as soon as it is approved", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.restart(s.T, nil)
		switch d := s.ends(); {
		case d.State == api.StateDone:
			s.wrote("1")
		case d.State != api.StateInterrupted || !strings.Contains(d.Error.Message, "book.write"):
			s.Errorf("it is %s: %+v", d.State, d.Error)
		}
	}},
	{name: "restarted when it is done", channel: byAPI, own: askForWrites, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		was := s.done()
		s.restart(s.T, nil)
		if is := s.done(); string(is.Value) != string(was.Value) {
			s.Errorf("%s, and was %s", is.Value, was.Value)
		}
		s.wrote("1")
	}},
}

// plans are what only plans do.
var plans = []scenario{
	{name: "nothing to write", channel: byAPI, plan: planned, play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `return await book.read({ key: K })`})
		if x.State != api.StateDone || !slices.ContainsFunc(x.Notes, func(n string) bool { return strings.Contains(n, "writes nothing") }) {
			s.Errorf("%s %q", x.State, x.Notes)
		}
	}},
	{name: "a program that fails", channel: byAPI, plan: planned, play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `await book.write({ key: K }); throw new Error("off")`})
		if x.State != api.StateFailed || !strings.Contains(x.Error.Message, "off") {
			s.Errorf("%s %+v", x.State, x.Error)
		}
		s.wrote()
	}},
	{name: "what it read it reads once", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(`return await book.write({ key: (await book.read({ key: K })).replaceAll(" ", "-") })`)[0].ID, "")
		s.done()
		if got := s.book.of(s.book.read, s.label); len(got) != 1 {
			s.Errorf("read %d times", len(got))
		}
		s.wrote("-was-number-1")
	}},
	{name: "the same time and randomness", channel: byAPI, plan: planned, play: func(s *scene) {
		r := s.waits(`await new Promise(f => setTimeout(f, 20)); return await book.write({ key: K + new Date().toISOString() + Math.random() + crypto.randomUUID() })`)[0]
		s.decides(true, r.ID, "")
		s.done()
		if got := s.book.of(s.book.wrote, s.label); len(got) != 1 || !strings.Contains(string(r.Writes[0].Arguments), got[0]) {
			s.Errorf("%q, planned was %s", got, r.Writes[0].Arguments)
		}
	}},
	{name: "what depends on an answer", channel: byAPI, plan: planned, play: func(s *scene) {
		r := s.waits(`const o = await book.order({ key: K + "a" }); return await book.write({ key: K + o.name + o.id })`)[0]
		if len(r.Writes) != 2 || r.Writes[0].Simulated || !r.Writes[1].Simulated {
			s.Errorf("%+v", r.Writes)
		}
		s.decides(true, r.ID, "")
		s.fails("is not in the plan that was approved")
		s.wrote("a")
	}},
	{name: "the same write twice", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(`await book.write({ key: K }); await book.write({ key: K }); return 1`)[0].ID, "")
		s.done()
		s.wrote("", "")
	}},
	{name: "corrected afterwards", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.done()
		s.plan = false
		if x := s.begin("", api.RunRequest{Code: one, After: s.run}); x.State != api.StateDone {
			s.Errorf("%s %+v", x.State, x.Error)
		}
		s.wrote("1")
	}},
	{name: "Python", channel: byAPI, plan: planned, play: func(s *scene) {
		s.begin("", api.RunRequest{Language: "python", Code: fmt.Sprintf("import time\nasync def w(i):\n    return await book.write(key=%q + i)\ntime.sleep(0.01)\n[await w('1'), str(book.write(key=%q + '2' + str(time.time())))][0]", s.label, s.label)})
		r := s.pending()[0]
		s.decides(true, r.ID, "")
		s.done()
		if got := s.book.of(s.book.wrote, s.label); len(got) != 2 {
			s.Errorf("%q", got)
		}
	}},
	{name: "nobody may decide on all of it", channel: byAPI, plan: planned, own: "policy: ./policies\n", play: func(s *scene) {
		x := s.begin("", api.RunRequest{Code: `await book.write({ key: K + "1" }); await book.order({ key: K + "2" })`})
		if x.State != api.StateFailed || !strings.Contains(x.Error.Message, "no group may decide on all") {
			s.Errorf("%s %+v", x.State, x.Error)
		}
		s.wrote()
	}},
	{name: "the record tells", channel: byAPI, plan: planned, play: func(s *scene) {
		s.decides(true, s.waits(one)[0].ID, "")
		s.done()
		effects := map[string]string{}
		for _, run := range []string{s.run, s.run + "_run"} {
			all, err := s.client().AuditRecords(s.Context(), api.AuditQuery{Execution: run, Limit: 100})
			if err != nil {
				s.Fatal(err)
			}
			for _, r := range all {
				effects[strings.TrimPrefix(run, s.run)+" "+r.Tool+" "+r.Kind] = r.Effect
			}
		}
		want := map[string]string{" book.write call": "planned", " biplane.plan call": "ask", " biplane.plan approval": "approved", "_run book.write call": "ask"}
		for what, effect := range want {
			if effects[what] != effect {
				s.Errorf("%s: %q, want %q, in %v", what, effects[what], effect, effects)
			}
		}
	}},
}
