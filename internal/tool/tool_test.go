package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestParseResultKeepsEveryByte(t *testing.T) {
	const raw = `{ "content":[{"type":"hologram","n":12345678901234567890.10,"x":{"b":1,"a":2}}],` +
		`"structuredContent":{"id":9007199254740993},"isError":false,"extra":[1e400] }`
	r, err := tool.ParseResult(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("tool.ParseResult: %v", err)
	}
	if string(r.Raw) != raw {
		t.Errorf("Raw = %s", r.Raw)
	}
	if got := string(r.Content[0]); got != `{"type":"hologram","n":12345678901234567890.10,"x":{"b":1,"a":2}}` {
		t.Errorf("Content[0] = %s", got)
	}
	if got := string(r.Structured); got != `{"id":9007199254740993}` {
		t.Errorf("Structured = %s", got)
	}
}

func TestParseResultNullStructuredIsNone(t *testing.T) {
	r, err := tool.ParseResult(json.RawMessage(`{"structuredContent":null,"isError":true}`))
	if err != nil || r.Structured != nil || !r.IsError {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestParseResultRefusesWhatIsNoResult(t *testing.T) {
	for _, raw := range []string{``, `[]`, `"x"`, `{"content":"x"}`, `{"content":[}`} {
		if r, err := tool.ParseResult(json.RawMessage(raw)); err == nil {
			t.Errorf("%q: %+v, want an error", raw, r)
		}
	}
}

func TestTextDoesNotEscapeForHTML(t *testing.T) {
	got := string(tool.Text(true, "a < b && c").Raw)
	if want := `{"content":[{"type":"text","text":"a < b && c"}],"isError":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAsError(t *testing.T) {
	inner := tool.Errorf(tool.NotFound, "no tool x: %w", io.EOF)
	for _, c := range []struct {
		err  error
		kind tool.Kind
	}{
		{fmt.Errorf("wrapped: %w", inner), tool.NotFound},
		{context.Canceled, tool.Canceled},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), tool.Timeout},
		{errors.New("boom"), tool.Internal},
	} {
		if got := tool.AsError(c.err).Kind; got != c.kind {
			t.Errorf("%v: kind %s, want %s", c.err, got, c.kind)
		}
	}
	if tool.AsError(nil) != nil {
		t.Error("nil is not an error")
	}
	if !errors.Is(inner, io.EOF) {
		t.Error("Errorf dropped what it wraps")
	}
}

func TestTierNamesRoundTrip(t *testing.T) {
	for tier := tool.WASM; tier <= tool.MicroVM; tier++ {
		got, err := tool.ParseTier(tier.String())
		if err != nil || got != tier {
			t.Errorf("tier = %v, got = %v, err = %v, want err == nil && got == tier", tier, got, err)
		}
	}
	if _, err := tool.ParseTier("docker"); tool.AsError(err).Kind != tool.Invalid {
		t.Errorf("unknown tier: %v", err)
	}
}

func TestNotSent(t *testing.T) {
	if tool.NotSent(nil) != nil {
		t.Error("nil is not an error")
	}
	inner := tool.Errorf(tool.Denied, "no: %w", io.EOF)
	got := tool.AsError(tool.NotSent(fmt.Errorf("wrapped: %w", inner)))
	if !got.Unsent || got.Kind != tool.Denied || !errors.Is(got, io.EOF) || inner.Unsent {
		t.Errorf("got = %+v, want got.Unsent && got.Kind == tool.Denied && errors.Is(got, io.EOF) && "+
			"!inner.Unsent", got)
	}
	if e := tool.AsError(tool.NotSent(context.Canceled)); !e.Unsent || e.Kind != tool.Canceled {
		t.Errorf("e = %+v, want e.Unsent && e.Kind == tool.Canceled", e)
	}
	if e := tool.AsError(context.Canceled); e.Unsent {
		t.Error("whatever is canceled was not sent")
	}
}
