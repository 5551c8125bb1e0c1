// Package telemetry records traces, sends them to a collector of OpenTelemetry (OTLP over HTTP),
// logs requests, and serves profiles.
package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/biplane-dev/biplane/internal/base/tracing"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// closeTime is how long CloseTracer waits for the collector.
const closeTime = 3 * time.Second

// maxValue is the maximum length of an attribute. It bounds the memory of the spans that wait for a
// slow collector.
const maxValue = 1024

// Config configures a Tracer.
type Config struct {
	URL     string            // of the collector, with its path: https://collector.example/v1/traces
	Headers map[string]string // of every request to it
	Sample  float64           // share of traces that are recorded if the agent doesn't say, from 0 to 1
	Version string            // of Biplane
	Catalog *catalog.Catalog
	Log     *slog.Logger
}

// A Tracer records the calls that pass it. A nil Tracer records nothing.
type Tracer struct {
	cfg      Config
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// NewTracer returns a Tracer. It connects with the first spans.
func NewTracer(cfg Config) *Tracer {
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	p := sdk.NewTracerProvider(sdk.WithRawSpanLimits(limits),
		sdk.WithBatcher(newExporter(cfg), sdk.WithBatchTimeout(2*time.Second)),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(cfg.Sample))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "biplane"),
			attribute.String("service.version", cfg.Version))))
	return &Tracer{cfg: cfg, provider: p, tracer: p.Tracer("github.com/biplane-dev/biplane")}
}

// CloseTracer sends what is recorded, for a bounded time.
func (t *Tracer) CloseTracer() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// BeginCall begins the span of a call: an agent's request, a call of `biplane run`, or a call that
// a program makes. The caller makes the returned call instead, in the returned context.
func (t *Tracer) BeginCall(ctx context.Context, c *tool.Call) (context.Context, *tool.Call, *CallSpan) {
	if t == nil {
		return ctx, c, nil
	}
	ctx, span := t.startCall(ctx, c)
	observed := *c
	s := &CallSpan{Observer: c.Observe(), ctx: ctx, span: span}
	observed.Observer = s
	return ctx, &observed, s
}

// startCall starts the span of a call. Its name has the tool's only if there is such a tool: other
// names are the agent's words.
func (t *Tracer) startCall(ctx context.Context, c *tool.Call) (context.Context, trace.Span) {
	name := "unknown"
	if e, err := t.cfg.Catalog.View().Resolve(c.Path); err == nil {
		name = e.Tool.Path()
	}
	kind, title := trace.SpanKindInternal, "execute_tool "+name
	attrs := []attribute.KeyValue{attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", name)}
	if r, ok := tracing.RequestOf(ctx); ok && c.By == nil {
		kind, title = trace.SpanKindServer, r.Method+" "+name
		attrs = append(attrs, attribute.String("mcp.method.name", r.Method),
			attribute.String("mcp.protocol.version", r.Protocol))
	}
	if id := c.FromProgram().Execution; id != "" {
		attrs = append(attrs, attribute.String("biplane.execution.id", id))
	}
	return t.tracer.Start(ctx, title, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// ClassifyOutcome returns the kind of failure of a call; empty if it succeeded.
func ClassifyOutcome(res *tool.Result, err error) string {
	switch {
	case err != nil:
		return string(tool.AsError(err).Kind)
	case res != nil && res.IsError:
		return "tool_error"
	}
	return ""
}

// A CallSpan adds what happens to a call to its span: the decision, the execution that it begins,
// and a span for the time that it waits for a person.
type CallSpan struct {
	tool.Observer
	ctx  context.Context
	span trace.Span

	mu   sync.Mutex
	hold trace.Span // nil: it doesn't wait
}

// EndCall ends the span with the outcome of the call. A nil CallSpan does nothing.
func (s *CallSpan) EndCall(res *tool.Result, err error) {
	if s != nil {
		s.endHold()
		tracing.EndSpan(s.span, ClassifyOutcome(res, err))
	}
}

// OnSend implements tool.Observer.
func (s *CallSpan) OnSend(c *tool.Call, decision string) func() error {
	s.span.SetAttributes(attribute.String("biplane.decision", decision))
	return s.Observer.OnSend(c, decision)
}

// OnExecution implements tool.Observer.
func (s *CallSpan) OnExecution(id string) {
	s.span.SetAttributes(attribute.String("biplane.execution.id", id))
	s.Observer.OnExecution(id)
}

// OnHold implements tool.Observer.
func (s *CallSpan) OnHold(h *tool.Hold) {
	s.endHold()
	if h != nil {
		s.mu.Lock()
		_, s.hold = tracing.StartSpan(s.ctx, "approval", trace.SpanKindInternal,
			attribute.String("biplane.approval.id", h.Request))
		s.mu.Unlock()
	}
	s.Observer.OnHold(h)
}

// endHold ends the span of the time that the call waits.
func (s *CallSpan) endHold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil {
		s.hold.End()
		s.hold = nil
	}
}
