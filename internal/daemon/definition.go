package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/pin"
	"github.com/biplane-dev/biplane/internal/upstream/scan"
)

// Limits on notices.
const (
	maxNotices  = 1000 // in an API answer, for each upstream
	maxRecorded = 200  // recorded for each upstream and process
	inOneRecord = 25
)

// definitions compares the definitions of all upstreams' tools with their pins, and scans them.
type definitions struct {
	file     *pin.File // nil: definitions are not pinned
	settings atomic.Pointer[config.Config]
	events   eventRecorder
	log      *slog.Logger

	mu    sync.Mutex
	names map[string][]scan.Named // by upstream
	alike map[string]scan.Finding // by exact path, among all tools
}

// newDefinitions opens the lock file, if there is one. A lock file that can't be read is an error.
func newDefinitions(s *config.Config, events eventRecorder, log *slog.Logger) (*definitions, error) {
	d := &definitions{events: events, log: log, names: map[string][]scan.Named{}}
	d.settings.Store(s)
	if s.Definitions.Lock == "" {
		return d, nil
	}
	var err error
	d.file, err = pin.OpenFile(s.Definitions.Lock)
	return d, err
}

// A screened holds what is known about the definitions of one upstream's tools. All but notices is
// guarded by the lock of the caller of screenTools.
type screened struct {
	tools    []*tool.Tool              // the scanned ones
	digests  map[string]string         // of the definitions, by exact name; nil if they are not pinned
	findings map[string][]scan.Finding // of single tools, by exact name
	kept     []*tool.Tool
	recorded map[string]bool // claims on record
	problem  string          // why no pin can be compared
	notices  atomic.Pointer[[]suspect]
}

// A suspect is a tool whose definition a person should look at.
type suspect struct {
	tool        *tool.Tool
	was         *pin.Pin // nil if there is none
	change      string   // "new", "changed", or empty
	findings    []scan.Finding
	quarantined bool
	claim       string
}

// listNotices returns the notices about the tools.
func (r *screened) listNotices() []suspect {
	if all := r.notices.Load(); all != nil {
		return *all
	}
	return nil
}

// A screening is the result of screenTools.
type screening struct {
	kept     []*tool.Tool
	withheld []catalog.Withheld
	others   []string // upstreams whose findings may have changed
	changed  bool     // kept is not what it was
	suspects []suspect
}

// screenTools decides which tools of an upstream are withheld. The caller holds the lock of r.
func (d *definitions) screenTools(upstream string, r *screened, tools []*tool.Tool) screening {
	var out screening
	if !slices.Equal(r.tools, tools) {
		out.others = d.scanTools(upstream, r, tools)
	}
	rules := d.settings.Load().DefinitionRules(upstream)
	lock, err := d.pinNew(upstream, tools, rules)
	if err != nil {
		if problem := err.Error(); problem != r.problem {
			r.problem = problem
			d.log.Error("definitions of tools can't be compared: the tools are withheld", "upstream", upstream,
				"err", err)
		}
	} else {
		r.problem = ""
	}
	for _, t := range tools {
		if err != nil && (lock == nil || lock.FindPin(t) == nil) {
			out.withheld = append(out.withheld, catalog.Withheld{Tool: t, Reason: "is withheld: " + err.Error()})
			continue
		}
		n := d.judgeTool(t, r, lock, rules)
		if n == nil {
			out.kept = append(out.kept, t)
			continue
		}
		out.suspects = append(out.suspects, *n)
		if n.quarantined {
			out.withheld = append(out.withheld, catalog.Withheld{Tool: t, Reason: n.explainQuarantine(),
				Command: "biplane tools accept"})
		} else {
			out.kept = append(out.kept, t)
		}
	}
	out.changed = !slices.Equal(out.kept, r.kept)
	r.kept = out.kept
	return out
}

// publishNotices shows and records the result of a screening, after the catalog has it. The caller
// holds the lock of r.
func (d *definitions) publishNotices(upstream string, r *screened, s screening) {
	r.notices.Store(&s.suspects)
	d.recordNotices(upstream, r, s.suspects)
}

// scanTools scans the tools of an upstream, and returns the upstreams whose findings have changed.
func (d *definitions) scanTools(upstream string, r *screened, tools []*tool.Tool) (others []string) {
	r.tools, r.findings, r.digests = tools, map[string][]scan.Finding{}, nil
	if d.file != nil {
		r.digests = make(map[string]string, len(tools))
		for _, t := range tools {
			r.digests[t.Name] = pin.DigestTool(t)
		}
	}
	if d.settings.Load().DefinitionRules(upstream).Findings == "off" {
		return nil
	}
	r.findings = scan.ScanTools(tools)
	return d.compareNames(upstream, tools)
}

// pinNew returns the pins, after pinning the new tools of an upstream if its rules accept these. It
// returns nil if definitions are not pinned. If the file can't be written, it returns the pins
// without the new tools, and the error.
func (d *definitions) pinNew(upstream string, tools []*tool.Tool, rules config.Definitions) (*pin.Lock, error) {
	if d.file == nil {
		return nil, nil
	}
	lock, err := d.file.ReadLock()
	if err != nil || rules.New != "accept" {
		return lock, err
	}
	isNew := func(t *tool.Tool) bool { return lock.FindPin(t) == nil }
	if !slices.ContainsFunc(tools, isNew) {
		return lock, nil
	}
	err = d.file.UpdateLock(func(l *pin.Lock) error {
		for _, t := range tools {
			if l.FindPin(t) != nil {
				continue
			}
			if err := l.SetPin(t, false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return lock, err
	}
	d.log.Info("pinned definitions of new tools", "upstream", upstream, "file", d.file.FilePath())
	return d.file.ReadLock()
}

// judgeTool returns the notice about a tool, or nil if there is nothing to say.
func (d *definitions) judgeTool(t *tool.Tool, r *screened, lock *pin.Lock, rules config.Definitions) *suspect {
	n := suspect{tool: t, findings: r.findings[t.Name]}
	if f, ok := d.findLookalike(t); ok && rules.Findings != "off" {
		n.findings = append(slices.Clip(n.findings), f)
	}
	if lock != nil {
		switch n.was = lock.FindPin(t); {
		case n.was == nil && rules.New != "accept":
			n.change, n.quarantined = "new", rules.New == "quarantine"
		case n.was == nil:
		case n.was.Digest != r.digests[t.Name]:
			n.change, n.quarantined = "changed", rules.Changed == "quarantine"
		case n.was.Reviewed:
			n.findings = nil // a person has accepted them
		}
	}
	n.quarantined = n.quarantined || len(n.findings) > 0 && rules.Findings == "quarantine"
	if n.change == "" && len(n.findings) == 0 {
		return nil
	}
	n.claim = pin.ClaimOf(t, n.was, n.listFindings())
	return &n
}

// listFindings describes the findings, one per line.
func (n *suspect) listFindings() (out []string) {
	for _, f := range n.findings {
		out = append(out, string(f.Kind)+" in "+f.Where+": "+f.Text)
	}
	return out
}

// summarizeChange describes in a few words what a person should look at.
func (n *suspect) summarizeChange() (out []string) {
	switch n.change {
	case "new":
		out = append(out, "the tool is new")
	case "changed":
		out = append(out, "its definition has changed since it was accepted")
	}
	if k := len(n.findings); k > 0 {
		out = append(out, "its definition has "+text.Count(k, "finding")+" ("+string(n.findings[0].Kind)+")")
	}
	return out
}

// explainQuarantine returns the reason for the quarantine, without any text of the server.
func (n *suspect) explainQuarantine() string {
	why := n.summarizeChange()
	reason := why[0]
	if len(why) > 1 {
		reason += ", and " + why[1]
	}
	return "is quarantined: " + reason
}

// recordNotices records notices that this process has not recorded yet.
func (d *definitions) recordNotices(upstream string, r *screened, notices []suspect) {
	var fresh []*suspect
	for i := range notices {
		if n := &notices[i]; !r.recorded[n.claim] && len(r.recorded)+len(fresh) < maxRecorded {
			fresh = append(fresh, n)
		}
	}
	for part := range slices.Chunk(fresh, inOneRecord) {
		e := audit.Event{
			Kind: audit.KindTool, Principal: identity.LocalUser(), Subject: audit.Subject{Upstream: upstream},
			Decision: audit.Decision{Effect: "noted", Policy: "definitions",
				Reason: "definitions of tools are new, have changed, or have findings"},
			Detail: map[string]string{"action": "definition", "tools": strconv.Itoa(len(part))},
		}
		for i, n := range part {
			says := n.tool.Name
			if n.quarantined {
				says, e.Decision.Effect = says+" (quarantined)", "refused"
			}
			for _, s := range n.summarizeChange() {
				says += "; " + s
			}
			e.Detail["t"+strconv.Itoa(i)] = says
		}
		ctx, cancel := context.WithTimeout(context.Background(), hintTime)
		err := d.events.event(ctx, e)
		cancel()
		if err != nil {
			d.log.Error("notices about definitions not recorded", "upstream", upstream, "err", err)
			return // they are recorded with the next list
		}
		if r.recorded == nil {
			r.recorded = map[string]bool{}
		}
		for _, n := range part {
			r.recorded[n.claim] = true
			if n.quarantined {
				d.events.noteQuarantine(upstream, n.tool.Name)
			}
		}
	}
	if len(fresh) > 0 {
		d.log.Warn("definitions of tools need a person's look", "upstream", upstream, "tools", len(notices),
			"first", fresh[0].tool.Name, "see", "biplane tools")
	}
}

// acceptDefinition records that a person accepts a definition, then pins it.
func (d *definitions) acceptDefinition(ctx context.Context, p tool.Principal, n *suspect) error {
	if d.file == nil {
		return tool.Errorf(tool.Conflict, "tool %s: nothing can be accepted without a lock file: set definitions in "+
			"the configuration", n.tool.Path())
	}
	e := audit.Event{
		Kind: audit.KindTool, Principal: p, Subject: audit.Subject{Upstream: n.tool.Upstream, Tool: n.tool.Path()},
		Detail: map[string]string{"action": "accept", "part": "intent", "claim": n.claim,
			"definition": pin.DigestTool(n.tool), "findings": strconv.Itoa(len(n.findings))},
	}
	if n.was != nil {
		e.Detail["was"] = n.was.Digest
	}
	if err := d.events.event(ctx, e); err != nil {
		return err
	}
	err := d.file.UpdateLock(func(l *pin.Lock) error { return l.SetPin(n.tool, true) })
	delete(e.Detail, "part")
	_ = d.events.event(ctx, withError(e, err)) // the change is made; the error has been logged
	return err
}

// compareNames compares the names of an upstream's tools with all others.
func (d *definitions) compareNames(upstream string, tools []*tool.Tool) (others []string) {
	names := make([]scan.Named, len(tools))
	for i, t := range tools {
		names[i] = scan.Named{Path: t.Path(), Name: t.Name}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[upstream] = names
	alike := scan.FindLookalikes(slices.Concat(slices.Collect(maps.Values(d.names))...))
	for name, tools := range d.names {
		if name != upstream && slices.ContainsFunc(tools, func(t scan.Named) bool {
			return alike[t.Path] != d.alike[t.Path]
		}) {
			others = append(others, name)
		}
	}
	d.alike = alike
	return others
}

// forgetTools forgets the tools of an upstream that was removed, and returns the upstreams whose
// findings have changed.
func (d *definitions) forgetTools(upstream string) (others []string) {
	d.mu.Lock()
	known := d.names[upstream] != nil
	d.mu.Unlock()
	if !known {
		return nil
	}
	others = d.compareNames(upstream, nil)
	d.mu.Lock()
	delete(d.names, upstream)
	d.mu.Unlock()
	return others
}

// findLookalike returns the finding of a tool that looks like another one.
func (d *definitions) findLookalike(t *tool.Tool) (scan.Finding, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.alike[t.Path()]
	return f, ok
}

// findNotice returns the notice about the tool with a path, and its source; nil if there is none.
func (u *upstreams) findNotice(path string) (*source, *suspect) {
	view := u.catalog.View()
	for _, s := range u.listSources() {
		for _, n := range s.review.listNotices() {
			if path == view.PathOf(n.tool.Upstream, n.tool.Name) || path == n.tool.Path() {
				return s, &n
			}
		}
	}
	return nil, nil
}

// acceptNotice accepts the definition that a claim identifies. done is false if no definition of
// the tool is pending, or if the claim is of its hints.
func (u *upstreams) acceptNotice(ctx context.Context, p tool.Principal, path, claim string) (
	accepted *api.WeakerHints, done bool, err error) {
	s, n := u.findNotice(path)
	if n == nil {
		return nil, false, nil
	}
	if n.claim != claim {
		if c := s.seen.claim(n.tool.Name); c != nil && c.ID() == claim {
			return nil, false, nil
		}
		return nil, true, tool.Errorf(tool.Conflict, "tool %s: its server has changed the definition since it was "+
			"shown: run `biplane tools`, and accept what it shows", path)
	}
	if err := u.pins.acceptDefinition(ctx, p, n); err != nil {
		return nil, true, err
	}
	u.update(s)
	return &api.WeakerHints{Path: path, Changes: n.summarizeChange(), Claim: claim}, true, nil
}

// wireNotices returns the notices about the tools of a source.
func (u *upstreams) wireNotices(s *source) (out []api.DefinitionNotice) {
	view := u.catalog.View()
	for _, n := range s.review.listNotices() {
		if len(out) == maxNotices {
			break
		}
		w := api.DefinitionNotice{Path: cmp.Or(view.PathOf(n.tool.Upstream, n.tool.Name), n.tool.Path()),
			Change: n.change, Quarantined: n.quarantined}
		if u.pins.file != nil {
			w.Claim = n.claim
		}
		if n.change == "changed" {
			w.Diff = pin.DiffDefinitions(n.was.Definition, pin.DefinitionOf(n.tool))
		}
		for _, f := range n.findings {
			w.Findings = append(w.Findings, api.Finding{Kind: string(f.Kind), Where: f.Where, Text: f.Text})
		}
		out = append(out, w)
	}
	return out
}
