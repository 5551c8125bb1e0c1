package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The steps of a write at the upstream.
type step string

const (
	arrived  step = "arrived"  // the request has arrived, nothing is done yet
	applied  step = "applied"  // it is done, but not answered
	answered step = "answered" // the answer has been sent
	looked   step = "looked"   // a read has arrived, with nothing else under way
)

// A ledger is an upstream over HTTP that outlives the biplane in front of it, and counts its
// writes.
type ledger struct {
	server *httptest.Server

	mu     sync.Mutex
	writes map[string][]string // by key: the answers to writes that took effect
	asked  map[string]int      // by key: requests received
	odd    []string            // arguments of writes that differ from the approved bytes
	under  int                 // calls under way
	slow   bool                // reads are slow
	trap   *trap
}

// A trap fires once, at one step of one write.
type trap struct {
	key  string // empty: any
	skip int    // how many times to skip
	step step
	drop bool // drop the write, as if the request had never been handled
	fire func()
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{writes: map[string][]string{}, asked: map[string]int{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	type args struct {
		Key string `json:"key" jsonschema:"what to write"`
	}
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	mcp.AddTool(server, &mcp.Tool{Name: "write", Description: "Writes one entry, each time that it is called"},
		func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
			receipt, err := l.write(a.Key)
			if err != nil {
				return nil, nil, err
			}
			return text(receipt), nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "read", Description: "Reads",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
			l.at(looked, a.Key)
			l.linger()
			return text("read " + a.Key), nil, nil
		})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		return server
	}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.serve(inner, w, r)
	}))
	t.Cleanup(l.server.Close)
	return l
}

// serve passes a request on, and notes when it is answered.
func (l *ledger) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &m)
	if m.Method == "tools/call" {
		l.count(+1)
		defer l.count(-1)
	}
	next.ServeHTTP(w, r)
	if m.Method == "tools/call" && m.Params.Name == "write" {
		_ = http.NewResponseController(w).Flush()
		var args struct{ Key string }
		if err := json.Unmarshal(m.Params.Arguments, &args); err != nil ||
			string(m.Params.Arguments) != fmt.Sprintf(`{"key":%q}`, args.Key) {
			l.mu.Lock()
			l.odd = append(l.odd, string(m.Params.Arguments))
			l.mu.Unlock()
		}
		l.at(answered, args.Key)
	}
}

func (l *ledger) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under += n
}

// quiet reports whether nothing is under way.
func (l *ledger) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.under == 0
}

var errDropped = errors.New("the upstream broke off")

// write performs a write. Like real upstreams, it doesn't check whether the caller is still there.
func (l *ledger) write(key string) (receipt string, err error) {
	l.mu.Lock()
	l.asked[key]++
	l.mu.Unlock()
	if l.at(arrived, key) {
		return "", errDropped
	}
	l.mu.Lock()
	receipt = fmt.Sprintf("%s was written as number %d", key, len(l.writes[key])+1)
	l.writes[key] = append(l.writes[key], receipt)
	l.mu.Unlock()
	l.at(applied, key)
	return receipt, nil
}

// dawdling is the duration of a slow read.
const dawdling = 300 * time.Millisecond

// dawdle sets whether reads are slow.
func (l *ledger) dawdle(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = slow
}

func (l *ledger) linger() {
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	if slow {
		<-time.After(dawdling)
	}
}

// set arms a trap; nil disarms it.
func (l *ledger) set(t *trap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trap = t
}

// at springs the trap if it is set for a step, and reports whether the write is dropped.
func (l *ledger) at(s step, key string) bool {
	l.mu.Lock()
	t := l.trap
	if t == nil || t.step != s || t.key != key && t.key != "" {
		l.mu.Unlock()
		return false
	}
	if t.skip--; t.skip >= 0 {
		l.mu.Unlock()
		return false
	}
	l.trap = nil
	l.mu.Unlock()
	t.fire()
	return t.drop
}

// restore resets all keys to the entries that of returned.
func (l *ledger) restore(asked map[string]int, writes map[string][]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.writes = maps.Clone(asked), map[string][]string{}
	for key, all := range writes {
		l.writes[key] = slices.Clone(all)
	}
}

// of returns the entries of all keys with a prefix: the number of requests, and the answers.
func (l *ledger) of(label string) (asked map[string]int, writes map[string][]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, writes = map[string]int{}, map[string][]string{}
	for key, n := range l.asked {
		if strings.HasPrefix(key, label) {
			asked[key], writes[key] = n, append([]string(nil), l.writes[key]...)
		}
	}
	return asked, writes
}
