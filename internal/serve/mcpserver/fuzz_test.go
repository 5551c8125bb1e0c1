package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"region":"eu",` +
		`"n":9007199254740993},"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"f","version":"1"}}}`,
	`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"c2VhcmNo"}}`,
	`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
	`{"params":{"arguments":{"a":1},"arguments":{"b":2}},"params":{"name":"\u00e9"}}`,
	`{"a":"}\"","b":[{"c":"]"}], "d" : -1.5e+7,"e":{}}`, ` {} `, `[]`, `null`, `"x"`, `{"id":1e3}`,
	`{"id":-9223372036854775808}`, "{\"\xff\":\"\xff\"}",
}

func FuzzMembers(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), "name")
	}
	f.Fuzz(func(t *testing.T, raw []byte, key string) {
		ms, ok := parseMembers(raw)
		var want map[string]json.RawMessage
		if err := json.Unmarshal(raw, &want); (err == nil && want != nil) != ok {
			t.Fatalf("ok %v, but encoding/json: %v", ok, err)
		}
		for k, v := range want {
			if got := fieldOf(raw, ms, k); !bytes.Equal(got, v) {
				t.Fatalf("field %q is %s, want %s", k, got, v)
			}
		}
		if !ok {
			return
		}
		key, value := strings.ToValidUTF8(strings.Map(plain, key), ""), []byte(`{"new":[1]}`)
		out := replaceField(raw, ms, key, value)
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("replaced: %s: %v", out, err)
		}
		if !bytes.Equal(got[key], value) {
			t.Fatalf("%s has no new %q", out, key)
		}
		for k, v := range want {
			if k != key && !bytes.Equal(got[k], v) {
				t.Fatalf("%q was %s, is %s", k, v, got[k])
			}
		}
	})
}

// plain removes characters that would have to be escaped in a key: insert is only called with
// constant keys.
func plain(r rune) rune {
	if r < ' ' || r == '"' || r == '\\' {
		return -1
	}
	return r
}

func FuzzEnvelope(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, bad := readEnvelope(raw)
		if bad != nil {
			if b := encodeError(e.id, bad); !json.Valid(b) {
				t.Fatalf("error %s", b)
			}
			return
		}
		if !json.Valid(raw) {
			t.Fatal("took what is not JSON")
		}
		if e.args != nil && !bytes.Equal(raw[e.argsAt[0]:e.argsAt[1]], e.args) {
			t.Fatalf("arguments %s are not at %v", e.args, e.argsAt)
		}
	})
}

// FuzzMessage sends arbitrary bytes on every transport. Each message must be answered or refused,
// and the server must survive.
func FuzzMessage(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	schema := json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)
	s := New(Config{
		Door: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
			return tool.Text(false, "ok"), nil
		}),
		Builtin: []*tool.Tool{{Upstream: "biplane", Name: "echo", InputSchema: schema}},
		Limits:  Limits{Sessions: 8},
	})
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, version := range []string{"", "2025-11-25", "2026-07-28"} {
			r := httptest.NewRequest("POST", "http://localhost/mcp", bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Protocol-Version", version)
			e, _ := readEnvelope(body)
			if strings.HasPrefix(e.method, "subscriptions/") {
				return // ends only when the client disconnects
			}
			r.Header.Set("Mcp-Method", e.method)
			r.Header.Set("Mcp-Name", e.name)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code == http.StatusInternalServerError || (w.Body.Len() == 0 && w.Code != http.StatusAccepted) {
				t.Errorf("version = %q, w.Code = %d, w.Body = %s, want w.Code != "+
					"http.StatusInternalServerError && w.Body.Len() != 0 || w.Code == "+
					"http.StatusAccepted", version, w.Code, w.Body)
			}
			for id := range s.http.sessions.ids() {
				s.http.sessions.removeSession(id)
				if ss := s.http.sessionByID(id); ss != nil {
					ss.Close()
				}
			}
		}
		var out bytes.Buffer
		if err := s.ServeStdio(t.Context(), bytes.NewReader(body), &out); err != nil {
			t.Errorf("stdio: %v", err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("stdio: wrote %q", line)
			}
		}
	})
}

// ids returns the ids of the open sessions.
func (t *sessions) ids() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]bool{}
	for id := range t.open {
		out[id] = true
	}
	return out
}
