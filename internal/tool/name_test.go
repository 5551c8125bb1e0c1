package tool_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{
		"create_issue": "create_issue", "create-issue": "create_issue", "createIssue": "create_issue",
		"Create Issue": "create_issue", "create.issue": "create_issue",
		"getHTTPServer": "get_http_server", "listURLs": "list_ur_ls", "v2Call": "v2_call", "createissue": "createissue",
		"über-Maß": "über_maß", "": "",
	} {
		if got := tool.Snake(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := tool.SnakePattern("gitHub.list-*.x"); got != "git_hub.list_*.x" {
		t.Errorf(`got = %v, want "git_hub.list_*.x"`, got)
	}
}

func TestIsNamed(t *testing.T) {
	x := &tool.Tool{Upstream: "git-hub", Name: "create-issue"}
	for name, want := range map[string]bool{
		"create-issue": true, "create_issue": true, "createIssue": true, "git-hub.create-issue": true,
		"git_hub.createIssue": true, "git_hub_create_issue": true,
		"createissue": false, "create_issues": false, "create": false, "": false, "other.create_issue": false,
	} {
		if x.IsNamed(name) != want {
			t.Errorf("%q, !want = %t, want x.IsNamed(name) == want", name, !want)
		}
	}
	if !(&tool.Tool{Upstream: "a", Name: "delete"}).IsNamed("delete_") {
		t.Error("the name that programs write is not known")
	}
}
