// Package function turns the files of a tool folder into programs: one that describes what a file
// exports, and one for each call of an exported function. It reads files and writes code, but runs
// nothing: all code of a folder, even that at the top level of its files, runs in a sandbox.
package function

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of what a file of a folder can consist of.
const (
	maxFile    = 4 << 20 // bytes of one file
	maxSource  = 1 << 20 // bytes of the file that exports the tools
	maxModules = 2000    // files that it imports, directly or indirectly
	maxBytes   = 16 << 20
	maxExports = 200
)

// A File is a file of a folder with everything that it imports, in runnable form. It is immutable.
type File struct {
	Path     string   // below the folder, with slashes
	Language string   // "typescript", "python", or "bash" for the manifest of an executable
	Uses     []string // the paths of the files that it consists of, sorted
	source   string
	own      string // the texts of the folder's own files, without those of packages
	code     string // "typescript": a CommonJS module
	srcMap   []byte
	sources  map[string]string

	executable *executable // that a manifest describes; nil: the file is not a manifest
}

// An Export is a function that a file exports.
type Export struct {
	Name        string // "default" for a default export
	Title       string
	Description string
	Schema      json.RawMessage // of its arguments
	Annotations tool.Annotations
	Notes       []string // for the author: what could not be derived from the file
	how         invocation
}

// An invocation says how arguments by name are passed to an export.
type invocation struct {
	Export string   `json:"export"`
	Kind   string   `json:"kind"`            // "tool": execute(arguments); "function"
	Names  []string `json:"names,omitempty"` // its parameters in order; none: it accepts one object
	Rest   bool     `json:"rest,omitempty"`  // the last parameter accepts the rest
}

// languages maps the extensions of files that can have tools to their languages.
var languages = map[string]string{
	".ts": "typescript", ".mts": "typescript", ".js": "typescript", ".mjs": "typescript", ".py": "python",
}

// LanguageOf returns the language of a file that can have tools, or "".
func LanguageOf(name string) string {
	if strings.HasSuffix(name, ManifestEnding) {
		return "bash"
	}
	if strings.HasSuffix(name, ".d.ts") || strings.HasSuffix(name, ".d.mts") {
		return ""
	}
	return languages[path.Ext(name)]
}

// ReadFile reads a file of a folder, and what it imports. The error says why the file can't be
// used.
func ReadFile(folder fs.FS, name string) (*File, error) {
	text, err := readText(folder, name, maxSource)
	if err != nil {
		return nil, err
	}
	f := &File{Path: name, Language: LanguageOf(name), source: text}
	switch f.Language {
	case "typescript":
		err = f.bundleFiles(folder)
	case "python":
		err = f.collectPython(folder)
	case "bash":
		err = f.readExecutable(folder)
	default:
		err = tool.Errorf(tool.Invalid, "%s: only .ts, .js, .mts, .mjs, .py and .tool.yaml files have tools", name)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A Names completes programs with the names of the tools that they can call.
type Names interface {
	// FromBundle is program.FromBundle with the names that the words of own may refer to.
	FromBundle(who tool.Principal, b program.Bundled, own string) *program.Program
}

// Description returns a program whose value lists the exports of f, for ReadExports.
func (f *File) Description(env map[string]string) *program.Program {
	return program.FromBundle(f.buildScript(env, "describe", nil, nil))
}

// ProgramOf returns a program that calls an export of f with arguments, a JSON object.
func (f *File) ProgramOf(who tool.Principal, n Names, e *Export, arguments json.RawMessage,
	env map[string]string) *program.Program {
	return n.FromBundle(who, f.buildScript(env, "invoke", &e.how, arguments), f.own)
}
