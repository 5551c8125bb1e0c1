// Package skill keeps the modules that programs save in ./skills and later programs import. It
// provides them as trees for programs (Shelf.Trees) and as lists for users.
package skill

import (
	"bytes"
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Info describes a module in ./skills that programs can import.
type Info struct {
	Name        string    `json:"name"`  // file name: "retry.ts"
	Owner       string    `json:"owner"` // owner, who saved it
	Own         bool      `json:"own"`   // the caller is the owner
	Description string    `json:"description,omitempty"`
	Signatures  []string  `json:"signatures,omitempty"` // signatures of its exports
	Import      string    `json:"import,omitempty"`     // line that imports it
	Size        int       `json:"size"`
	Modified    time.Time `json:"modified"`
	Shared      bool      `json:"shared"`
	Changed     bool      `json:"changed,omitempty"` // changed since it was shared: others see the older version
	Source      string    `json:"source,omitempty"`  // set by Get only
}

// A Store keeps skills; every session.Store implements it.
type Store interface {
	session.Skills
	Save(ctx context.Context, c *session.Change) error
}

// A Shelf holds the skills of all principals as trees. Files are loaded when they are first read.
type Shelf struct {
	store Store

	mu    sync.Mutex
	epoch int // number of changes
	by    map[string]trees
}

type trees struct{ own, shared *vfs.Tree }

// maxTrees is the maximum number of principals whose skills are cached.
const maxTrees = 256

// New returns the Shelf for a store; nil: there are no skills.
func New(store Store) *Shelf {
	return &Shelf{store: store, by: map[string]trees{}}
}

// Forget discards the cached trees after skills have changed.
func (s *Shelf) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	clear(s.by)
}

// Trees returns the skills of an owner, and the skills that others share. They are nil if nothing
// is stored.
func (s *Shelf) Trees(ctx context.Context, owner string) (own, shared *vfs.Tree, err error) {
	if s.store == nil {
		return nil, nil, nil
	}
	s.mu.Lock()
	t, ok := s.by[owner]
	epoch := s.epoch
	s.mu.Unlock()
	if ok {
		return t.own, t.shared, nil
	}
	mine, others, err := s.store.Skills(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	if t.own, err = s.loadTree(ctx, mine, false); err == nil {
		t.shared, err = s.loadTree(ctx, others, true)
	}
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch {
		if len(s.by) >= maxTrees {
			clear(s.by)
		}
		s.by[owner] = t
	}
	return t.own, t.shared, nil
}

func (s *Shelf) loadTree(ctx context.Context, list []session.Skill, shared bool) (t *vfs.Tree, err error) {
	for _, k := range list {
		if _, taken := t.Get(k.Name); taken {
			continue // if several are shared, the first one is used
		}
		data, err := s.store.Skill(ctx, k.Owner, k.Name, shared)
		if err != nil {
			return nil, err
		}
		if t, err = t.With(k.Name, vfs.File(data, k.Modified)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Modules returns the sources of the skills that a program sees.
func Modules(fs *vfs.FS) (map[string]string, error) {
	list, err := fs.List("skills")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, e := range list {
		data, err := fs.Read("skills/"+e.Name, 0, -1)
		if err != nil {
			return nil, err
		}
		out[e.Name] = string(data)
	}
	return out, nil
}

// List returns the skills of p and those shared by others, without their sources.
func (s *Shelf) List(ctx context.Context, p tool.Principal) ([]Info, error) {
	if s.store == nil {
		return nil, nil
	}
	mine, others, err := s.store.Skills(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	own, shared, err := s.Trees(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, k := range append(mine, others...) {
		tree := own
		if k.Owner != p.ID {
			tree = shared
			if _, hidden := own.Get(k.Name); hidden {
				continue
			}
		}
		e, ok := tree.Get(k.Name)
		if !ok {
			continue // it has just been removed
		}
		data, err := e.Data()
		if err != nil {
			return nil, err
		}
		i := describe(k.Name, string(data))
		i.Owner, i.Own, i.Modified, i.Shared, i.Changed = k.Owner, k.Owner == p.ID, k.Modified, k.Shared, k.Changed
		out = append(out, i)
	}
	return out, nil
}

// Get returns a skill that p can see, with its source.
func (s *Shelf) Get(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	all, err := s.List(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.Name == name {
			src, err := s.store.Skill(ctx, i.Owner, name, !i.Own)
			i.Source = string(src)
			return &i, err
		}
	}
	return nil, s.missingSkill(ctx, p, name)
}

func noSkill(name string) error {
	return tool.Errorf(tool.NotFound,
		"there is no skill %q: programs save skills as ./skills/<name>.ts or .py; biplane skills list shows them",
		text.Cut(name, 80))
}

// missingSkill returns the error of noSkill, or a hint if the user may have omitted the file
// extension.
func (s *Shelf) missingSkill(ctx context.Context, p tool.Principal, name string) error {
	all, err := s.List(ctx, p)
	if err != nil {
		return noSkill(name)
	}
	for _, i := range all {
		if strings.TrimSuffix(i.Name, path.Ext(i.Name)) == name {
			return tool.Errorf(tool.NotFound, "there is no skill %q: did you mean %s?", text.Cut(name, 80), i.Name)
		}
	}
	return noSkill(name)
}

// Share shares the current version of a skill of p with everyone, or stops sharing it. Later
// changes are not visible to others until it is shared again.
func (s *Shelf) Share(ctx context.Context, p tool.Principal, name string, shared bool) error {
	if s.store == nil {
		return noSkill(name)
	}
	ok, err := s.store.Share(ctx, p.ID, name, shared)
	s.Forget()
	if err == nil && !ok {
		return s.missingSkill(ctx, p, name)
	}
	return err
}

// Remove deletes a skill of p, including its shared version.
func (s *Shelf) Remove(ctx context.Context, p tool.Principal, name string) error {
	own, _, err := s.Trees(ctx, p.ID)
	if err != nil {
		return err
	}
	if _, ok := own.Get(name); !ok {
		return s.missingSkill(ctx, p, name)
	}
	defer s.Forget()
	return s.store.Save(ctx, &session.Change{Owner: p.ID, Skills: []session.SkillChange{{Name: name}}})
}

// Changes returns the changes that a program made to the skills.
func Changes(before, now *vfs.Tree) (out []session.SkillChange) {
	for _, c := range now.Changes(before) {
		s := session.SkillChange{Name: c.Path, Modified: c.Entry.Modified}
		if !c.Gone {
			data, err := c.Entry.Data()
			if err != nil {
				continue // can't happen: files written by a program can be read
			}
			if s.Source = bytes.Clone(data); s.Source == nil {
				s.Source = []byte{}
			}
		}
		out = append(out, s)
	}
	return out
}
