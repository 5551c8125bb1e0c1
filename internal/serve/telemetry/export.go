package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exportTime is how long one request to the collector may take.
const exportTime = 10 * time.Second

// An exporter sends spans in OTLP's JSON format. Spans that the collector doesn't accept are lost:
// nothing ever waits for it.
type exporter struct {
	cfg    Config
	client *http.Client

	mu     sync.Mutex
	failed string // the last failure, which is logged once
}

func newExporter(cfg Config) *exporter {
	return &exporter{cfg: cfg, client: &http.Client{Timeout: exportTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	e.reportFailure(e.sendBatch(ctx, encodeSpans(spans)), len(spans))
	return nil // the SDK would print it
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// reportFailure logs a failure, unless it is the same as before.
func (e *exporter) reportFailure(err error, spans int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil && e.failed != "":
		e.cfg.Log.Info("the collector accepts traces again")
		e.failed = ""
	case err != nil && err.Error() != e.failed:
		e.failed = err.Error()
		e.cfg.Log.Warn("traces are lost: the collector did not accept them", slog.Int("spans", spans),
			slog.Any("err", err))
	}
}

// sendBatch sends one request.
func (e *exporter) sendBatch(ctx context.Context, body *batch) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(text); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, &packed)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("User-Agent", "biplane/"+e.cfg.Version)
	for name, value := range e.cfg.Headers {
		r.Header.Set(name, value)
	}
	resp, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answered with status %d", resp.StatusCode)
	}
	return nil
}

// The messages of OTLP in JSON: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding".
type (
	batch struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   wireResource `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	wireResource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope wireScope  `json:"scope"`
		Spans []wireSpan `json:"spans"`
	}
	wireScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	wireSpan struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		TraceState string     `json:"traceState,omitempty"`
		ParentID   string     `json:"parentSpanId,omitempty"`
		Flags      uint32     `json:"flags,omitempty"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Status     wireStatus `json:"status"`
	}
	wireStatus struct {
		Code int `json:"code,omitempty"`
	}
	keyValue struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	anyValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

// encodeSpans returns the message for spans. All are of this process, so they share a resource.
func encodeSpans(spans []sdk.ReadOnlySpan) *batch {
	scope := spans[0].InstrumentationScope()
	out := scopeSpans{Scope: wireScope{scope.Name, scope.Version}, Spans: make([]wireSpan, len(spans))}
	for i, s := range spans {
		c := s.SpanContext()
		w := wireSpan{TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
			Flags: uint32(c.TraceFlags()), Name: s.Name(), Kind: int(s.SpanKind()),
			Start: strconv.FormatInt(s.StartTime().UnixNano(), 10),
			End:   strconv.FormatInt(s.EndTime().UnixNano(), 10), Attributes: encodeAttributes(s.Attributes())}
		if p := s.Parent(); p.HasSpanID() {
			w.ParentID = p.SpanID().String()
		}
		if s.Status().Code == codes.Error {
			w.Status.Code = 2
		}
		out.Spans[i] = w
	}
	return &batch{[]resourceSpans{{wireResource{encodeAttributes(spans[0].Resource().Attributes())},
		[]scopeSpans{out}}}}
}

func encodeAttributes(all []attribute.KeyValue) (out []keyValue) {
	for _, a := range all {
		v := a.Value.String()
		value := anyValue{String: &v}
		if a.Value.Type() == attribute.INT64 {
			value = anyValue{Int: &v}
		}
		out = append(out, keyValue{string(a.Key), value})
	}
	return out
}
