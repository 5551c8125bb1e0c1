package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestMissingSandboxes checks that a kind of sandbox that can't run here is a failure only if it is
// the cheapest of the configured tier.
func TestMissingSandboxes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the probes take some seconds")
	}
	broken := func(config.Sandbox, engine) (closingDriver, error) { return nil, errors.New("no namespaces here") }
	for _, c := range []struct {
		name   string
		kinds  []driver
		tier   tool.Tier
		failed []string // the parts with a needed check that fails
	}{
		{"the stronger kind is missing", []driver{{"wasm", tool.WASM, newEmbeddedDriver},
			{"process", tool.Process, broken}}, tool.WASM, nil},
		{"the first kind is missing", []driver{{"first", tool.WASM, broken},
			{"wasm", tool.WASM, newEmbeddedDriver}}, tool.WASM, []string{"sandbox first"}},
		{"all are missing", []driver{{"wasm", tool.WASM, broken}, {"process", tool.Process, broken}}, tool.WASM,
			[]string{"sandbox wasm"}},
		{"the only kind of the tier is missing", []driver{{"wasm", tool.WASM, newEmbeddedDriver},
			{"process", tool.Process, broken}}, tool.Process, []string{"sandbox process"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &config.Config{Sandbox: config.Sandbox{Tier: c.tier}}
			checks := checkSandboxes(t.Context(), c.kinds, s, engine{})
			var failed []string
			reported := 0
			for _, check := range checks {
				if !check.OK && check.Needed {
					failed = append(failed, check.Part)
				}
				if !check.OK && strings.Contains(check.Detail, "no namespaces here") {
					reported++
				}
			}
			if !slices.Equal(failed, c.failed) {
				t.Errorf("the needed checks of %v fail, want %v; all: %+v", failed, c.failed, checks)
			}
			want := 0
			for _, k := range c.kinds {
				if _, err := k.make(config.Sandbox{}, engine{}); err != nil {
					want++
				}
			}
			if reported != want {
				t.Errorf("%d missing kinds are reported with their reason, want %d: %+v", reported, want, checks)
			}
		})
	}
}

// A slowDriver is a driver whose sandboxes start slowly.
type slowDriver struct{ sandbox.Driver }

func (slowDriver) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities{Details: map[string]string{sandbox.SlowStart: "no starter works"}}, nil
}

// TestSlowStarts checks that sandboxes that start slowly are a warning.
func TestSlowStarts(t *testing.T) {
	t.Parallel()
	slow := describeKind(t.Context(), sandbox.Kind{Name: "process", Driver: slowDriver{}})
	want := []Check{{Part: "sandbox process", Name: "slow start", Detail: "no starter works"}}
	if got := checkStarts("sandbox process", slow); !slices.Equal(got, want) {
		t.Errorf("checks %+v, want %+v", got, want)
	}
	if got := checkStarts("sandbox process", api.Capability{}); len(got) > 0 {
		t.Errorf("checks %+v, want none", got)
	}
}

// TestDoctorUpstreams checks how doctor describes upstreams that are ready.
func TestDoctorUpstreams(t *testing.T) {
	for want, u := range map[string]api.Upstream{
		"ready, 1 tool, folder":         {State: "ready", Tools: 1, Type: "folder", Protocol: "folder"},
		"ready, 3 tools, x 1, MCP 2025": {State: "ready", Tools: 3, Type: "stdio", Protocol: "2025", Server: "x 1"},
		"down: can't be started":        {State: "down", Reason: "can't be started"},
	} {
		if got := checkUpstream("upstreams", u); got.Detail != want {
			t.Errorf("checkUpstream = %q, want %q", got.Detail, want)
		}
	}
}
