// Package tracing passes the trace context of a request on, in the formats of W3C Trace Context,
// and starts spans in the trace that a context belongs to. The packages that use it know no
// tracer: a span's children go where the span goes, and without one nothing is recorded. Spans
// never have arguments, results, texts of errors or names of people.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope names Biplane as the source of spans.
const scope = "github.com/biplane-dev/biplane"

// Names of the fields that carry a trace context, in headers and in _meta.
const (
	ParentField = "traceparent"
	StateField  = "tracestate"
)

// maxState is the maximum length of a trace state that is passed on.
const maxState = 512

// A Request describes an agent's request as its span shows it.
type Request struct {
	Method   string // of MCP
	Protocol string // MCP revision
}

type requestKey struct{}

// WithRequest returns a context for the calls of an agent's request.
func WithRequest(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns the agent's request that ctx belongs to.
func RequestOf(ctx context.Context) (Request, bool) {
	r, ok := ctx.Value(requestKey{}).(Request)
	return r, ok
}

// WithParent returns a context that continues the trace of a client. An invalid parent is ignored.
func WithParent(ctx context.Context, parent, state string) context.Context {
	if parent == "" || len(parent) > maxState {
		return ctx
	}
	if len(state) > maxState {
		state = ""
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{ParentField: parent, StateField: state})
}

// ParentOf returns the trace context for the next process; empty if ctx belongs to no trace.
func ParentOf(ctx context.Context) (parent, state string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return "", ""
	}
	out := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, out)
	return out[ParentField], out[StateField]
}

// CopyParent returns ctx with the trace context of another one.
func CopyParent(ctx, from context.Context) context.Context {
	c := trace.SpanContextFromContext(from)
	if !c.IsValid() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, c)
}

// A Header is the header of a request.
type Header interface {
	Set(name, value string)
}

// SetHeader adds the trace context of ctx to the header of a request.
func SetHeader(ctx context.Context, h Header) {
	parent, state := ParentOf(ctx)
	if parent != "" {
		h.Set("Traceparent", parent)
	}
	if state != "" {
		h.Set("Tracestate", state)
	}
}

// StartSpan starts a span inside the one of ctx. If ctx belongs to no recorded trace, it does
// nothing but pass the trace context on.
func StartSpan(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context,
	trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(kind),
		trace.WithAttributes(attrs...))
}

// EndSpan ends a span. failure is the kind of the error that ended it; empty: none.
func EndSpan(s trace.Span, failure string) {
	if failure != "" {
		s.SetStatus(codes.Error, "")
		s.SetAttributes(attribute.String("error.type", failure))
	}
	s.End()
}

// TraceID returns the id of the trace that ctx belongs to; empty if there is none.
func TraceID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.HasTraceID() {
		return c.TraceID().String()
	}
	return ""
}
