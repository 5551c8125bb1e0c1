package policy_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// never is a policy that matches no request, and prevents cached decisions for all files.
const never = "\n@id(\"never\") forbid (principal, action, resource) when { principal.id == \"nobody at all\" };"

// TestFilesAreDecidedOnceForAll compares the cached decisions for all files with individual ones.
func TestFilesAreDecidedOnceForAll(t *testing.T) {
	texts := []string{
		`permit (principal, action, resource);`,
		`permit (principal, action == Action::"read", resource);`,
		`permit (principal, action in [Action::"read", Action::"write"], resource is File);`,
		`permit (principal, action in [Action::"read", Action::"call"], resource);`,
		`permit (principal, action, resource is Tool);`,
		`permit (principal == User::"bob", action, resource);`,
		`permit (principal, action, resource in Folder::"workspace");`,
		`permit (principal, action, resource) when { resource.readOnly };`,
		`permit (principal, action, resource); forbid (principal, action == Action::"call", resource);`,
		`permit (principal, action, resource); forbid (principal, action == Action::"write", resource == ` +
			`File::"workspace/a");`,
		`permit (principal, action, resource); @ask("x") permit (principal, action == Action::"call", resource);`,
		`permit (principal, action, resource); @ask("x") permit (principal, action, resource);`,
		`permit (principal, action, resource); @tier("gvisor") permit (principal, action == Action::"read", resource);`,
		`@tier("wasm") permit (principal, action, resource);`,
	}
	for _, name := range policy.Starters() {
		f, _ := policy.Starter(name)
		texts = append(texts, string(f.Text))
	}
	for _, text := range texts {
		engine := func(text string) *policy.Engine {
			e, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar", Text: []byte(text)}},
				Tier: tool.WASM})
			if err != nil {
				t.Fatalf("policy.New: %v", err)
			}
			return e
		}
		fast, slow := engine(text), engine(text+never)
		for _, path := range []string{"workspace/a", "workspace/b/c", "skills/x.ts", "workspace"} {
			for _, write := range []bool{false, true} {
				r := policy.Request{Principal: tool.Principal{ID: "ann"},
					File: &policy.FileUse{Path: path, Write: write}}
				a, b := fast.Decide(r), slow.Decide(r)
				if a.Effect != b.Effect || a.Effect == policy.Ask {
					t.Errorf("%s\n%s, write %v: %s once for all, %s looked at", text, path, write, a.Effect, b.Effect)
				}
				if a.Policy != b.Policy {
					t.Errorf("%s\n%s, write %v: by %s once for all, by %s looked at", text, path, write,
						a.Policy, b.Policy)
				}
			}
		}
	}
}

func TestCheckSaysThatFilesAreDenied(t *testing.T) {
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar",
		Text: []byte(`permit (principal, action in [Action::"call", Action::"read"], resource);`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	problems, warnings := e.Check(nil)
	if len(problems) != 0 || len(warnings) != 1 ||
		!strings.Contains(warnings[0].Message, "no policy permits programs to write their files") {
		t.Errorf("problems = %v, warnings = %v", problems, warnings)
	}
}

// BenchmarkFile measures a file decision under the default policy, and under one that depends on
// folders.
func BenchmarkFile(b *testing.B) {
	for _, name := range []string{"ask-for-writes", "read-only"} {
		f, _ := policy.Starter(name)
		e, err := policy.New(policy.Config{Files: []policy.File{f}, Tier: tool.WASM})
		if err != nil {
			b.Fatalf("policy.New: %v", err)
		}
		r := policy.Request{Principal: tool.Principal{ID: "ann"},
			File: &policy.FileUse{Path: "workspace/a/b.csv", Write: true}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if d := e.Decide(r); d.Effect != policy.Allow {
					b.Fatalf("d = %v, want d.Effect == policy.Allow", d)
				}
			}
		})
	}
}
