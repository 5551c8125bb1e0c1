package folder

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A table has the tools of a folder. It is immutable.
type table struct {
	tools  []*tool.Tool
	byName map[string]tool.Caller
	broken []upstream.Broken
	notes  []Note
	loaded map[string]loadedFile // by path
}

// A loadedFile is a file that was loaded, or failed to load, with the state of what it consists of.
type loadedFile struct {
	module Module // nil: it failed
	err    error
	stamps map[string]string // of the files that it uses
}

// isCurrent reports whether the files of f are as they were.
func (f *loadedFile) isCurrent(s *found) bool {
	if f.module == nil {
		return false // what it lacks may be there now
	}
	for name, stamp := range f.stamps {
		if s.stamps[name] != stamp {
			return false
		}
	}
	return true
}

// hasFailed reports whether a file failed for a reason that is not in the folder.
func (t *table) hasFailed() bool {
	for _, f := range t.loaded {
		if k := tool.AsError(f.err); k != nil && (k.Kind == tool.Unavailable || k.Kind == tool.Internal) {
			return true
		}
	}
	return false
}

// loads is the number of files that are loaded concurrently.
const loads = 4

// readTable loads the files that a scan found, unless they are unchanged since the last table was
// read.
func (u *Upstream) readTable(ctx context.Context, s *found) (*table, error) {
	if s.err != nil {
		return nil, s.err
	}
	u.mu.Lock()
	last := u.table
	u.mu.Unlock()
	t := &table{byName: map[string]tool.Caller{}, loaded: map[string]loadedFile{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, loads)
	for _, name := range s.files {
		if last != nil {
			if f, ok := last.loaded[name]; ok && f.isCurrent(s) {
				mu.Lock()
				t.loaded[name] = f
				mu.Unlock()
				continue
			}
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			f := u.loadFile(ctx, s, name)
			mu.Lock()
			defer mu.Unlock()
			t.loaded[name] = f
		})
	}
	wg.Wait()
	for _, name := range sortedKeys(s.broken) {
		t.broken = append(t.broken, upstream.Broken{Tool: name, Reason: s.broken[name]})
	}
	u.nameTools(t, s)
	return t, ctx.Err()
}

func (u *Upstream) loadFile(ctx context.Context, s *found, name string) loadedFile {
	m, err := u.cfg.Loader.LoadFile(ctx, s.root.FS(), name)
	f := loadedFile{module: m, err: err, stamps: map[string]string{}}
	if err == nil {
		for _, used := range m.ListUses() {
			if stamp, ok := s.stamps[used]; ok {
				f.stamps[used] = stamp
			}
		}
	}
	return f
}

// nameTools adds the tools of the loaded files, in the order of their names.
func (u *Upstream) nameTools(t *table, s *found) {
	type candidate struct {
		Export
		file string
	}
	byName := map[string][]candidate{}
	leaveOut := func(name, reason string) { t.broken = append(t.broken, upstream.Broken{Tool: name, Reason: reason}) }
	for _, file := range s.files {
		f := t.loaded[file]
		if f.err != nil {
			leaveOut(file, f.err.Error())
			continue
		}
		exports := f.module.ListExports()
		if len(exports) == 0 {
			leaveOut(file, "it exports no function: export one, or begin its name with _ if others import it")
		}
		for _, e := range exports {
			name, why := toolName(file, e.Name)
			if why == "" {
				why = e.Broken
			}
			if why != "" {
				leaveOut(name, why+" (in "+file+")")
				continue
			}
			byName[name] = append(byName[name], candidate{e, file})
		}
	}
	for _, name := range sortedKeys(byName) {
		all := byName[name]
		if len(all) > 1 {
			var files []string
			for _, c := range all {
				files = append(files, c.file)
			}
			leaveOut(name, "several functions have this name: rename all but one (in "+
				strings.Join(slices.Compact(files), ", ")+")")
			continue
		}
		e := all[0]
		made, err := web.NewTool(u.cfg.Name, name, e.Title, e.Description, e.Annotations, e.Schema, nil)
		if err != nil {
			leaveOut(name, err.Error()+" (in "+e.file+")")
			continue
		}
		t.tools = append(t.tools, made)
		t.byName[name] = e.Target
		for _, n := range e.Notes {
			t.notes = append(t.notes, Note{name, n})
		}
	}
}

// toolName returns the name of the tool that a file's export is, or the reason why it can't be one.
func toolName(file, export string) (name, why string) {
	stem, ok := strings.CutSuffix(file, manifestEnding)
	if !ok {
		stem = strings.TrimSuffix(file, path.Ext(file))
	}
	parts := strings.Split(stem, "/")
	last := parts[len(parts)-1]
	if last == "index" || last == "__init__" || last == "mod" {
		parts = parts[:len(parts)-1]
		last = ""
	}
	switch {
	case last != "" && (export == "default" || foldName(export) == foldName(last)):
	case export == "default" && len(parts) == 0:
		return file, "a default export of this file has no name: export it by name"
	case export == "default":
	default:
		parts = append(parts, export)
	}
	for _, p := range parts {
		if !isPlainName(p) {
			return strings.Join(parts, "."), fmt.Sprintf("%q can't be part of a tool's name: use letters, digits, - "+
				"and _, at most %d", p, maxSegment)
		}
	}
	if name = strings.Join(parts, "."); len(name) > 128 {
		return name, "its name has over 128 characters"
	}
	return name, ""
}

// foldName returns a name without case, - and _, so that searchDocs is search-docs.
func foldName(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

func isPlainName(s string) bool {
	return s != "" && len(s) <= maxSegment && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	})
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
