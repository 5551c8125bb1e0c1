package demo

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// protocol is the MCP revision that the demonstration's servers and agents speak.
const protocol = "2025-11-25"

const (
	maxLine  = 1 << 20 // bytes of one message
	maxCalls = 256     // concurrent calls
)

// A handler implements one tool. Its result becomes the structured result and, as JSON, the text of
// it. A *tool.Error becomes a result that reports failure.
type handler func(ctx context.Context, db *sql.DB, args json.RawMessage) (any, error)

// A server is a small MCP server over stdio, complete enough to be a real upstream.
type server struct {
	name  string
	defs  []json.RawMessage
	tools map[string]handler
	db    *sql.DB

	mu  sync.Mutex
	out io.Writer
}

// Kinds are the kinds of servers for Serve: a customer database, and an API to change accounts.
var Kinds = []string{"crm", "accounts"}

// Serve runs one of the demonstration's MCP servers over stdio, on the customer database at path.
// If kind is Bench, it runs the server used for measurements, which has no database. It returns
// when in ends or ctx is done.
func Serve(ctx context.Context, kind, path string, in io.Reader, out io.Writer) error {
	defs, tools, err := toolsOf(kind)
	if err != nil {
		return err
	}
	if kind == Bench {
		return (&server{name: kind, defs: defs, tools: tools, out: out}).serveMessages(ctx, in)
	}
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer db.Close()
	s := &server{name: kind, defs: defs, tools: tools, db: db, out: out}
	return s.serveMessages(ctx, in)
}

// toolsOf returns the definitions of a kind's tools, and their handlers.
func toolsOf(kind string) ([]json.RawMessage, map[string]handler, error) {
	text, tools := crmTools, crmHandlers()
	switch kind {
	case "crm":
	case "accounts":
		text, tools = accountTools, accountHandlers()
	case Bench:
		text, tools = benchTools, benchHandlers()
	default:
		return nil, nil, tool.Errorf(tool.Invalid, "no demo server %q: it is one of %v", kind, Kinds)
	}
	var defs []json.RawMessage
	if err := json.Unmarshal(text, &defs); err != nil {
		return nil, nil, fmt.Errorf("%s tools: %w", kind, err)
	}
	for i, d := range defs {
		var b bytes.Buffer // one message is one line
		if err := json.Compact(&b, d); err != nil {
			return nil, nil, fmt.Errorf("%s tools: %w", kind, err)
		}
		defs[i] = b.Bytes()
	}
	return defs, tools, nil
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// serveMessages answers messages until in ends. Tool calls run concurrently.
func (s *server) serveMessages(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	slots := make(chan struct{}, maxCalls)
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			s.writeMessage(message{ID: json.RawMessage("null"), Error: &rpcError{-32700, "parse error"}})
			continue
		}
		if m.ID == nil || m.Method == "" {
			continue // notifications need no answer, nor do responses, as nothing was requested
		}
		if m.Method != "tools/call" {
			s.writeMessage(s.answerRequest(m))
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.writeMessage(s.callTool(ctx, m))
		})
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("demo server %s: %w", s.name, err)
	}
	return nil
}

func (s *server) writeMessage(m message) {
	m.JSONRPC = "2.0"
	b, err := tool.Marshal(m)
	if err != nil {
		b = []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(append(b, '\n')) // if the client is gone, in ends as well
}

// A Peer is the name and version of a client or server of MCP.
type Peer struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Initialize are the parameters of the request initialize.
type Initialize struct {
	Capabilities struct{} `json:"capabilities"`
	Client       Peer     `json:"clientInfo"`
	Protocol     string   `json:"protocolVersion"`
}

// initialized is the result of initialize.
type initialized struct {
	Capabilities map[string]struct{} `json:"capabilities"`
	Protocol     string              `json:"protocolVersion"`
	Server       Peer                `json:"serverInfo"`
}

func (s *server) answerRequest(m message) message {
	var result any
	switch m.Method {
	case "initialize":
		result = initialized{
			Capabilities: map[string]struct{}{"tools": {}}, Protocol: chooseRevision(m.Params),
			Server: Peer{Name: "biplane-demo-" + s.name, Version: "1.0.0"},
		}
	case "ping":
		result = struct{}{}
	case "tools/list":
		result = map[string][]json.RawMessage{"tools": s.defs}
	default:
		return message{ID: m.ID, Error: &rpcError{-32601, "no method " + m.Method}}
	}
	raw, err := tool.Marshal(result)
	if err != nil {
		return message{ID: m.ID, Error: &rpcError{-32603, "internal error"}}
	}
	return message{ID: m.ID, Result: raw}
}

// chooseRevision returns the revision to speak: the client's, if it is one of the revisions that
// are equivalent for all features used here.
func chooseRevision(params json.RawMessage) string {
	var p struct {
		Version string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(params, &p)
	switch p.Version {
	case "2025-03-26", "2025-06-18", protocol:
		return p.Version
	}
	return protocol
}

func (s *server) callTool(ctx context.Context, m message) message {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return message{ID: m.ID, Error: &rpcError{-32602, "tools/call takes {name, arguments}"}}
	}
	h := s.tools[p.Name]
	if h == nil {
		return message{ID: m.ID, Error: &rpcError{-32602, "no tool " + p.Name}}
	}
	if len(p.Arguments) == 0 {
		p.Arguments = json.RawMessage("{}")
	}
	v, err := h(ctx, s.db, p.Arguments)
	if err != nil {
		msg := "internal error"
		if e := (*tool.Error)(nil); errors.As(err, &e) {
			msg = e.Msg
		}
		return message{ID: m.ID, Result: tool.Text(true, msg).Raw}
	}
	text, err := tool.Marshal(v)
	if err != nil {
		return message{ID: m.ID, Error: &rpcError{-32603, "internal error"}}
	}
	res, err := tool.StructuredResult(text, string(text))
	if err != nil {
		return message{ID: m.ID, Error: &rpcError{-32603, "internal error"}}
	}
	return message{ID: m.ID, Result: res.Raw}
}

// decodeArguments decodes a tool's arguments. Unknown fields are an error, which tells
// a model about them.
func decodeArguments(args json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return tool.Errorf(tool.Invalid, "arguments: %w", err)
	}
	return nil
}
