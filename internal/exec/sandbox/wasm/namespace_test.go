package wasm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestNamespaces runs programs of one session, whose upstreams and tools change between them.
func TestNamespaces(t *testing.T) {
	type spaces = map[string][]string
	github := spaces{"github": {"issues_list", "me"}}
	k := newKept(t, realDriver(t, Config{}), sandbox.Spec{})
	for _, c := range []struct {
		name    string
		spaces  spaces
		aliases map[string]string
		whole   []string
		code    string
		want    string
	}{
		{"first", github, nil, nil, `g = github; [typeof g.me, "me" in g, tools.github === g, tools === mcp]`,
			`["function",true,true,true]`},
		{"same tools", github, nil, nil, `[github === g, Object.keys(github), String(github)]`,
			`[true,["issues_list","me"],"[tools github: issues_list, me]"]`},
		{"other spelling", github, nil, nil,
			`[typeof github.issues.list, github.Me === github.me, typeof tools.GitHub]`,
			`["function",true,"object"]`},
		{"other tools", spaces{"github": {"you"}}, nil, nil,
			`["me" in github, "you" in github, Object.keys(github), "me" in g]`,
			`[true,true,["you"],true]`},
		{"all tools", spaces{"github": {"you"}}, nil, []string{"github"},
			`["me" in github, "you" in github]`, `[false,true]`},
		{"some tools", github, nil, nil, `["me" in github, "him" in github]; github = 5`, `5`},
		{"its own global", github, nil, nil, `[github, typeof tools.github.me]`, `[5,"function"]`},
		{"deleted", github, nil, nil, `delete globalThis.github`, `true`},
		{"back", github, nil, nil, `typeof github.me`, `"function"`},
		{"deleted roots", github, nil, nil,
			`delete globalThis.mcp && delete globalThis.tools && delete globalThis.callTool`, `true`},
		{"roots back", github, nil, nil, `[mcp === tools, typeof callTool]`, `[true,"function"]`},
		{"replaced roots", github, nil, nil, `tools = 1; callTool = 2; mcp = 3`, `3`},
		{"roots of its own", github, nil, nil,
			`[typeof tools.github, typeof callTool, mcp]; `, `["object","function",3]`},
		{"an unknown upstream", github, nil, nil,
			`[Object.keys(tools), typeof tools["gitlab"]]`, `[["github"],"undefined"]`},
		{"an alias", github, map[string]string{"hub": "github"}, nil, `hub === github`, `true`},
		{"no alias", github, nil, nil, `typeof hub`, `"undefined"`},
		{"a second upstream", spaces{"github": {"me"}, "codemode": {"run"}}, nil, nil,
			`[Object.keys(tools), Object.keys(codemode), servers === tools]`, `[["codemode","github"],["run"],true]`},
		{"a removed upstream", spaces{"codemode": {"run"}}, nil, nil,
			`[typeof github, typeof g.me, Object.keys(tools)]`,
			`["undefined","function",["codemode"]]`},
		{"no upstream", nil, nil, nil, `[codemode === tools, Object.keys(tools)]`, `[true,[]]`},
		{"still none", nil, nil, nil, `codemode === tools`, `true`},
		{"as at first", github, nil, nil, `[codemode === tools, servers === tools, Object.keys(github)]`,
			`[true,true,["issues_list","me"]]`},
	} {
		code, err := json.Marshal(c.code)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		line, err := tool.Marshal(sandbox.HostMessage{At: 1767225700000, Run: &sandbox.Run{
			Code: "(() => { return eval(" + string(code) + "); })", Name: "p.js", Session: true,
			Namespaces: c.spaces, Aliases: c.aliases, Whole: c.whole}})
		if err != nil {
			t.Fatalf("tool.Marshal: %v", err)
		}
		if got := k.say(string(line)); !strings.Contains(got, `"value":`+c.want+"}") {
			t.Errorf("%s: got = %s, want the value %s", c.name, got, c.want)
		}
	}
}
