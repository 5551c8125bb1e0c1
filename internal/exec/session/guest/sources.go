package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures Sources.
type Config struct {
	Kinds  []sandbox.Kind // cheapest first
	Memory int64          // memory limit of a guest in bytes; 0: the driver's default
	CPU    time.Duration  // CPU time limit of a program
}

// Sources create the guests of all kinds of sandboxes. They are safe for concurrent use.
type Sources struct {
	all []*Source // cheapest first
}

// New returns Sources.
func New(cfg Config) *Sources {
	s := &Sources{}
	for _, k := range cfg.Kinds {
		s.all = append(s.all, &Source{kind: k, cfg: cfg, caps: &capabilities{}})
	}
	return s
}

// FindTier returns the tier of the kind of sandbox whose engine, by its name for display, runs one
// of the languages. It returns "" if there is none: the engine may be from another build.
func (s *Sources) FindTier(ctx context.Context, engine string, languages []string) string {
	for _, src := range s.all {
		if src.kind.Driver == nil {
			continue
		}
		caps, err := src.caps.probeOnce(ctx, src.kind.Driver)
		if err == nil && slices.ContainsFunc(languages, func(l string) bool { return Engine(caps, l) == engine }) {
			return caps.Tier.String()
		}
	}
	return ""
}

// A Need is what a program requires of the sandbox that it runs in.
type Need struct {
	Tier     tool.Tier // the weakest tier that policy allows
	Language string    // "typescript", "python", "bash", "go", "rust" or "java"
	Kind     string    // the kind that has the program's state; empty: any
	// Imports are the top-level modules that the program imports and doesn't bring along, if any
	// kind may run it.
	Imports []string
	Image   string // image of its sandbox; empty: the host's programs, or what its imports need
	// Requires are the modules that it loads with Node's require, which the embedded engine lacks.
	Requires []string
}

// StateKind returns the kind of sandbox of a session's guests, or "" if there are none.
func StateKind(s *session.State) string {
	if len(s.Guests) == 0 {
		return ""
	}
	return sandbox.KindOrDefault(s.Sandbox)
}

// FindKind returns the source of a kind that has the state of a guest.
func (s *Sources) FindKind(ctx context.Context, kind, language string) (*Source, error) {
	src, _, err := s.ChooseSource(ctx, Need{Language: language, Kind: kind})
	return src, err
}

// KindOf returns the kind of sandbox of one of a session's guests.
func KindOf(s *session.State, g *session.Guest) string {
	if g.Sandbox != "" {
		return g.Sandbox
	}
	return sandbox.KindOrDefault(s.Sandbox)
}

// A mismatch explains why a kind can't run a program.
type mismatch struct {
	kind      string
	reason    string
	err       error    // set if the kind can't start on this host
	languages []string // set if only the language doesn't fit: the languages that the kind runs
}

// ChooseSource returns the cheapest source that meets a need, and its capabilities. It never
// chooses a kind of a weaker tier. If a kind has the program's state, it chooses no other. If no
// kind fits, the error says why for each.
func (s *Sources) ChooseSource(ctx context.Context, n Need) (*Source, sandbox.Capabilities, error) {
	if n.Image == "" {
		if src, caps := s.chooseImporter(ctx, n); src != nil {
			return src, caps, nil
		}
	}
	var out []mismatch
	for _, src := range s.all {
		if n.Kind != "" && src.kind.Name != n.Kind {
			continue
		}
		caps, m := src.checkNeed(ctx, n)
		if m == nil {
			return src.useImage(n.Image), caps, nil
		}
		var crash *sandbox.CrashError
		if errors.As(m.err, &crash) { // the driver may start another process for the next program
			return nil, caps, m.err
		}
		out = append(out, *m)
	}
	if src, caps := s.chooseLanguage(ctx, n); src != nil {
		return src, caps, nil
	}
	return nil, sandbox.Capabilities{}, s.noneFits(n, out)
}

// checkNeed returns the capabilities of s, or why s can't meet a need.
func (s *Source) checkNeed(ctx context.Context, n Need) (sandbox.Capabilities, *mismatch) {
	m := &mismatch{kind: s.kind.Name}
	if s.kind.Tier < n.Tier {
		m.reason = "is only of tier " + s.kind.Tier.String()
		return sandbox.Capabilities{}, m
	}
	if s.kind.Driver == nil {
		m.reason, m.err = "can't run here: "+s.kind.Err.Error(), s.kind.Err
		return sandbox.Capabilities{}, m
	}
	caps, err := s.caps.probeOnce(ctx, s.kind.Driver)
	if err == nil && n.Image != "" {
		caps, err = s.withImage(caps, n)
	}
	switch {
	case err != nil:
		m.reason, m.err = "can't run here: "+err.Error(), err
	case caps.Tier < n.Tier:
		m.reason = fmt.Sprintf("is only of tier %s on this host", caps.Tier)
	case !slices.Contains(caps.Runtimes, runtimes[n.Language]):
		m.languages = []string{}
		for name, runtime := range runtimes {
			if slices.Contains(caps.Runtimes, runtime) {
				m.languages = append(m.languages, name)
			}
		}
		m.reason = "can't run " + n.Language
		if why := caps.Unavailable[runtimes[n.Language]]; why != "" {
			m.reason += ": " + why
		}
	default:
		return caps, nil
	}
	return caps, m
}

// noneFits returns the error for a need that no kind meets.
func (s *Sources) noneFits(n Need, out []mismatch) error {
	if n.Image != "" && len(out) > 0 && out[len(out)-1].err != nil { // the last kind is the one with images
		return out[len(out)-1].err
	}
	if len(out) == 1 && out[0].err != nil && n.Tier == tool.WASM && len(s.all) == 1 {
		err := out[0].err
		return &tool.Error{Kind: tool.Unavailable, Msg: "no sandbox can run here: " + err.Error(), Err: err}
	}
	if langs, ok := languagesOf(out); ok {
		why := ""
		for _, m := range out {
			if _, reason, found := strings.Cut(m.reason, ": "); found {
				why = ". The reason, for the user: " + reason
			}
		}
		return tool.Errorf(tool.Invalid, "language %q can't run here: write the program in %s%s",
			n.Language, strings.Join(langs, " or "), why)
	}
	want := "tier " + n.Tier.String()
	if n.Tier < tool.MicroVM {
		want += " or stronger"
	}
	if n.Kind != "" {
		want = text.Cut(n.Kind, 40) + " (which has its state), of " + want
	}
	why := make([]string, 0, len(out))
	for _, m := range out {
		why = append(why, m.kind+" "+m.reason)
	}
	if len(out) == 0 {
		why = []string{"there is no such sandbox here"}
	}
	return tool.Errorf(tool.Unavailable, "this program needs a sandbox of %s, for %s, and none here fits: %s. "+
		"Don't try it again: ask the user to make such a sandbox available, "+
		"or to change what policy requires (@tier, sandbox.tier)",
		want, n.Language, strings.Join(why, "; "))
}

// languagesOf returns the quoted languages that kinds run, sorted. It reports false unless the
// language is all that is wrong with each of them.
func languagesOf(out []mismatch) ([]string, bool) {
	var langs []string
	for _, m := range out {
		if m.languages == nil {
			return nil, false
		}
		for _, l := range m.languages {
			langs = append(langs, strconv.Quote(l))
		}
	}
	slices.Sort(langs)
	return slices.Compact(langs), len(langs) > 0
}
