package function

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// MaxDepth is the maximum nesting of calls of tools of folders.
const MaxDepth = 4

// A Runner runs functions; *executor.Executor is one.
type Runner interface {
	RunFunction(context.Context, *tool.Call, *execution.Function) (*execution.FunctionResult, error)
}

// A Host runs the files of folders.
type Host struct {
	// Levels run functions: the first one runs what agents and their programs call, the next one
	// what these functions call, and so on. They are separate, so that functions that wait for
	// others never occupy all turns.
	Levels [MaxDepth]Runner
	// Loader runs the programs that describe files. Its programs can't call tools.
	Loader Runner
	Names  Names
}

// A Permission is what the configuration grants to the files of a folder.
type Permission struct {
	Grantor string // for the record: "folders.local"
	Tier    tool.Tier
	Hosts   []string          // network hosts, in lower case
	Env     map[string]string // of calls
	LoadEnv map[string]string // of the top-level code that describes the files
	Files   Files             // what they see as ./workspace; nil: nothing
	Timeout time.Duration
}

// Files are the files that the functions of a folder see. Their changes are dropped.
type Files interface {
	ReadTree() (*vfs.Tree, error)
}

// readFiles returns the files of a call.
func (p *Permission) readFiles() (*vfs.Tree, error) {
	if p.Files == nil {
		return nil, nil
	}
	return p.Files.ReadTree()
}

// A Module is a file of a folder that was loaded. It is immutable.
type Module struct {
	*File
	Exports []Export
	Broken  []Broken
	host    *Host
	may     *Permission
}

// loadTime is how long a file's top-level code may run.
const loadTime = 10 * time.Second

// LoadFile reads a file, and runs its top-level code to see what it exports. The error says why the
// file can't be used.
func (h *Host) LoadFile(ctx context.Context, folder fs.FS, name string, may *Permission) (*Module, error) {
	f, err := ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	if f.executable != nil {
		return &Module{File: f, Exports: []Export{f.executable.self}, host: h, may: may}, nil
	}
	files, err := may.readFiles()
	if err != nil {
		return nil, err
	}
	loading := &tool.Call{Principal: tool.Principal{ID: may.Grantor, Name: may.Grantor}}
	r, err := h.Loader.RunFunction(ctx, loading, &execution.Function{Program: f.Description(may.LoadEnv),
		Language: f.Language, Serving: tool.Serving{Tools: []string{may.Grantor}, Grantor: may.Grantor}, Tier: may.Tier,
		Timeout: loadTime, Files: files})
	switch {
	case err != nil:
		return nil, err
	case r.Failure != nil:
		kind := tool.Invalid
		if k := tool.Kind(r.Failure.Kind); k == tool.Unavailable || k == tool.Internal {
			kind = k
		}
		return nil, tool.Errorf(kind, "%s", failureText(r.Failure))
	}
	m := &Module{File: f, host: h, may: may}
	if m.Exports, m.Broken, err = f.ReadExports(r.Value); err != nil {
		return nil, err
	}
	return m, nil
}

// CallExport calls an export for the principal of c, whose Tool is the export's.
func (m *Module) CallExport(ctx context.Context, c *tool.Call, e *Export) (*tool.Result, error) {
	serving := tool.Serving{Hosts: m.may.Hosts, Grantor: m.may.Grantor}
	if by := c.FromProgram().Serving; by != nil {
		serving.Tools = append(serving.Tools, by.Tools...)
	}
	path := c.Tool.Path()
	depth := len(serving.Tools)
	for _, t := range serving.Tools {
		if t == path {
			return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s calls itself: %s", path,
				strings.Join(append(serving.Tools, path), " calls ")))
		}
	}
	if depth >= MaxDepth {
		return nil, tool.NotSent(tool.Errorf(tool.Limit, "at most %d tools of folders can call each other: %s",
			MaxDepth, strings.Join(append(serving.Tools, path), " calls ")))
	}
	serving.Tools = append(serving.Tools, path)
	files, err := m.may.readFiles()
	if err != nil {
		return nil, tool.NotSent(err)
	}
	var script *program.Program
	if m.executable == nil {
		script = m.ProgramOf(c.Principal, m.host.Names, e, c.Arguments, m.may.Env)
	} else if script, files, err = m.executable.buildProgram(c.Arguments, m.may.Env, files); err != nil {
		return nil, tool.NotSent(err)
	}
	r, err := m.host.Levels[depth].RunFunction(ctx, c, &execution.Function{
		Program:  script,
		Language: m.Language, Serving: serving, ReadOnly: c.Tool.Annotations.Reads(), Tier: m.may.Tier,
		Timeout: m.may.Timeout, Files: files,
	})
	if err != nil {
		return nil, err
	}
	if r.Failure != nil {
		return failedResult(r.Failure)
	}
	return newResult(r)
}

// failedResult returns the result of a function that threw, or the error for one that was stopped.
func failedResult(f *execution.Failure) (*tool.Result, error) {
	switch kind := tool.Kind(f.Kind); kind {
	case tool.Internal, tool.Unavailable:
		return nil, tool.Errorf(kind, "%s", f.Message)
	}
	return tool.Text(true, failureText(f)), nil
}

// failureText returns the message of a failure, with a hint.
func failureText(f *execution.Failure) string {
	if f.Hint != "" && !strings.Contains(f.Hint, "upstream") {
		return f.Message + "\n" + f.Hint
	}
	return f.Message
}

// newResult returns the result of a function that returned. A value that is already an MCP result
// is returned as it is.
func newResult(r *execution.FunctionResult) (*tool.Result, error) {
	value := bytes.TrimSpace(r.Value)
	var own struct {
		Content []struct {
			Type string `json:"type"`
		} `json:"content"`
	}
	if len(value) > 0 && value[0] == '{' && json.Unmarshal(value, &own) == nil && len(own.Content) > 0 &&
		own.Content[0].Type != "" {
		return tool.ParseResult(value)
	}
	content := []any{}
	for _, b := range r.Blocks {
		content = append(content, b)
	}
	if r.Undefined {
		return tool.NewResult(content, nil, false)
	}
	text := string(value)
	if value[0] == '"' {
		if err := json.Unmarshal(value, &text); err != nil {
			return nil, fmt.Errorf("value of a function: %w", err)
		}
	}
	content = append([]any{tool.TextBlock{Type: "text", Text: text}}, content...)
	v := struct {
		Content    []any           `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
	}{Content: content}
	if value[0] == '{' {
		v.Structured = json.RawMessage(value)
	}
	raw, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	res, err := tool.ParseResult(raw)
	if err == nil {
		res.Structured = json.RawMessage(value)
	}
	return res, err
}
