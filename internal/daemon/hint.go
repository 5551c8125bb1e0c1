package daemon

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/hint"
)

// Limits on the records of weaker hints: in a short list each hint has its own record, in a longer
// one several share a record.
const (
	hintRecords = 20
	hintsAtOnce = 25 // in a shared record
	hintTime    = 30 * time.Second
	hintsShown  = 1000 // in an API answer, for each upstream
)

// A hintStore stores the hints known of the upstreams' tools.
type hintStore interface {
	Load(ctx context.Context, upstream string) ([]byte, error)
	Save(ctx context.Context, upstream string, sights []byte) error
}

// hints decides which hints of upstreams are trusted.
type hints struct {
	store  hintStore
	events eventRecorder
	log    *slog.Logger
}

// A sighted holds the decisions on the hints of one upstream's tools.
type sighted struct {
	claims atomic.Pointer[map[string]*hint.Claim] // waiting for acceptance, by exact name of the tool

	mu      sync.Mutex // held while tools are compared and the catalog is updated, and while a claim is accepted
	listed  []*tool.Tool
	tools   []*tool.Tool // listed, with the trusted hints
	problem string       // why no hint is trusted; empty if they were compared
}

// compare returns the tools that the configuration keeps of all that an upstream listed, with their
// trusted hints, and reports whether these may have changed. If the stored hints can't be read or
// written, no hint is trusted. The caller holds s.mu.
func (h *hints) compare(upstream string, s *sighted, tools, all []*tool.Tool) (believed []*tool.Tool, changed bool) {
	if s.tools != nil && s.problem == "" && slices.Equal(s.listed, tools) {
		return s.tools, false
	}
	if len(all) == 0 { // not connected yet, or nothing to compare
		s.listed, s.tools, s.problem = nil, nil, ""
		s.claims.Store(nil)
		return tools, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTime)
	defer cancel()
	v, err := h.compareSights(ctx, upstream, tools, all)
	problem := ""
	if err != nil {
		v, problem = hint.RefuseAll(tools), err.Error()
		if problem != s.problem {
			h.log.Error("stored tools of an upstream can't be read: its hints are ignored", "upstream",
				upstream, "err", err)
		}
	}
	s.listed, s.tools, s.problem = tools, v.Tools, problem
	s.wait(v.Claims)
	return v.Tools, true
}

// wait stores the claims that wait for acceptance.
func (s *sighted) wait(claims []hint.Claim) {
	if len(claims) == 0 {
		s.claims.Store(nil)
		return
	}
	all := make(map[string]*hint.Claim, len(claims))
	for i := range claims {
		all[claims[i].Tool.Name] = &claims[i]
	}
	s.claims.Store(&all)
}

// claim returns the untrusted claim of a tool, nil if there is none.
func (s *sighted) claim(name string) *hint.Claim {
	if all := s.claims.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// compareSights compares tools with their stored hints, records weaker claims, and stores new
// hints. It also stores the tools of all that the configuration excludes, so that CheckNames knows
// their names.
func (h *hints) compareSights(ctx context.Context, upstream string, tools, all []*tool.Tool) (hint.Verdict, error) {
	sights, err := h.load(ctx, upstream)
	if err != nil {
		return hint.Verdict{}, err
	}
	v := sights.Compare(tools)
	if len(all) > len(tools) {
		v.Changed = sights.Compare(all).Changed || v.Changed
	}
	if h.recordClaims(ctx, upstream, sights, v.Claims) || v.Changed {
		err = h.save(ctx, upstream, sights)
	}
	return v, err
}

func (h *hints) load(ctx context.Context, upstream string) (*hint.Sights, error) {
	data, err := h.store.Load(ctx, upstream)
	if err != nil {
		return nil, err
	}
	return hint.ParseSights(data)
}

func (h *hints) save(ctx context.Context, upstream string, sights *hint.Sights) error {
	data, err := sights.Encode()
	if err != nil {
		return tool.Errorf(tool.Internal, "store the hints of %s: %w", upstream, err)
	}
	return h.store.Save(ctx, upstream, data)
}

// recordClaims records the claims that are not on record yet, and reports whether it changed the
// sights. A tool can make few different claims, and each is recorded once.
func (h *hints) recordClaims(ctx context.Context, upstream string, sights *hint.Sights,
	claims []hint.Claim) (changed bool) {
	var fresh []hint.Claim
	for i := range claims {
		if sights.MarkRecorded(&claims[i]) {
			fresh = append(fresh, claims[i])
		}
	}
	for len(fresh) > 0 {
		n := 1
		if len(claims) > hintRecords {
			n = min(hintsAtOnce, len(fresh))
		}
		if err := h.events.event(ctx, weakerEvent(upstream, fresh[:n])); err != nil {
			for i := range fresh { // to be recorded with the next list
				sights.ClearRecord(&fresh[i])
			}
			h.log.Error("changed hints of tools not recorded", "upstream", upstream, "err", err)
			return changed
		}
		changed, fresh = true, fresh[n:]
	}
	if changed {
		h.log.Warn("an upstream says of tools that they are more harmless than when they were first seen: that is "+
			"not believed until a person accepts it",
			"upstream", upstream, "tools", len(claims), "first", claims[0].Tool.Name, "accept", "biplane tools accept")
	}
	return changed
}

// weakerEvent returns the audit event of weaker claims.
func weakerEvent(upstream string, claims []hint.Claim) audit.Event {
	e := audit.Event{
		Kind: audit.KindTool, Principal: identity.LocalUser(), Subject: audit.Subject{Upstream: upstream},
		Decision: audit.Decision{Effect: "refused", Policy: "hints",
			Reason: "hints became weaker, and are not believed until a person accepts them"},
		Detail: map[string]string{"action": "weaker"},
	}
	if len(claims) == 1 {
		c := &claims[0]
		e.Subject.Tool = c.Tool.Path()
		e.Detail["changes"], e.Detail["definition"], e.Detail["claim"] = changesOf(c), c.Tool.Digest(), c.ID()
		return e
	}
	e.Detail["tools"] = strconv.Itoa(len(claims))
	for i := range claims {
		e.Detail["t"+strconv.Itoa(i)] = claims[i].Tool.Name + ": " + changesOf(&claims[i])
	}
	return e
}

func changesOf(c *hint.Claim) string { return strings.Join(c.Claimed.Changes(c.Held), ", ") }

// accept records that a claim is accepted, then trusts it. The caller holds s.mu.
func (h *hints) accept(ctx context.Context, p tool.Principal, upstream string, s *sighted, c *hint.Claim) error {
	sights, err := h.load(ctx, upstream)
	// The stored hints were tampered with: none of them counts.
	if s.problem != "" && err != nil && tool.AsError(err).Kind == tool.Conflict {
		sights, err = hint.DistrustAll(s.listed), nil
	}
	if err != nil {
		return err
	}
	e := audit.Event{
		Kind: audit.KindTool, Principal: p, Subject: audit.Subject{Upstream: upstream, Tool: c.Tool.Path()},
		Detail: map[string]string{"action": "accept", "part": "intent", "changes": changesOf(c),
			"definition": c.Tool.Digest(), "claim": c.ID()},
	}
	if err := h.events.event(ctx, e); err != nil {
		return err
	}
	if err = sights.Accept(c, s.listed); err == nil {
		err = h.save(ctx, upstream, sights)
	}
	delete(e.Detail, "part")
	_ = h.events.event(ctx, withError(e, err)) // the change is made; the error has been logged
	s.tools = nil                              // compare them again
	return err
}

// trustHints returns the tools of a source with their trusted hints. The caller holds s.seen.mu
// while it uses them.
func (u *upstreams) trustHints(s *source, tools []*tool.Tool) ([]*tool.Tool, bool) {
	return u.hints.compare(s.up.Name(), &s.seen, s.narrow.Keep(tools), tools)
}

// source returns the upstream with a name, nil if there is none.
func (u *upstreams) source(name string) *source {
	for _, s := range u.listSources() {
		if s.up.Name() == name {
			return s
		}
	}
	return nil
}

// AcceptHints trusts the weaker hints of a tool, or pins its definition, if they are still what the
// claim identifies.
func (u *upstreams) AcceptHints(ctx context.Context, p tool.Principal, path, claim string) (*api.WeakerHints, error) {
	u.WaitReady(ctx)
	if accepted, done, err := u.acceptNotice(ctx, p, path, claim); done {
		return accepted, err
	}
	e, err := u.catalog.View().Resolve(path)
	if err != nil {
		return nil, err
	}
	s := u.source(e.Tool.Upstream)
	if s == nil {
		return nil, tool.Errorf(tool.Invalid, "tool %s belongs to Biplane: it has no hints to accept", e.Path())
	}
	s.seen.mu.Lock()
	c := s.seen.claim(e.Tool.Name)
	switch {
	case c == nil:
		err = tool.Errorf(tool.Conflict, "tool %s: no weaker hint waits to be accepted; `biplane tools` shows which do",
			e.Path())
	case c.ID() != claim:
		err = tool.Errorf(tool.Conflict, "tool %s: its server has changed the hint since it was shown: "+
			"run `biplane tools`, and accept what it shows", e.Path())
	default:
		err = u.hints.accept(ctx, p, e.Tool.Upstream, &s.seen, c)
	}
	s.seen.mu.Unlock()
	if err != nil {
		return nil, err
	}
	u.update(s)
	return wireClaim(c, e.Path()), nil
}

// weakerHints returns the untrusted claim of a tool, nil if there is none.
func (u *upstreams) weakerHints(t *tool.Tool, path string) *api.WeakerHints {
	s := u.source(t.Upstream)
	if s == nil {
		return nil
	}
	c := s.seen.claim(t.Name)
	if c == nil {
		return nil
	}
	return wireClaim(c, path)
}

func wireClaim(c *hint.Claim, path string) *api.WeakerHints {
	return &api.WeakerHints{Path: path, Changes: c.Claimed.Changes(c.Held), Claim: c.ID()}
}

// waitingHints returns the untrusted claims of all tools by upstream, in the order of the catalog.
func (u *upstreams) waitingHints() map[string][]api.WeakerHints {
	out := map[string][]api.WeakerHints{}
	if !slices.ContainsFunc(u.listSources(), func(s *source) bool { return s.seen.claims.Load() != nil }) {
		return out
	}
	for _, e := range u.catalog.View().Entries() {
		if len(out[e.Tool.Upstream]) < hintsShown {
			if w := u.weakerHints(e.Tool, e.Path()); w != nil {
				out[e.Tool.Upstream] = append(out[e.Tool.Upstream], *w)
			}
		}
	}
	return out
}
