package function

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/yamldoc"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ManifestEnding is the end of the names of files that describe executables.
const ManifestEnding = ".tool.yaml"

// Limits of executables.
const (
	maxManifest   = 64 << 10 // bytes
	maxExecutable = 16 << 20 // bytes
	maxOutput     = 64 << 10 // bytes of standard output
)

// An executable is a program that a manifest describes.
type executable struct {
	path string // below the folder
	data []byte
	args []string
	self Export
}

// A description is the content of a manifest.
type description struct {
	Executable  string   `yaml:"executable"` // beside the manifest; "": the file of the manifest's name
	Args        []string `yaml:"args"`
	Title       string   `yaml:"title"`
	Description string   `yaml:"description"`
	Parameters  any      `yaml:"parameters"` // JSON Schema
	ReadOnly    *bool    `yaml:"read_only"`
	Destructive *bool    `yaml:"destructive"`
	Idempotent  *bool    `yaml:"idempotent"`
	OpenWorld   *bool    `yaml:"open_world"`
}

// readExecutable reads the manifest f and its executable.
func (f *File) readExecutable(folder fs.FS) error {
	m, err := parseManifest(f.Path, f.source)
	if err != nil {
		return err
	}
	x := &executable{args: m.Args}
	if x.path, err = findExecutable(folder, f.Path, m.Executable); err != nil {
		return err
	}
	if x.data, err = readBytes(folder, x.path, maxExecutable); err != nil {
		return err
	}
	x.self = Export{Name: "default", Title: cutText(m.Title, 200), Description: cutText(m.Description, maxDoc),
		Schema: json.RawMessage(`{"type":"object"}`), Annotations: tool.Annotations{ReadOnly: m.ReadOnly,
			Destructive: m.Destructive, Idempotent: m.Idempotent, OpenWorld: m.OpenWorld}}
	if m.Parameters == nil {
		x.self.Notes = []string{"it has no parameters: it accepts any arguments"}
	} else if x.self.Schema, err = tool.Marshal(m.Parameters); err != nil {
		return tool.Errorf(tool.Invalid, "%s: parameters can't be written as JSON: %w", f.Path, err)
	}
	if why := checkSchema(x.self.Schema); why != "" {
		return tool.Errorf(tool.Invalid, "%s: %s", f.Path, why)
	}
	f.executable, f.Uses = x, []string{f.Path, x.path}
	return nil
}

// parseManifest parses a manifest.
func parseManifest(name, source string) (*description, error) {
	if len(source) > maxManifest {
		return nil, tool.Errorf(tool.Limit, "%s has %s, at most %s are read", name, text.Size(len(source)),
			text.Size(maxManifest))
	}
	m := &description{}
	if err := yamldoc.DecodeStrictly([]byte(source), m); err != nil {
		return nil, tool.Errorf(tool.Invalid, "%s: %s", name, err.Error())
	}
	return m, nil
}

// findExecutable returns the path of the file that a manifest describes.
func findExecutable(folder fs.FS, manifest, name string) (string, error) {
	dir := path.Dir(manifest)
	if name != "" {
		at := path.Join(dir, name)
		if !fs.ValidPath(at) || path.IsAbs(name) {
			return "", tool.Errorf(tool.Invalid, "%s: executable: %q is not in the folder", manifest, name)
		}
		return at, nil
	}
	stem := strings.TrimSuffix(path.Base(manifest), ManifestEnding)
	all, err := fs.ReadDir(folder, dir)
	if err != nil {
		return "", readError(dir, err)
	}
	var found []string
	for _, d := range all {
		own := d.Name() == stem || strings.TrimSuffix(d.Name(), path.Ext(d.Name())) == stem
		if own && d.Type().IsRegular() {
			found = append(found, d.Name())
		}
	}
	switch len(found) {
	case 1:
		return path.Join(dir, found[0]), nil
	case 0:
		return "", tool.Errorf(tool.NotFound, "%s: there is no executable %s beside it: add it, or name it with "+
			"executable", manifest, stem)
	}
	return "", tool.Errorf(tool.Invalid, "%s: several files beside it can be the executable (%s): choose one with "+
		"executable", manifest, strings.Join(found, ", "))
}

// The files that a call of an executable finds in its workspace.
const (
	programPlace   = ".tool/program"
	argumentsPlace = ".tool/arguments"
)

// buildScript returns the shell script that runs the executable: with the arguments as JSON on
// standard input, in a folder with the files that it may read.
func (x *executable) buildScript(env map[string]string) string {
	words := []string{"env"}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		words = append(words, quoteWord(name+"="+env[name]))
	}
	words = append(words, quoteWord("/tmp/tool/"+path.Base(x.path)))
	for _, a := range x.args {
		words = append(words, quoteWord(a))
	}
	lines := []string{
		"mkdir /tmp/tool && mv " + programPlace + " " + quoteWord("/tmp/tool/"+path.Base(x.path)) +
			" && mv " + argumentsPlace + " /tmp/.arguments && rmdir .tool || exit",
		"chmod 700 " + quoteWord("/tmp/tool/"+path.Base(x.path)) + " || exit",
		strings.Join(words, " ") + " < /tmp/.arguments > /tmp/.output || exit",
		fmt.Sprintf(`[ "$(wc -c < /tmp/.output)" -le %d ] || { echo "its output has over %s: write less, or `+
			`return parts of it" >&2; exit 1; }`, maxOutput, text.Size(maxOutput)),
		"cat /tmp/.output",
	}
	return strings.Join(lines, "\n") + "\n"
}

// quoteWord returns a word as the shell reads it unchanged.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// buildProgram returns the program of a call, and adds the files that it needs.
func (x *executable) buildProgram(arguments json.RawMessage, env map[string]string,
	files *vfs.Tree) (*program.Program, *vfs.Tree, error) {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	for _, f := range []struct {
		at   string
		data []byte
	}{{programPlace, x.data}, {argumentsPlace, arguments}} {
		var err error
		if files, err = files.With(f.at, vfs.File(f.data, time.Time{})); err != nil {
			return nil, nil, tool.Errorf(tool.Internal, "files of a call: %w", err)
		}
	}
	return program.FromBundle(program.Bundled{Code: x.buildScript(env), Shell: true}), files, nil
}
