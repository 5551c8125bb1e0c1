package daemon

import (
	"context"
	"net"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/biplane-dev/biplane/internal/base/tracing"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/serve/telemetry"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newTracer returns the Tracer of a configuration; nil if traces are sent nowhere.
func newTracer(s *config.Config, d *Daemon) *telemetry.Tracer {
	t := s.Telemetry
	if t.OTLP == "" {
		return nil
	}
	return telemetry.NewTracer(telemetry.Config{URL: t.OTLP, Headers: t.Headers, Sample: t.Sample,
		Version: d.cfg.Version, Catalog: d.catalog, Log: d.log})
}

// listenAdmin listens on the address for administrators, if there is one.
func listenAdmin(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "listen on %s (telemetry.admin): %w", addr, err)
	}
	return l, nil
}

// beginSpan begins the span of a call to the upstream, whose context is sent on.
func (s *source) beginSpan(ctx context.Context, c *tool.Call) (context.Context, trace.Span) {
	method, transport := "tools/call", ""
	switch s.kind {
	case "stdio":
		transport = "pipe"
	case "http", "sse":
		transport = "tcp"
	default:
		method = "execute_tool"
	}
	attrs := []attribute.KeyValue{attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", c.Tool.Name), attribute.String("biplane.upstream.name", c.Tool.Upstream),
		attribute.String("biplane.upstream.kind", s.kind)}
	if transport != "" {
		if c.Tool.Method != "" {
			method = c.Tool.Method
		}
		attrs = append(attrs, attribute.String("mcp.method.name", method),
			attribute.String("network.transport", transport))
	}
	return tracing.StartSpan(ctx, method+" "+c.Tool.Name, trace.SpanKindClient, attrs...)
}
