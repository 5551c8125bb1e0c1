package policy_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestProfileWithoutRequiredTool checks that a profile has a tool only if it also has the tool that
// this requires.
func TestProfileWithoutRequiredTool(t *testing.T) {
	ps := policy.Profiles{"lists": {{Pattern: "notes.resources.list"}}, "all": {{Pattern: "notes.*"}}}
	for profile, want := range map[string]string{"all": "",
		"lists": "it is for callers that may call notes.resources.read, and profile lists does not have that"} {
		list := tool.NewOffers("notes", tool.ListResources).Tools[0]
		if got := ps.ExplainDenial(tool.Principal{Profile: profile}, list); got != want {
			t.Errorf("profile %s: ExplainDenial = %q, want %q", profile, got, want)
		}
	}
	other := &tool.Tool{Upstream: "notes", Name: "get"}
	if got := ps.ExplainDenial(tool.Principal{Profile: "lists"}, other); got == "" || strings.Contains(got, "callers") {
		t.Errorf("ExplainDenial of another tool = %q, want that the profile doesn't have it", got)
	}
}
