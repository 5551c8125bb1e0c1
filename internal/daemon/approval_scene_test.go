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
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A book is an upstream over HTTP that outlives the daemon in front of it. It counts the writes by
// their arguments, which must match byte for byte.
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
	b := &book{server: mcp.NewServer(&mcp.Implementation{Name: "book", Version: "1"}, nil), wrote: map[string]int{},
		read: map[string]int{}}
	b.define("Writes one entry")
	mcp.AddTool(b.server, &mcp.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, any, error) {
			return b.count(b.read, a.Key), nil, nil
		})
	type order struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	}
	mcp.AddTool(b.server, &mcp.Tool{Name: "order"},
		func(_ context.Context, _ *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, order, error) {
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

// define adds or replaces the tool write.
func (b *book) define(description string) {
	mcp.AddTool(b.server, &mcp.Tool{Name: "write", Description: description},
		func(_ context.Context, r *mcp.CallToolRequest, a entry) (*mcp.CallToolResult, any, error) {
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
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%s was number %d",
		key, in[key])}}}
}

// of returns the keys with a prefix that were written or read, once for each time.
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

// A house is a daemon in front of a book, with its users.
type house struct {
	dir    string
	book   *book
	config string
	d      *daemon.Daemon
	stop   func()
	keys   map[string]string // by name; for people
}

// people are the API keys of each house, with their roles.
var people = map[string][]string{"bot": {"user", "approver"}, "carol": {"approver"}, "dave": {"user"},
	"vera": {"viewer"}, "lena": {"approver"}}

// groupsOf are the groups of people.
var groupsOf = map[string][]string{"lena": {"leads"}}

const askForWrites = "policy: ask-for-writes\n"

// newHouse returns a running house. more is added to its configuration.
func newHouse(t *testing.T, more string) *house {
	h := &house{dir: t.TempDir(), book: newBook(t), keys: map[string]string{}}
	h.config = more + "auth: { keys: true }\nstart_wait: 30s\nmcpServers: { book: { url: '" + h.book.url + "' } }\n"
	h.open(t)
	for name, roles := range people {
		h.keys[name] = makeKey(t, h.d, api.KeyRequest{Name: name, Person: name, Roles: roles, Groups: groupsOf[name],
			Scopes: []string{"api", "mcp"}})
	}
	return h
}

// groups is a policy under which different groups decide.
const groups = `@id("programs") permit (principal, action == Action::"execute", resource);
@id("reads") permit (principal, action == Action::"call", resource) when { resource.readOnly };
@id("writes") @ask("leads") permit (principal, action == Action::"call", resource == Tool::"book.write");
@id("orders") @ask("finance") permit (principal, action == Action::"call", resource == Tool::"book.order");
`

// open starts the daemon like serve.
func (h *house) open(t *testing.T) {
	for name, text := range map[string]string{"biplane.yaml": h.config, "policies/groups.cedar": groups} {
		if err := errors.Join(os.MkdirAll(filepath.Join(h.dir, "policies"), 0o700),
			os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600)); err != nil {
			t.Fatalf("errors.Join: %v", err)
		}
	}
	s, err := config.Parse(filepath.Join(h.dir, "biplane.yaml"), []byte(h.config), env, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for { // other scenarios' child processes may hold the folder's lock until they exec
		if h.d, err = daemon.New(t.Context(), daemon.Config{Settings: s, DataDir: h.dir, Listen: "127.0.0.1:0",
			Version: "test", Recover: true}); err == nil {
			break
		}
		if !strings.Contains(err.Error(), "is in use") || time.Now().After(deadline) {
			t.Fatalf(`err = %v, want strings.Contains(err.Error(), "is in use") && !time.Now().After(deadline)`, err)
		}
		<-time.After(5 * time.Millisecond)
	}
	h.stop = running(t, h.d)
}

// restart restarts the daemon. change, if not nil, runs in between.
func (h *house) restart(t *testing.T, change func()) {
	h.stop()
	if change != nil {
		change()
	}
	h.open(t)
}

// A channel is a way to decide requests.
type channel func(s *scene, approve bool, id, note string) error

// byCLI decides on the command line, as the user of the machine.
func byCLI(s *scene, approve bool, id, note string) error {
	verb := "deny"
	if approve {
		verb = "approve"
	}
	var out bytes.Buffer
	code := cli.Main(cli.Process{Args: []string{"approvals", verb, id, "--note", note, "--data-dir", s.dir, "--config",
		filepath.Join(s.dir, "biplane.yaml")}, In: strings.NewReader(""), Out: &out, Err: &out})
	if code != 0 {
		return errors.New(out.String())
	}
	return nil
}

// byAPI decides over the network, as a user with the role approver.
func byAPI(s *scene, approve bool, id, note string) error { return s.as("carol", approve, id, note) }

// A scene is one scenario under way.
type scene struct {
	*testing.T
	*house
	channel channel
	plan    bool
	label   string // prefix of its keys
	run     string // the id of its execution
	who     string // who started it; empty: the user of the machine
}

func (s *scene) client() *api.Client { return s.d.Client() }

// mine returns the client of the user who started the program.
func (s *scene) mine() *api.Client {
	if s.who == "" {
		return s.client()
	}
	return clientOf(s.d, s.keys[s.who])
}

// as decides as the given user.
func (s *scene) as(who string, approve bool, id, note string) error {
	r, err := s.client().Approvals().Get(s.Context(), id)
	if err != nil {
		return err
	}
	_, err = clientOf(s.d, s.keys[who]).Approvals().Decide(s.Context(), id,
		api.Decision{Approve: approve, Digest: r.Digest, Note: note})
	return err
}

// begin runs a program as a user ("" is the user of the machine) until it waits or has ended. In
// the program, K is the label.
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
		s.Fatalf("Run: %v", err)
	}
	s.run = x.ID
	return x
}

// waits starts a program that has to wait, and returns its requests.
func (s *scene) waits(code string) []api.Approval {
	s.Helper()
	if x := s.begin("", api.RunRequest{Code: code}); x.State != api.StateWaiting {
		s.Fatalf("it is %s: %s %+v", x.State, x.Value, x.Error)
	}
	return s.pending()
}

// pending returns the program's open requests.
func (s *scene) pending() []api.Approval {
	s.Helper()
	all, err := s.client().Approvals().ListFor(s.Context(), s.run, false)
	if err != nil || len(all) == 0 {
		s.Fatalf("%d requests, %v", len(all), err)
	}
	return all
}

// decides decides a request, and fails the test on an error.
func (s *scene) decides(approve bool, id, note string) {
	s.Helper()
	if err := s.channel(s, approve, id, note); err != nil {
		s.Fatalf("channel: %v", err)
	}
}

// ends waits until the program has ended.
func (s *scene) ends() *api.ExecutionDetail {
	s.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		d, err := s.mine().Journal(s.Context(), s.run)
		if err != nil {
			s.Fatalf("Journal: %v", err)
		}
		if d.State != api.StateRunning && d.State != api.StateWaiting { // its open requests are withdrawn soon
			if left, err := s.client().Approvals().ListFor(s.Context(), s.run, false); err == nil && len(left) == 0 {
				return d
			}
		}
		if time.Now().After(deadline) {
			s.Fatalf("it is still %s, or waits for a person", d.State)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// done is like ends, and checks that the program succeeded.
func (s *scene) done() *api.ExecutionDetail {
	s.Helper()
	d := s.ends()
	if d.State != api.StateDone {
		s.Fatalf("it is %s: %+v", d.State, d.Error)
	}
	return d
}

// fails is like ends, and checks that the program failed with an error that contains why.
func (s *scene) fails(why string) *api.ExecutionDetail {
	s.Helper()
	d := s.ends()
	if d.State != api.StateFailed || d.Error == nil || !strings.Contains(d.Error.Message, why) {
		s.Fatalf("it is %s, %+v: want %q", d.State, d.Error, why)
	}
	return d
}

// wrote checks that exactly these keys were written, each once.
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

// one is a program with one write, three with three concurrent ones.
const (
	one   = `return await book.write({ key: K + "1" })`
	three = `const got = await Promise.all([1, 2, 3].map(i => book.write({ key: K + i }).catch(e => e.kind + " " + ` +
		`e.message))); return got.map(t => t.slice(0, 6))`
)

// becomes waits until the catalog has a tool with a description or, if it is "", no longer has the
// tool.
func (s *scene) becomes(path, description string) {
	s.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		d, err := s.client().Tool(s.Context(), path)
		if err != nil && description == "" || err == nil && d.Description == description && description != "" {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("tool %s: %+v, %v; want description %q", path, d, err, description)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// inSession runs another program in a session, and returns its value.
func (s *scene) inSession(name, code string) string {
	s.Helper()
	x, err := s.client().Run(s.Context(), api.RunRequest{Code: code, Session: name})
	if err != nil || x.Error != nil {
		s.Fatalf("run in session %s: %v, execution %+v", name, err, x)
	}
	return string(x.Value)
}
