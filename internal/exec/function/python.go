package function

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxPython is the number of Python files of a folder that a file can import.
const maxPython = 500

// collectPython reads the Python files of the folder, which f may import: what a Python program
// imports is only known when it runs.
func (f *File) collectPython(folder fs.FS) error {
	texts := map[string]string{f.Path: f.source}
	size := len(f.source)
	if strings.Contains(f.source, "import") {
		err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
			switch base := path.Base(name); {
			case err != nil:
				return nil // it can't be imported
			case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "node_modules" ||
				base == "__pycache__" || strings.Count(name, "/") > 8):
				return fs.SkipDir
			case !d.Type().IsRegular() || path.Ext(name) != ".py" || texts[name] != "":
				return nil
			}
			s, err := readText(folder, name, maxSource)
			if err != nil {
				return nil // it can't be imported
			}
			texts[name] = s
			if size += len(s); size > maxBytes || len(texts) > maxPython {
				return tool.Errorf(tool.Limit, "the folder has more Python than a tool can import: at most %d "+
					"files of together %s are read", maxPython, text.Size(maxBytes))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	f.keepTexts(texts)
	return nil
}

// pythonScript returns the program that imports f and calls the runtime.
func (f *File) pythonScript(env map[string]string, method string, how *invocation,
	arguments json.RawMessage) program.Bundled {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(pythonSource))
	fmt.Fprintf(&b, "\n\nawait _main(%s, %s, %s, %s, %s, %s)\n", quoteValue(f.sources), quoteValue(f.Path),
		quoteValue(env), quoteValue(method), quoteValue(how), quoteJSON(arguments))
	return program.Bundled{Code: b.String(), Python: true, Sources: f.sources}
}
