package daemon_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// An echo is an MCP server whose tool echo returns its arguments as the result, byte for byte.
type echo struct {
	*httptest.Server
	got []byte // the arguments of the last call
}

func newEcho(t *testing.T) *echo {
	e := &echo{}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result := ""
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo",` +
			`"version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		e.got = m.Params.Arguments
		result = string(m.Params.Arguments)
	}
	if len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if result == "" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// jsonText generates JSON that careless parsers change: integers over 2^53, numbers in unusual
// notations, optional escapes, members in any order.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := []string{"9007199254740993", "-0", "1.10", "1e400", "123456789012345678901234567890", "null", "true",
			`"\u00e9é\/<&\u2028 😀"`, `"\ud83d"`, `""`}
		switch n := rapid.IntRange(0, len(kinds)+2).Draw(t, "kind"); {
		case n < len(kinds):
			return kinds[n]
		case depth == 0:
			return "[ ]"
		case n == len(kinds):
			return "[" + strings.Join(rapid.SliceOfN(jsonText(depth-1), 0, 4).Draw(t, "items"), " ,") + "]"
		}
		return "{" + members(t, depth) + "}"
	})
}

func members(t *rapid.T, depth int) string {
	var all []string
	for i := range rapid.IntRange(0, 4).Draw(t, "members") {
		all = append(all, fmt.Sprintf(`"x%d\u00e9": %s`, 9-i, jsonText(depth-1).Draw(t, "value")))
	}
	return strings.Join(all, ",")
}

// TestLossless sends random JSON from an agent to a server and back. The path is stdio, the gateway
// with its record, and HTTP.
func TestLossless(t *testing.T) {
	t.Parallel()
	up := newEcho(t)
	d, _ := run(t, t.TempDir(), "start_wait: 30s\nmcpServers:\n  up: { url: "+up.URL+" }\n")
	in, agentOut := io.Pipe()
	agentIn, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- d.ServeStdio(t.Context(), in, out) }()
	lines := bufio.NewReader(agentIn)
	id := 0
	ask := func(method, params string) json.RawMessage {
		id++
		if _, err := fmt.Fprintf(agentOut, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method,
			params); err != nil {
			t.Fatalf("fmt.Fprintf: %v", err)
		}
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				t.Fatalf("ReadBytes: %v", err)
			}
			var m struct {
				ID     int             `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatalf("line = %s, err = %v, want nil", line, err)
			}
			if m.ID == id {
				return m.Result
			}
		}
	}
	ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if _, err := io.WriteString(agentOut, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatalf("io.WriteString: %v", err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		args := `{"content":[{"type":"hologram", "n":` + jsonText(2).Draw(rt, "block") + `}],"structuredContent":{` +
			members(rt, 3) + `}, "x-new":` + jsonText(3).Draw(rt, "more") + `}`
		got := ask("tools/call", `{"name":"up.echo","arguments":`+args+`}`)
		if string(up.got) != args {
			rt.Fatalf("arguments:\nsent %s\ncame %s", args, up.got)
		}
		var want bytes.Buffer // only white space between tokens may be lost
		if err := json.Compact(&want, []byte(args)); err != nil {
			rt.Fatalf("json.Compact: %v", err)
		}
		if string(got) != want.String() {
			rt.Fatalf("result:\nsent %s\ncame %s", want.String(), got)
		}
	})
	if err := agentOut.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("err = %v, want nil", err)
	}
}
