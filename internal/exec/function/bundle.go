package function

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// readText reads a file of at most most bytes. A link that leaves the folder is an error of folder.
func readText(folder fs.FS, name string, most int64) (string, error) {
	data, err := readBytes(folder, name, most)
	if err == nil && !utf8.Valid(data) {
		err = tool.Errorf(tool.Invalid, "%s is not valid UTF-8", name)
	}
	return string(data), err
}

// readBytes reads a file.
func readBytes(folder fs.FS, name string, most int64) ([]byte, error) {
	if info, err := fs.Stat(folder, name); err == nil && !info.Mode().IsRegular() {
		return nil, tool.Errorf(tool.Invalid, "%s is not a regular file", name) // opening a pipe would block
	}
	f, err := folder.Open(name)
	if err != nil {
		return nil, readError(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, readError(name, err)
	case !info.Mode().IsRegular():
		return nil, tool.Errorf(tool.Invalid, "%s is not a regular file", name)
	case info.Size() > most:
		return nil, tool.Errorf(tool.Limit, "%s has %s, at most %s are read", name, text.Size(int(info.Size())),
			text.Size(int(most)))
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, readError(name, err)
	case int64(len(data)) > most:
		return nil, tool.Errorf(tool.Limit, "%s has over %s", name, text.Size(int(most)))
	}
	return data, nil
}

// readError returns the error for a file that can't be read, without the path on the host.
func readError(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	if strings.Contains(err.Error(), "escapes") {
		return tool.Errorf(tool.Denied, "%s leads out of the folder by a link: copy the file into it", name)
	}
	return tool.Errorf(tool.Unavailable, "%s can't be read: %w", name, err)
}

// A bundler reads what a file imports.
type bundler struct {
	folder fs.FS

	mu     sync.Mutex
	texts  map[string]string // by path
	bytes  int
	failed error // the first limit that was exceeded
}

// ownSpace is the namespace of Biplane's own modules, filesSpace that of the folder's files.
const (
	ownSpace   = "biplane"
	filesSpace = "folder"
)

// bundleFiles bundles f and everything that it imports into one CommonJS module.
func (f *File) bundleFiles(folder fs.FS) error {
	b := &bundler{folder: folder, texts: map[string]string{}}
	r := api.Build(api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: "./" + f.Path, OutputPath: "out"}},
		Bundle:              true, Write: false, Outdir: "/", AbsWorkingDir: "/", Format: api.FormatCommonJS,
		Platform: api.PlatformNeutral, Target: api.ESNext, TsconfigRaw: "{}",
		Supported: map[string]bool{"decorators": false, "using": false, "dynamic-import": false},
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude,
		LegalComments: api.LegalCommentsNone, LogLevel: api.LogLevelSilent, Define: map[string]string{
			"process.env.NODE_ENV": `"production"`,
		},
		Plugins: []api.Plugin{{Name: "folder", Setup: b.addHooks}},
	})
	switch {
	case b.failed != nil:
		return b.failed
	case len(r.Errors) > 0:
		return compileError(r.Errors[0])
	}
	for _, o := range r.OutputFiles {
		if path.Ext(o.Path) == ".map" {
			f.srcMap = o.Contents
		} else {
			f.code = string(o.Contents)
		}
	}
	if len(f.code) > maxBytes {
		return tool.Errorf(tool.Limit, "%s and what it imports are over %s", f.Path, text.Size(maxBytes))
	}
	f.keepTexts(b.texts)
	return renameSources(&f.srcMap)
}

// keepTexts keeps the texts of the files that f consists of.
func (f *File) keepTexts(texts map[string]string) {
	f.sources, f.Uses = texts, slices.Sorted(maps.Keys(texts))
	var own strings.Builder
	for _, name := range f.Uses {
		if !strings.Contains(name, "node_modules/") {
			own.WriteString(texts[name] + "\n")
		}
	}
	f.own = own.String()
}

// renameSources removes the namespaces from the names of files in a source map.
func renameSources(srcMap *[]byte) error {
	var m struct {
		Version  int      `json:"version"`
		Sources  []string `json:"sources"`
		Mappings string   `json:"mappings"`
		Names    []string `json:"names"`
	}
	if err := json.Unmarshal(*srcMap, &m); err != nil {
		return tool.Errorf(tool.Internal, "the source map of a folder's file: %w", err)
	}
	for i, s := range m.Sources {
		m.Sources[i] = strings.TrimPrefix(s, filesSpace+":")
	}
	var err error
	*srcMap, err = json.Marshal(m)
	return err
}

// compileError returns the error for a message of the compiler.
func compileError(m api.Message) error {
	what := strings.TrimSuffix(m.Text, ":")
	if strings.Contains(what, "Top-level await") {
		what = "await at the top level isn't possible in a tool's file: use it inside of functions"
	}
	if l := m.Location; l != nil {
		return tool.Errorf(tool.Invalid, "%s (in %s, line %d, column %d)", what,
			strings.TrimPrefix(l.File, filesSpace+":"), l.Line, l.Column+1)
	}
	return tool.Errorf(tool.Invalid, "%s", what)
}

// addHooks makes the compiler read all files through b.
func (b *bundler) addHooks(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		to, space, err := b.resolveImport(a)
		switch {
		case err != nil:
			return api.OnResolveResult{Errors: []api.Message{{Text: err.Error()}}}, nil
		case space == "":
			return api.OnResolveResult{Path: to, External: true}, nil
		}
		return api.OnResolveResult{Path: to, Namespace: space}, nil
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: ownSpace},
		func(api.OnLoadArgs) (api.OnLoadResult, error) {
			return api.OnLoadResult{Contents: &moduleSource, Loader: api.LoaderJS}, nil
		})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: filesSpace},
		func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			s, err := b.loadText(a.Path)
			if err != nil {
				return api.OnLoadResult{Errors: []api.Message{{Text: err.Error()}}}, nil
			}
			return api.OnLoadResult{Contents: &s, Loader: loaders[path.Ext(a.Path)]}, nil
		})
}

var loaders = map[string]api.Loader{
	".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".js": api.LoaderJS, ".mjs": api.LoaderJS,
	".cjs": api.LoaderJS, ".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
	".sql": api.LoaderText, ".graphql": api.LoaderText,
}

// loadText reads a file that is imported. The compiler calls it concurrently.
func (b *bundler) loadText(name string) (string, error) {
	s, err := readText(b.folder, name, maxFile)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.texts[name]; !known {
		b.texts[name] = s
		b.bytes += len(s)
	}
	if len(b.texts) > maxModules || b.bytes > maxBytes {
		b.failed = tool.Errorf(tool.Limit, "it imports too much: at most %d files of together %s are read", maxModules,
			text.Size(maxBytes))
		return "", b.failed
	}
	return s, nil
}

// resolveImport returns the path of what a file imports, and its namespace: "" for what the
// sandbox has.
func (b *bundler) resolveImport(a api.OnResolveArgs) (to, space string, err error) {
	switch spec := a.Path; {
	case a.Kind == api.ResolveEntryPoint:
		return path.Clean(spec), filesSpace, nil
	case a.Namespace == ownSpace:
		return "", "", fmt.Errorf("%q can't be imported here", spec)
	case strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "../") || spec == "." || spec == "..":
		at := path.Join(path.Dir(a.Importer), spec)
		if at == ".." || strings.HasPrefix(at, "../") {
			return "", "", fmt.Errorf("%q is outside of the folder", spec)
		}
		if found := b.findFile(at); found != "" {
			return found, filesSpace, nil
		}
		return "", "", fmt.Errorf("there is no file %q in the folder", at)
	case strings.HasPrefix(spec, "/"):
		return "", "", fmt.Errorf("%q is an absolute path: import files by paths such as \"./lib.ts\"", spec)
	case nodeModules.Has(strings.TrimPrefix(spec, "node:")):
		return spec, "", nil
	default:
		return b.findPackage(spec, path.Dir(a.Importer))
	}
}

// nodeModules are the Node.js modules that the sandbox has.
var nodeModules = lazily.Words(`fs fs/promises os buffer path path/posix timers/promises util url crypto`)

// ownModules are the packages for which Biplane has a module of its own, used when the folder does
// not contain the package.
var ownModules = lazily.Words(`biplane @biplane/tools zod zod/v3 zod/v4`)

// findFile returns the file at a path, whose ending an import may omit or write as that of the
// compiled file.
func (b *bundler) findFile(at string) string {
	if b.isFile(at) {
		return at
	}
	ext := path.Ext(at)
	for from, to := range map[string]string{".js": ".ts", ".mjs": ".mts"} {
		if other := strings.TrimSuffix(at, ext) + to; ext == from && b.isFile(other) {
			return other
		}
	}
	for _, end := range []string{".ts", ".mts", ".js", ".mjs", ".cjs", ".json", "/index.ts", "/index.js", "/index.mjs",
		"/index.cjs"} {
		if b.isFile(at + end) {
			return at + end
		}
	}
	return ""
}

func (b *bundler) isFile(name string) bool {
	info, err := fs.Stat(b.folder, name)
	return err == nil && info.Mode().IsRegular()
}
