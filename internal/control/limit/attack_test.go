package limit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestARuleHoldsUnderEachNameOfATool checks that a rule applies whether it spells a tool's name
// like the upstream or like programs.
func TestARuleHoldsUnderEachNameOfATool(t *testing.T) {
	for _, pattern := range []string{"shop.get-order", "shop.get_order", "shop.*", "shop.get?order"} {
		l := limiter(t, start(), nil, limit.Rule{What: limit.Calls, Max: 1, Window: time.Hour, Tools: pattern})
		if _, err := l.Take(t.Context(), call("ann", "shop.get-order"), false); err != nil {
			t.Fatalf("Take: %v", err)
		}
		if _, err := l.Take(t.Context(), call("ann", "shop.get-order"), false); err == nil {
			t.Errorf("%s is not about shop.get-order", pattern)
		}
		if _, err := l.Take(t.Context(), call("ann", "shop.put-order"), false); err != nil && pattern != "shop.*" {
			t.Errorf("%s is about shop.put-order: %v", pattern, err)
		}
	}
}

// TestTheClockWasAhead checks usage stored while the clock was years ahead. It must not lock anyone
// out for years, nor allow anyone through immediately.
func TestTheClockWasAhead(t *testing.T) {
	c, s := start(), &memory{}
	rule := limit.Rule{What: limit.Calls, Max: 2, Window: time.Minute}
	c.Advance(10 * 365 * 24 * time.Hour)
	l := limiter(t, c, s, rule)
	for range 2 {
		if _, err := l.Take(t.Context(), call("ann", "shop.get"), false); err != nil {
			t.Fatalf("Take: %v", err)
		}
	}
	c.Advance(-10 * 365 * 24 * time.Hour)
	l = limiter(t, c, s, rule)
	_, err := l.Take(t.Context(), call("ann", "shop.get"), false)
	if e := tool.AsError(err); e == nil || e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Errorf("err = %+v, want e != nil && e.RetryAfter > 0 && e.RetryAfter <= time.Minute", err)
	}
	c.Advance(time.Minute)
	if _, err := l.Take(t.Context(), call("ann", "shop.get"), false); err != nil {
		t.Errorf("Take: %v", err)
	}
}

// TestAHugeUseCounts checks that a use of a million times the limit doesn't overflow to a negative
// one.
func TestAHugeUseCounts(t *testing.T) {
	c := start()
	l := limiter(t, c, nil, limit.Rule{What: limit.Egress, Max: 1, Window: 400 * 24 * time.Hour})
	big := call("ann", "shop.get")
	big.Arguments = []byte(strings.Repeat("x", 1<<20))
	if _, err := l.Take(t.Context(), big, false); err != nil {
		t.Fatalf("Take: %v", err)
	}
	if _, err := l.Take(t.Context(), call("ann", "shop.get"), false); err == nil {
		t.Error("nothing was used")
	}
}

// TestWhatSaysNothingOfTheUpstream checks that calls whose callers give up early, and calls that
// were never sent, don't block an upstream for others.
func TestWhatSaysNothingOfTheUpstream(t *testing.T) {
	gone, cancel := context.WithTimeoutCause(t.Context(), 0, context.DeadlineExceeded)
	defer cancel()
	l := limiter(t, start(), nil)
	for range 30 {
		_, err := l.Guard(gone, call("eve", "shop.slow"), func() (*tool.Result, error) {
			return nil, tool.Errorf(tool.Timeout, "shop.slow did not answer before the deadline")
		})
		if e := tool.AsError(err); e == nil || e.Kind != tool.Timeout {
			t.Fatalf("err = %v, want e != nil && e.Kind == tool.Timeout", err)
		}
		_, err = l.Guard(t.Context(), call("eve", "shop.slow"), func() (*tool.Result, error) {
			return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "shop is not called for now"))
		})
		if err == nil || !strings.Contains(err.Error(), "is not called for now") {
			t.Fatalf(`err = %v, want err != nil && strings.Contains(err.Error(), "is not called for now")`, err)
		}
	}
	if _, err := l.Guard(t.Context(), call("ann", "shop.get"), func() (*tool.Result, error) {
		return tool.Text(false, "ok"), nil
	}); err != nil {
		t.Errorf("Guard: %v", err)
	}
}

// TestAnAnsweredErrorIsAnAnswer checks that an error returned by the upstream counts as an answer,
// whatever its code: it never blocks calls, however often it occurs.
func TestAnAnsweredErrorIsAnAnswer(t *testing.T) {
	l := limiter(t, start(), nil)
	answered := &tool.Error{Kind: tool.Unavailable, Answered: true,
		Msg: "shop.get failed: internal error (JSON-RPC error -32603)"}
	for i := range 30 {
		bad := call("eve", "shop.get")
		bad.Arguments = fmt.Appendf(nil, `{"i":%d}`, i)
		_, err := l.Guard(t.Context(), bad, func() (*tool.Result, error) { return nil, answered })
		if err == nil || !strings.Contains(err.Error(), "-32603") {
			t.Fatalf("call %d: %v", i+1, err)
		}
	}
}

// TestTheBreakerIsPerPrincipalFirst checks that unanswered calls of one principal block its own
// calls. Others are served until theirs fail as often. The error of a blocked call says that it was
// not sent, and leaves no doubt about its effect.
func TestTheBreakerIsPerPrincipalFirst(t *testing.T) {
	l := limiter(t, start(), nil)
	timeout := &tool.Error{Kind: tool.Timeout,
		Msg: "shop.get: no answer within 30 s; whether it took effect is not known"}
	sent := 0
	try := func(who string, err error) error {
		sent++
		c := call(who, "shop.get")
		c.Arguments = fmt.Appendf(nil, `{"i":%d}`, sent)
		_, err = l.Guard(t.Context(), c, func() (*tool.Result, error) { return tool.Text(false, "ok"), err })
		return err
	}
	for range 8 {
		try("eve", timeout)
	}
	err := try("eve", timeout)
	if e := tool.AsError(err); e == nil || !e.Unsent || !strings.HasPrefix(e.Msg, "shop.get was not sent: ") ||
		strings.Contains(e.Msg, "not known") {
		t.Errorf("eve's ninth: %v", err)
	}
	for i := range 7 {
		if err := try("ann", timeout); err == nil || strings.Contains(err.Error(), "was not sent") {
			t.Errorf("ann's %d: %v", i+1, err)
		}
	}
	if err := try("bob", nil); err != nil {
		t.Errorf("bob, who is answered: %v", err)
	}
	if err := try("eve", nil); err != nil {
		t.Errorf("eve, when the upstream answers: %v", err)
	}
	for range 8 {
		try("eve", timeout)
		try("ann", timeout)
	}
	for _, who := range []string{"eve", "ann", "bob"} {
		if err := try(who, nil); err == nil || !strings.Contains(err.Error(), "was not sent") {
			t.Errorf("%s, of an upstream that answers nobody: %v", who, err)
		}
	}
}
