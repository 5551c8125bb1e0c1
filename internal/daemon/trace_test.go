package daemon_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"

	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/biplane-dev/biplane/api"
)

// A collector is a receiver of OTLP over HTTP. It accepts only what OTLP's schema allows.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*wire.Span
	text  strings.Builder
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("X-Team") != "a" {
			t.Errorf("the collector received %s %v", r.URL, r.Header)
		}
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Errorf("the collector's request: %v", err)
			return
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Errorf("the collector's request: %v", err)
			return
		}
		var data wire.TracesData // in JSON, it is the same message as a request
		if err := protojson.Unmarshal(text, &data); err != nil {
			t.Errorf("the collector's request is not OTLP: %v\n%s", err, text)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.text.Write(text)
		for _, res := range data.ResourceSpans {
			for _, scope := range res.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// idOf returns an id in hexadecimal. OTLP writes ids so in JSON, which protojson reads as base64.
func idOf(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func attributesOf(s *wire.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}

// TestTrace checks that one execution with three calls, of which one needs a person, is one trace
// from the agent's request to the upstream, and that it has neither arguments nor results.
func TestTrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	var mu sync.Mutex
	received := map[string]bool{} // the trace contexts that reach the upstream
	p := newPeer(t)
	inner := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("the upstream's request: %v", err)
		}
		if parent := r.Header.Get("Traceparent"); parent != "" {
			mu.Lock()
			received[parent] = true
			mu.Unlock()
			if !strings.Contains(string(body), `"traceparent":"`+parent+`"`) {
				t.Errorf("the upstream got %s in a header, and another context in _meta", parent)
			}
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(w, r)
	})
	d, stop := run(t, t.TempDir(), "policy: ask-for-writes\nmcpServers: { peer: { url: '"+p.URL+"' } }\n"+
		"telemetry: { otlp: '"+c.URL+"', headers: { X-Team: a } }\n")
	agent := overHTTP(t, d, "", channels["elicitation"], action("cancel"))
	const trace, root = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute",
			Meta: mcp.Meta{"traceparent": "00-" + trace + "-" + root + "-01"},
			Arguments: program(`const secretword = 77000777; await callTool("peer.echo", { n: secretword }); ` +
				`await callTool("peer.echo", { n: secretword }); return await callTool("peer.meet", { n: 1 })`)})
		if err != nil {
			t.Errorf("execute: %v", err)
		}
	}()
	for _, a := range pending(t, d, 1) {
		if _, err := d.Client().Approvals().Decide(context.Background(), a.ID,
			api.Decision{Approve: true, Digest: a.Digest}); err != nil {
			t.Errorf("Decide: %v", err)
		}
	}
	<-done
	x, err := d.Client().Executions(t.Context(), api.ExecutionFilter{})
	if err != nil || len(x.Executions) != 1 {
		t.Fatalf("Executions: %+v, %v, want one", x, err)
	}
	until(t, func() bool {
		e, err := d.Client().Execution(t.Context(), x.Executions[0].ID)
		return err == nil && e.State == "done"
	})
	stop()
	checkTrace(t, c, trace, root, received)
}

// checkTrace checks that the spans of TestTrace are one tree below the agent's span.
func checkTrace(t *testing.T, c *collector, trace, root string, received map[string]bool) {
	known := map[string]*wire.Span{}
	names := map[string]int{}
	for _, s := range c.spans {
		known[idOf(s.SpanId)] = s
		names[s.Name]++
	}
	for _, s := range c.spans {
		if id := idOf(s.TraceId); id != trace {
			t.Errorf("the span %s is in the trace %s, want the agent's", s.Name, id)
		}
		parent := idOf(s.ParentSpanId)
		if up := known[parent]; up != nil {
			parent = up.Name
		}
		attrs := attributesOf(s)
		switch s.Name {
		case "tools/call biplane.execute":
			if parent != root || s.Kind != wire.Span_SPAN_KIND_SERVER || attrs["mcp.method.name"] != "tools/call" ||
				attrs["mcp.protocol.version"] == "" || attrs["biplane.decision"] != "allow" {
				t.Errorf("the request's span is below %s with %v", parent, attrs)
			}
		case "execution":
			if parent != "tools/call biplane.execute" || attrs["biplane.execution.state"] != "done" {
				t.Errorf("the execution's span is below %s with %v", parent, attrs)
			}
		case "execute_tool peer.echo", "execute_tool peer.meet":
			if parent != "execution" || attrs["gen_ai.operation.name"] != "execute_tool" ||
				attrs["biplane.execution.id"] == "" || attrs["biplane.decision"] == "" {
				t.Errorf("the span %s is below %s with %v", s.Name, parent, attrs)
			}
		case "approval":
			if parent != "execute_tool peer.meet" || attrs["biplane.approval.id"] == "" {
				t.Errorf("the approval's span is below %s with %v", parent, attrs)
			}
		case "tools/call echo", "tools/call meet":
			if !strings.HasPrefix(parent, "execute_tool peer.") || s.Kind != wire.Span_SPAN_KIND_CLIENT ||
				attrs["network.transport"] != "tcp" {
				t.Errorf("the span %s is below %s with %v", s.Name, parent, attrs)
			}
			if !received["00-"+trace+"-"+idOf(s.SpanId)+"-01"] {
				t.Errorf("the upstream got no context of the span %s; it got %v", s.Name, received)
			}
		default:
			t.Errorf("the span %s below %s is not known", s.Name, parent)
		}
	}
	for name, n := range map[string]int{"tools/call biplane.execute": 1, "execution": 1, "execute_tool peer.echo": 2,
		"execute_tool peer.meet": 1, "approval": 1, "tools/call echo": 2, "tools/call meet": 1} {
		if names[name] != n {
			t.Errorf("%d spans %s, want %d", names[name], name, n)
		}
	}
	if all := c.text.String(); strings.Contains(all, "77000777") || strings.Contains(all, "secretword") {
		t.Error("a span has an argument, a result or a part of the program")
	}
}
