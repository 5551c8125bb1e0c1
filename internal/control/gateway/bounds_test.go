package gateway_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// If nothing enforces a policy's limit, the call is not made.
func TestBoundsThatNothingHolds(t *testing.T) {
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
		Text: []byte(`@limit("calls: 1 per 1m") permit (principal, action, resource);`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	w := newWorld(t, e, audittest.NewMemory(), ok)
	_, err = w.door.Call(t.Context(),
		&tool.Call{Path: "shop.get_order", Arguments: []byte(`{"id":1}`), Principal: tool.Principal{ID: "local:ann"}})
	if err == nil || !tool.AsError(err).Unsent || !strings.Contains(err.Error(), "nothing here holds that") ||
		len(w.calls) != 0 {
		t.Errorf("%v, %d calls", err, len(w.calls))
	}
}
