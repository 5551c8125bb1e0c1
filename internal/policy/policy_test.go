package policy_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestZeroEngineDenies(t *testing.T) {
	if d := new(policy.Engine).Decide(policy.Request{}); d.Effect != policy.Deny || d.Reason == "" {
		t.Errorf("zero engine: %+v, want a denial with its reason", d)
	}
}

func TestOpenAllowsAtItsTier(t *testing.T) {
	d := policy.Open(tool.GVisor).Decide(policy.Request{})
	if d.Effect != policy.Allow || d.Grant.Tier != tool.GVisor {
		t.Errorf("open: %+v, want allow at gvisor", d)
	}
}
