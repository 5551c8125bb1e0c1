package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// labelledEngine returns an engine that denies callers that have read untrusted data, and labels
// the only tool.
func labelledEngine(t *testing.T, labels ...string) *policy.Engine {
	t.Helper()
	e, err := policy.New(policy.Config{
		Files: []policy.File{{Name: "p.cedar",
			Text: []byte(`permit(principal, action, resource) unless { context.labels.contains("untrusted") };`)}},
		Rules: []policy.Rule{{Upstream: "shop", Labels: labels}},
	})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	return e
}

// The caller receives the labels of the tool before its progress, log messages, result or error
// text.
func TestLabelsAreCarriedFirst(t *testing.T) {
	want := map[bool]string{true: "[tool confidential+pii progress log]",
		false: "[tool confidential+pii output progress log]"}
	for _, fails := range []bool{false, true} {
		early := !fails // output that doesn't pass the Observer
		var order []string
		w := newWorld(t, labelledEngine(t, "pii", "external", "confidential"), audittest.NewMemory(),
			func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				order = append(order, "tool")
				if early {
					if err := c.Observe().OnLabels(nil); err != nil {
						return nil, err
					}
					order = append(order, "output")
				}
				c.Observe().OnProgress(t.Context(), tool.Progress{Done: 1})
				c.Observe().OnLog(t.Context(), tool.Log{Level: "info"})
				if fails {
					return nil, tool.Errorf(tool.Unavailable, "ann@example.com is not there")
				}
				return tool.Text(false, "ann@example.com"), nil
			})
		_, err := w.door.Call(t.Context(), &tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`),
			Observer: watch{
				labels:   func(l []string) error { order = append(order, strings.Join(l, "+")); return nil },
				progress: func(tool.Progress) { order = append(order, "progress") },
				logs:     func(tool.Log) { order = append(order, "log") },
			}})
		if got := fmt.Sprint(order); (err != nil) != fails || got != want[fails] {
			t.Errorf("order = %s, err = %v, want %s and an error: %t", got, err, want[fails], fails)
		}
	}
}

func TestOnlyWhatWasCalledIsCarried(t *testing.T) {
	w := newWorld(t, labelledEngine(t, "untrusted"), audittest.NewMemory(), ok)
	var carried []string
	call := &tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`),
		Observer: watch{labels: func(l []string) error { carried = append(carried, l...); return nil }}}
	wrong := *call
	wrong.Arguments = json.RawMessage(`{}`)
	if _, err := w.door.Call(t.Context(), &wrong); err == nil || carried != nil {
		t.Errorf("arguments that are wrong: %v, %v", carried, err)
	}
	if _, err := w.door.Call(t.Context(), call); err != nil || !slices.Equal(carried, []string{"untrusted"}) {
		t.Errorf("carried = %v, err = %v, want err == nil && slices.Equal(carried, "+
			"[]string{\"untrusted\"})", carried, err)
	}
	if rec := w.last(t); rec.DataLabels() != nil {
		t.Errorf("before anything was read: %v", rec.Detail)
	}
	call.Labels, carried = []string{"pii", "untrusted"}, nil
	if _, err := w.door.Call(t.Context(), call); tool.AsError(err).Kind != tool.Denied || carried != nil {
		t.Errorf("denied: %v, %v", carried, err)
	}
	if rec := w.last(t); strings.Join(rec.DataLabels(), ",") != "pii,untrusted" || rec.Decision.Effect != "deny" {
		t.Errorf("rec = %+v, want strings.Join(rec.DataLabels(), \",\") == \"pii,untrusted\" && "+
			"rec.Decision.Effect == \"deny\"", rec)
	}
}

// A sink adds no label, and nothing happens if no one tracks labels.
func TestNothingToCarry(t *testing.T) {
	w := newWorld(t, labelledEngine(t, "public", "external"), audittest.NewMemory(), ok)
	if _, err := w.door.Call(t.Context(), &tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`),
		Observer: watch{labels: func(l []string) error { t.Errorf("carries %v", l); return nil }}}); err != nil {
		t.Errorf("Call: %v", err)
	}
	w = newWorld(t, labelledEngine(t, "pii"), audittest.NewMemory(), ok)
	if _, err := w.door.Call(t.Context(),
		&tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`)}); err != nil {
		t.Errorf("Call: %v", err)
	}
}

func TestWhatCannotBeCarriedIsWithheld(t *testing.T) {
	w := newWorld(t, labelledEngine(t, "pii"), audittest.NewMemory(),
		func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			c.Observe().OnProgress(t.Context(), tool.Progress{Message: "ann@example.com"})
			return tool.Text(false, "ann@example.com"), nil
		})
	res, err := w.door.Call(t.Context(), &tool.Call{Path: "shop.get-order", Arguments: json.RawMessage(`{"id":1}`),
		Observer: watch{
			labels:   func([]string) error { return tool.Errorf(tool.Internal, "the disk is full") },
			progress: func(p tool.Progress) { t.Errorf("progress %+v, want none", p) },
		}})
	if e := tool.AsError(err); res != nil || e == nil || e.Unsent ||
		!strings.Contains(e.Msg, "was called, and what it answered is withheld") {
		t.Errorf("res = %v, err = %v, want res == nil && e != nil && !e.Unsent && "+
			"strings.Contains(e.Msg, \"was called, and what it answered is withheld\")", res, err)
	}
}
