package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/function"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/folder"
)

// OpenFolder implements config.FolderOpener. With credentials: person, the files are described
// without the values of secrets, because all principals see the same descriptions.
func (o opener) OpenFolder(c *config.Folder) (tool.Caller, error) {
	l := newFolderLoader(o.functions, c, o.mask)
	if plain, ok := o.plain.(*config.Folder); ok && c.Personal {
		l.may.LoadEnv = plain.Env
	} else {
		o.mask.AddSecrets(c.Env)
	}
	return folder.New(folder.Config{Name: c.Name, Path: c.Path, OnChange: folder.Notify(o.changed), Log: o.log,
		Loader: l})
}

// A folderLoader loads the files of one folder with the permissions that the configuration grants.
type folderLoader struct {
	host *functions
	may  function.Permission
	mask *mask.Masker
}

func newFolderLoader(h *functions, c *config.Folder, m *mask.Masker) *folderLoader {
	return &folderLoader{host: h, mask: m, may: function.Permission{Grantor: c.NameGrantor(), Tier: c.Tier,
		Hosts: c.Network, Env: c.Env, LoadEnv: c.Env, Files: &mounts{paths: c.Files}, Timeout: c.Timeout}}
}

// AcceptsName reports whether a file can have tools.
func (l *folderLoader) AcceptsName(name string) bool { return function.LanguageOf(name) != "" }

// LoadFile loads a file.
func (l *folderLoader) LoadFile(ctx context.Context, files fs.FS, name string) (folder.Module, error) {
	m, err := l.host.LoadFile(ctx, files, name, &l.may)
	if err != nil {
		return nil, maskedError(l.mask, err)
	}
	return loadedModule{m, l.mask}, nil
}

// A loadedModule is a function.Module as package folder sees it.
type loadedModule struct {
	*function.Module
	mask *mask.Masker
}

// ListUses returns the paths of the files that the module consists of.
func (m loadedModule) ListUses() []string { return m.File.Uses }

// ListExports returns the functions that the module exports.
func (m loadedModule) ListExports() (out []folder.Export) {
	for i := range m.Module.Exports {
		e := &m.Module.Exports[i]
		out = append(out, folder.Export{Name: e.Name, Title: e.Title, Description: e.Description, Schema: e.Schema,
			Annotations: e.Annotations, Notes: e.Notes,
			Target: maskCaller(m.mask, tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				return m.CallExport(ctx, c, e)
			}))})
	}
	for _, b := range m.Broken {
		out = append(out, folder.Export{Name: b.Name, Broken: b.Reason})
	}
	return out
}

// Limits of the files that tools of a folder see.
const (
	mountedBytes = 32 << 20
	mountedFiles = 2000
)

// mounts are the files and folders of the host that tools see, by name. Tools see copies of them,
// as they are when a call begins.
type mounts struct {
	paths map[string]string

	mu    sync.Mutex
	state string // names, sizes and times of the files in tree
	tree  *vfs.Tree
}

// ReadTree returns the files. It reads them only if they have changed.
func (m *mounts) ReadTree() (*vfs.Tree, error) {
	if len(m.paths) == 0 {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var state strings.Builder
	size, count := int64(0), 0
	err := m.eachFile(func(at string, _ fs.FS, _ string, info fs.FileInfo) error {
		if size, count = size+info.Size(), count+1; size > mountedBytes || count > mountedFiles {
			return tool.Errorf(tool.Limit, "they are more than %d, or over %s together: name fewer", mountedFiles,
				text.Size(mountedBytes))
		}
		fmt.Fprintf(&state, "%q %d %d\n", at, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil || m.tree != nil && state.String() == m.state {
		return m.tree, err
	}
	var t *vfs.Tree
	left := int64(mountedBytes)
	err = m.eachFile(func(at string, root fs.FS, file string, info fs.FileInfo) error {
		f, err := root.Open(file)
		if err != nil {
			return withoutPath(err)
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, left+1))
		if left -= int64(len(data)); left < 0 {
			return tool.Errorf(tool.Limit, "they are over %s together: name fewer", text.Size(mountedBytes))
		}
		if err == nil {
			t, err = t.With(at, vfs.File(data, info.ModTime()))
		}
		return err
	})
	if err == nil {
		m.tree, m.state = t, state.String()
	}
	return t, err
}

// eachFile calls f with each file, in the order of the names. Links in folders are not followed.
func (m *mounts) eachFile(f func(at string, root fs.FS, file string, info fs.FileInfo) error) error {
	for _, name := range slices.Sorted(maps.Keys(m.paths)) {
		if err := readMount(name, m.paths[name], f); err != nil {
			return tool.Errorf(tool.AsError(err).Kind, "files: %s can't be read: %w", name, err)
		}
	}
	return nil
}

// readMount calls add for a file of the host, or for each file in a folder of the host.
func readMount(name, from string, add func(at string, root fs.FS, file string, info fs.FileInfo) error) error {
	info, err := os.Stat(from)
	if err != nil {
		return withoutPath(err)
	}
	dir := from
	if !info.IsDir() {
		dir = filepath.Dir(from)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return withoutPath(err)
	}
	defer root.Close()
	if !info.IsDir() {
		return add(name, root.FS(), filepath.Base(from), info)
	}
	return fs.WalkDir(root.FS(), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return add(path.Join(name, file), root.FS(), file, info)
	})
}

// withoutPath returns an error of the file system without the path, which is the host's.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// functions runs the tools of folders.
type functions struct {
	function.Host
	wanted    bool                 // there is a folder
	executors []*executor.Executor // of the Host
}

func newFunctions(s *config.Config) *functions {
	return &functions{wanted: slices.ContainsFunc(s.APIs, func(a config.API) bool {
		f, ok := a.(*config.Folder)
		return ok && !f.Disabled
	})}
}

// functionTime is how long a function may run in all.
const functionTime = 10 * time.Minute

// openFunctions creates the executors for the tools of folders. Their programs call door.
func (d assembly) openFunctions(door tool.Caller, tools programTools) error {
	s := d.cfg.Settings
	h := d.upstreams.functions
	if !h.wanted {
		return nil
	}
	names := program.New(program.Config{Catalog: tools.resolver})
	h.Names = names
	cfg := executor.Config{Drivers: d.sandboxes.kinds, Door: door, Programs: names, Tools: tools, Log: d.log,
		Tokens: d.meters.tokens, Turns: d.turns,
		Limits: executor.Limits{Memory: s.Sandbox.Memory, CPU: s.Sandbox.CPU, Calls: s.Sandbox.Calls,
			Concurrency: s.Sandbox.Concurrency, Total: functionTime, Kept: 1, KeptBytes: 16 << 20}}
	for i := range h.Levels {
		x, err := executor.New(cfg)
		if err != nil {
			return err
		}
		h.Levels[i], h.executors = x, append(h.executors, x)
	}
	x, err := newLoader(cfg)
	if err != nil {
		return err
	}
	h.Loader, h.executors = x, append(h.executors, x)
	return nil
}

// newLoader returns the executor that runs the top-level code of files. It permits no calls, and
// less time than programs have.
func newLoader(cfg executor.Config) (*executor.Executor, error) {
	cfg.Door = tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.NotSent(tool.Errorf(tool.Denied,
			"a file can't call tools or fetch while it is loaded: do this inside of its functions"))
	})
	cfg.Tools = executor.NoTools{}
	cfg.Limits.CPU, cfg.Limits.Total, cfg.Limits.Calls = min(cfg.Limits.CPU, 3*time.Second), 30*time.Second, 10
	return executor.New(cfg)
}

// Close stops the tools of folders.
func (f *functions) Close() error {
	var errs []error
	for _, x := range f.executors {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}
