package executor

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/values"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// A SkillInfo is a module that programs saved in ./skills and others import.
type SkillInfo struct {
	Name        string    `json:"name"`  // of the file: "retry.ts"
	Owner       string    `json:"owner"` // who saved it
	Own         bool      `json:"own"`   // whoever asks is the owner
	Description string    `json:"description,omitempty"`
	Signatures  []string  `json:"signatures,omitempty"` // of what it exports
	Import      string    `json:"import,omitempty"`     // a line that imports it
	Size        int       `json:"size"`
	Modified    time.Time `json:"modified"`
	Shared      bool      `json:"shared"`
	Changed     bool      `json:"changed,omitempty"` // since it was shared: others see the older one
	Source      string    `json:"source,omitempty"`  // only where one is asked for
}

// skills keeps the skills of principals as trees, whose files are loaded when they are first read.
type skills struct {
	store session.Store

	mu    sync.Mutex
	epoch int // counts the changes
	by    map[string]skillTrees
}

type skillTrees struct{ own, shared *vfs.Tree }

// maxSkillTrees is how many principals' skills are kept.
const maxSkillTrees = 256

func newSkills(store session.Store) *skills {
	return &skills{store: store, by: map[string]skillTrees{}}
}

// forget says that skills have changed.
func (s *skills) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	clear(s.by)
}

// trees gives the skills of an owner, and those that others share.
func (s *skills) trees(ctx context.Context, owner string) (own, shared *vfs.Tree, err error) {
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
	if t.own, err = s.tree(ctx, mine, false); err == nil {
		t.shared, err = s.tree(ctx, others, true)
	}
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == epoch {
		if len(s.by) >= maxSkillTrees {
			clear(s.by)
		}
		s.by[owner] = t
	}
	return t.own, t.shared, nil
}

func (s *skills) tree(ctx context.Context, list []session.Skill, shared bool) (t *vfs.Tree, err error) {
	for _, k := range list {
		if _, taken := t.Get(k.Name); taken {
			continue // of two that are shared the first one counts
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

// modules gives the sources of the skills that a program sees.
func modules(fs *vfs.FS) (map[string]string, error) {
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

// Skills gives the skills of p and those that others share with it, without their sources.
func (x *Executor) Skills(ctx context.Context, p tool.Principal) ([]SkillInfo, error) {
	if x.cfg.Store == nil {
		return nil, nil
	}
	mine, others, err := x.cfg.Store.Skills(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	own, shared, err := x.skills.trees(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	var out []SkillInfo
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
			continue // it was removed at this moment
		}
		data, err := e.Data()
		if err != nil {
			return nil, err
		}
		s := describeSkill(k.Name, string(data))
		s.Owner, s.Own, s.Modified, s.Shared, s.Changed = k.Owner, k.Owner == p.ID, k.Modified, k.Shared, k.Changed
		out = append(out, s)
	}
	return out, nil
}

// Skill gives one of the skills that p sees, with its source.
func (x *Executor) Skill(ctx context.Context, p tool.Principal, name string) (*SkillInfo, error) {
	all, err := x.Skills(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Name == name {
			src, err := x.cfg.Store.Skill(ctx, s.Owner, name, !s.Own)
			s.Source = string(src)
			return &s, err
		}
	}
	return nil, noSkill(name)
}

func noSkill(name string) error {
	return tool.Errorf(tool.NotFound, "there is no skill %q: programs save skills as ./skills/<name>.ts or .py; biplane skills list shows them", values.Cut(name, 80))
}

// ShareSkill shows a skill of p to all others, as it is now: what programs make of it later is not seen until it is
// shared again. Or it takes it back.
func (x *Executor) ShareSkill(ctx context.Context, p tool.Principal, name string, shared bool) error {
	if x.cfg.Store == nil {
		return noSkill(name)
	}
	ok, err := x.cfg.Store.Share(ctx, p.ID, name, shared)
	x.skills.forget()
	if err == nil && !ok {
		return noSkill(name)
	}
	return err
}

// RemoveSkill deletes a skill of p, also for those with whom it is shared.
func (x *Executor) RemoveSkill(ctx context.Context, p tool.Principal, name string) error {
	own, _, err := x.skills.trees(ctx, p.ID)
	if err != nil {
		return err
	}
	if _, ok := own.Get(name); !ok {
		return noSkill(name)
	}
	defer x.skills.forget()
	return x.cfg.Store.Save(ctx, &session.Change{Owner: p.ID, Skills: []session.SkillChange{{Name: name}}})
}

// lazily makes a regular expression when it is first needed: these take longer than the rest of the program's start.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	blockComment = lazily(`(?s)\A\s*/\*\*?(.*?)\*/`)
	lineComments = lazily(`\A\s*((?://|#)[^\n]*(?:\n[ \t]*(?://|#)[^\n]*)*)`)
	docstring    = lazily(`(?s)\A\s*[rR]?(?:"""(.*?)"""|'''(.*?)''')`)
	nextDoc      = lazily(`(?s)/\*\*(.*?)\*/`)
	exported     = lazily(`(?m)^export\s+(?:default\s+)?((?:async\s+)?function\s*\*?\s*[\w$]*\s*(?:<[^(]{0,200}>)?\s*\([^{]{0,500}|class\s+[\w$]+|const\s+[\w$]+\s*(?::[^=\n]{1,200})?=\s*(?:async\s*)?\([^{]{0,300}=>)`)
	defined      = lazily(`(?m)^((?:async\s+)?def\s+[a-zA-Z]\w*\s*\((?s:.{0,500}?)\)(?:\s*->\s*[^:\n]{1,100})?|class\s+[A-Za-z]\w*(?:\([^)\n]{0,100}\))?)\s*:[ \t]*(?:#.*)?$`)
	spaces       = lazily(`\s+`)
)

// maxSignatures is how many a skill is shown with.
const maxSignatures = 20

// describeSkill reads what a skill says of itself.
func describeSkill(name, source string) SkillInfo {
	s := SkillInfo{Name: name, Size: len(source)}
	base, ext, _ := strings.Cut(name, ".")
	find := exported
	switch ext {
	case "py":
		find, s.Import = defined, "from skills."+base+" import "
	case "md":
		first, _, _ := strings.Cut(strings.TrimLeft(source, "# \n\t"), "\n")
		s.Description = values.Cut(strings.TrimSpace(first), 200)
		return s
	default:
		s.Import = `import { … } from "./skills/` + base + `"`
	}
	s.Description = firstComment(source)
	var names []string
	for _, m := range find().FindAllStringSubmatch(tokens.Head(source, 256<<10), maxSignatures) {
		sig := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(spaces().ReplaceAllString(m[1], " ")), "=>"))
		s.Signatures = append(s.Signatures, values.Cut(sig, 300))
		if n := exportName(sig); n != "" {
			names = append(names, n)
		}
	}
	if len(names) > 0 {
		s.Import = strings.Replace(s.Import, "…", strings.Join(names, ", "), 1)
		if ext == "py" {
			s.Import += strings.Join(names, ", ")
		}
	} else if ext == "py" {
		s.Import = "import skills." + base
	}
	return s
}

var exportWord = lazily(`^(?:async\s+)?(?:function\s*\*?|const|class|def)\s+([\w$]+)`)

func exportName(signature string) string {
	if m := exportWord().FindStringSubmatch(signature); m != nil {
		return m[1]
	}
	return ""
}

// firstComment gives the first sentence-like part of what a module says of itself at its beginning, or of its first
// documented export.
func firstComment(source string) string {
	source = tokens.Head(source, 64<<10)
	text := ""
	if m := docstring().FindStringSubmatch(source); m != nil {
		text = m[1] + m[2]
	} else if m := blockComment().FindStringSubmatch(source); m != nil {
		text = m[1]
	} else if m := lineComments().FindStringSubmatch(source); m != nil {
		text = m[1]
	} else if m := nextDoc().FindStringSubmatch(source); m != nil {
		text = m[1]
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "*/#"))
		if strings.HasPrefix(line, "@") || line == "" && len(lines) > 0 {
			break
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return values.Cut(strings.Join(lines, " "), 300)
}
