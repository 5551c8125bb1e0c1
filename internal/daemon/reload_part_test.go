package daemon

import (
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestRefusedReloadChangesNothing reloads a configuration whose policies can't be applied. The
// limits and policies in force stay.
func TestRefusedReloadChangesNothing(t *testing.T) {
	before, err := policy.New(policy.Config{Name: "open"})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	limits, err := limit.New(t.Context(), limit.Config{})
	if err != nil {
		t.Fatalf("limit.New: %v", err)
	}
	p := &policies{} // its parts make no gateway
	p.engine.Store(before)
	r := &reloader{d: &Daemon{limits: limits, policies: p}}
	inForce := &config.Config{Policy: "open"}
	r.settings.Store(inForce)
	p.settings.Store(inForce)
	rule := limit.Rule{What: limit.Calls, Max: 1, Window: time.Minute, Per: limit.PerPrincipal}
	if err := r.replaceSettings(&config.Config{Policy: "open", Limits: []limit.Rule{rule}}); err == nil {
		t.Fatal("the configuration was applied")
	}
	call := &tool.Call{Tool: &tool.Tool{Upstream: "a", Name: "b"}}
	if limits.HasLimit(call, limit.Calls) || p.engine.Load() != before || p.settings.Load() != inForce ||
		r.settings.Load() != inForce {
		t.Error("a part of a refused configuration is in force")
	}
}
