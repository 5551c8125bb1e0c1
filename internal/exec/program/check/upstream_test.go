package check_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/program/check"
)

func TestMayUseUpstream(t *testing.T) {
	for _, tt := range []struct {
		code string
		any  bool // any upstream
		want bool // git-hub, with the namespace github
	}{
		{"return 1", false, false},
		{"return await github.list()", false, true},
		{"const g = 'git-hub'; return g.length", false, true},
		{"return await gitlab.list()", false, false},
		{"return await tools['git' + 'hub'].list()", true, true},
		{"return await callTool('x.y')", true, true},
		{"return await search('issues')", true, true},
		{"return await list_issues()", true, true}, // a tool without its upstream
		{"def f(n):\n    return n + 1\nf(1)", false, false},
		{`return await \u0067ithub.list()`, true, true},
	} {
		mayUse := check.MayUseUpstream(tt.code)
		if any := mayUse == nil; any != tt.any {
			t.Errorf("%s: any upstream: %t, want %t", tt.code, any, tt.any)
		} else if !any && mayUse("git-hub", "github") != tt.want {
			t.Errorf("%s: may use github: %t, want %t", tt.code, !tt.want, tt.want)
		}
	}
}
