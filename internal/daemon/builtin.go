package daemon

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// instructions is sent to agents when they connect.
const instructions = `Do work by writing programs: search for the tools you need, then call execute once with a ` +
	`TypeScript or Python program that calls them and returns only what you need to know.`

// The definitions of Biplane's own tools for agents: three tools, under 1,000 tokens together.
// Their bytes never change, so that prompt caches keep them.
const (
	executeText = `Run a TypeScript, JavaScript or Python program in a sandbox, where the tools that search finds are async functions. Only the program's value and its console lines come back; results of calls stay inside. So do a whole job in one program: loop, filter, join, and call in parallel with Promise.all.

const issues = await github.list_issues({ repo: "a/b" });   // <upstream>.<tool>(arguments)
const same = await callTool("github.list-issues", { repo: "a/b" });   // exact name
const hits = await search("open a pull request");   // also from inside
return issues.filter(i => i.open).map(i => i.title);

The same in Python: await github.list_issues(repo="a/b"), call_tool, asyncio.gather; the standard library is there, pip is not.

The value is what the program returns, or its last expression. A tool's failure is a thrown ToolError {upstream, tool, kind, message}; a program that fails says what it had called already.

- Session: name one, and variables, functions, imports and files live on for its next programs. Without one, a program begins with nothing.
- Files: ./workspace is the session's, for both languages (node:fs/promises; open, pathlib). emit(path) gives one to the user.
- Skills: a module saved as ./skills/<name>.ts or .py can be imported by all later programs; search finds it.
- Declarations: ./tools/<upstream>/<tool>.ts, ./tools/<upstream>/__init__.pyi.
- fetch reaches permitted hosts only, often none. Processes, require, packages: tier process only.

A value that is too large is cut, and kept under a handle for a later program. If the answer says that the program goes on, call resume.`

	resumeText = `Wait for an execution that was still running when execute or resume answered, and get its result.`

	executeSchema = `{"type":"object","properties":{"code":{"type":"string","description":"the program"},` +
		`"language":{"type":"string","description":"typescript (default), javascript, python, bash, go, rust, java"},` +
		`"session":{"type":"string","description":"a name: made when first used, kept for the next ` +
		`programs"},"after":{"type":"string","description":"id of an execution that this one corrects: calls that it ` +
		`had done are not made again"},"mode":{"type":"string","description":"plan: a person is asked once for all ` +
		`writes, before any is made"},"files":{"type":"array","description":"put into ./workspace before it runs; ` +
		`blob is base64","items":{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"},` +
		`"blob":{"type":"string"}}}},"timeout_seconds":{"type":"number","exclusiveMinimum":0,"description":"without ` +
		`the time of tools; default 60"},"tier":{"type":"string",` +
		`"description":"process: the host's Node.js or Python, with packages"},` +
		`"image":{"type":"string","description":"image with packages, as the user or an error names it"}},` +
		`"required":["code"],"additionalProperties":false}`

	resumeSchema = `{"type":"object","properties":{"execution":{"type":"string","description":"as the earlier answer ` +
		`names it"}},"required":["execution"],"additionalProperties":false}`
)

//go:embed skills
var skillFolder embed.FS

// openSkills returns the folders of the skills for agents.
func openSkills() fs.FS {
	sub, err := fs.Sub(skillFolder, "skills")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// builtin returns the definitions of Biplane's own tools, in the order in which agents see them.
func builtin() []*tool.Tool {
	yes, no := true, false
	return []*tool.Tool{
		catalog.SearchDefinition(),
		{Upstream: tool.Own, Name: "execute", Title: "Run a program", Description: executeText,
			InputSchema: json.RawMessage(executeSchema)},
		{Upstream: tool.Own, Name: "resume", Title: "Wait for a program", Description: resumeText,
			InputSchema: json.RawMessage(resumeSchema),
			Annotations: tool.Annotations{ReadOnly: &yes, OpenWorld: &no}},
	}
}

// A table is a Caller that dispatches calls by the tool's name.
type table map[string]tool.Caller

// Call forwards c to the Caller of its tool.
func (t table) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	next := t[c.Tool.Name]
	if next == nil {
		return nil, tool.Errorf(tool.NotFound, "biplane has no tool %s", c.Tool.Name)
	}
	return next.Call(ctx, c)
}
