package build

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// searched lists where the interpreters of languages are looked for, by the drivers' names.
var searched = lazily.Value[map[string][]string]{Make: func() map[string][]string {
	return map[string][]string{
		"python": {"/usr/local/bin/python3", "/usr/bin/python3", "/opt/venv/bin/python3"},
		"js":     {"/usr/local/bin/node", "/usr/bin/node", "/usr/bin/nodejs"},
		"bash":   {"/usr/local/bin/bash", "/usr/bin/bash", "/bin/bash"},
		"go":     {"/usr/local/go/bin/go", "/usr/bin/go"},
		"rust":   {"/usr/local/cargo/bin/rustc", "/usr/bin/rustc"},
		"java":   {"/opt/java/openjdk/bin/javac", "/usr/local/bin/javac", "/usr/bin/javac"},
	}
}}

// scanTree finds the interpreters and modules of the tree.
func (j *job) scanTree() {
	j.m.Interpreters = map[string]string{}
	for runtime, paths := range searched.Get() {
		for _, at := range paths {
			if found, err := j.x.resolveLinks(at, 0); err == nil && found != "" {
				j.m.Interpreters[runtime] = at
				break
			}
		}
	}
	python, node := map[string]bool{}, map[string]bool{}
	_ = fs.WalkDir(j.x.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // what can't be read isn't listed
		}
		switch path.Base(name) {
		case "dist-packages", "site-packages":
			j.addModules(name, python)
			return fs.SkipDir
		case "node_modules", "nodejs":
			if j.isNodeFolder(name) {
				j.addPackages(name, "", node)
			}
			return fs.SkipDir
		}
		return nil
	})
	j.m.Modules = map[string][]string{}
	if len(python) > 0 {
		j.m.Modules["python"] = sortedSet(python)
	}
	if len(node) > 0 {
		j.m.Modules["js"] = sortedSet(node)
	}
}

// isNodeFolder reports whether Node.js looks for packages in a folder of the tree.
func (j *job) isNodeFolder(name string) bool {
	return name == nodeFolder || name == "usr/local/lib/node_modules" || name == "usr/share/nodejs" ||
		name == "usr/share/node_modules"
}

// addModules adds the modules in a folder with Python packages.
func (j *job) addModules(folder string, to map[string]bool) {
	entries, _ := fs.ReadDir(j.x.root.FS(), folder) // it was just found
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		if name == "" || strings.HasPrefix(name, "_") || strings.HasSuffix(e.Name(), "-info") {
			continue
		}
		file := strings.HasSuffix(e.Name(), ".py") || strings.HasSuffix(e.Name(), ".so")
		if file || e.IsDir() && name == e.Name() {
			to[name] = true
		}
	}
}

// addPackages adds the npm packages in a folder.
func (j *job) addPackages(folder, scope string, to map[string]bool) {
	entries, _ := fs.ReadDir(j.x.root.FS(), folder) // it was just found
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir() && e.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(name, "."):
		case strings.HasPrefix(name, "@") && scope == "":
			j.addPackages(path.Join(folder, name), name+"/", to)
		default:
			to[scope+name] = true
		}
	}
}

// resolveLinks returns the path of a file of the tree without links, or an error if it isn't there.
func (x *extractor) resolveLinks(name string, links int) (string, error) {
	at, err := x.walkFolder(path.Dir(strings.TrimPrefix(name, "/")))
	if err != nil {
		return "", err
	}
	at = path.Join(at, path.Base(name))
	info, err := x.root.Lstat(at)
	switch {
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink == 0:
		return at, nil
	case links > maxLinks:
		return "", errors.New("too many links")
	}
	to, err := x.root.Readlink(at)
	if err != nil {
		return "", err
	}
	if !path.IsAbs(to) {
		to = path.Join("/", path.Dir(at), to)
	}
	return x.resolveLinks(path.Clean(to), links+1)
}
