package daemon

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSearchFindsSkills(t *testing.T) {
	t.Parallel()
	tools := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "the tools"), nil
	})
	all := []skill.Info{
		{Name: "retry.ts", Description: "Calls again what failed.",
			Signatures: []string{"async function withRetry(f, times)"},
			Import:     `import { withRetry } from "./skills/retry"`},
		{Name: "vat.py", Description: "German value added tax.", Signatures: []string{"def vat(net)"},
			Import: "from skills.vat import vat"},
	}
	s := withSkills(tools, func(_ context.Context, p tool.Principal) ([]skill.Info, error) {
		if p.ID == "" {
			return nil, nil
		}
		return all, nil
	}, nil)
	ask := func(owner, args string) string {
		t.Helper()
		res, err := s.Call(t.Context(),
			&tool.Call{Arguments: json.RawMessage(args), Principal: tool.Principal{ID: owner}})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		var b tool.TextBlock
		if err := json.Unmarshal(res.Content[0], &b); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		return b.Text
	}
	if got := ask("", `{"query":"retry"}`); got != "the tools" {
		t.Errorf("without skills: %q", got)
	}
	if got := ask("ann", `{"query":"nothing like it"}`); got != "the tools" {
		t.Errorf("no hit: %q", got)
	}
	got := ask("ann", `{"query":"retry a call"}`)
	if got != "skill ./skills/retry.ts - Calls again what failed.\nimport { withRetry } from "+
		"\"./skills/retry\"\nasync function withRetry(f, times)\n\nthe tools" || strings.Contains(got, "vat") {
		t.Errorf("hit: %q", got)
	}
	if got := ask("ann", `{"query":"tax","detail":"brief"}`); !strings.HasPrefix(got, "the tools") ||
		!strings.HasSuffix(got, "skill ./skills/vat.py - German value added tax.") {
		t.Errorf("brief: %q", got)
	}
	if got := ask("ann", `{}`); !strings.HasSuffix(got, "Skills, to import from ./skills: retry.ts, vat.py") {
		t.Errorf("overview: %q", got)
	}
}
