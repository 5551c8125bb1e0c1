// Package policy decides, without I/O, whether a call may proceed and within what bounds.
//
// Policies are written in Cedar (https://docs.cedarpolicy.com). A call without a permit is denied,
// and a forbid overrides every permit. Annotations on permits add bounds. @ask requires a person's
// approval. @tier is the weakest isolation in which the calling program may run. @limit limits
// usage over time. @redact removes fields from results. The strictest bounds of all satisfied
// permits apply, so the order of policies never matters, and adding a bound never loosens one.
//
// This is stricter than Cedar in two ways. A forbid that can't be evaluated denies. Cedar would
// ignore it, so a caller could disable it by sending an argument of another type. An annotation
// that is unknown or can't be enforced is an error when policies are loaded.
package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Effect is the result of a decision.
type Effect string

// The effects, strictest first. The zero Effect is treated as Deny.
const (
	Deny  Effect = "deny"
	Ask   Effect = "ask" // a person decides
	Allow Effect = "allow"
)

// A Request is a call, or a use of a file, to decide.
type Request struct {
	Principal tool.Principal
	Tool      *tool.Tool
	File      *FileUse        // the use of a file, instead of Tool
	Arguments json.RawMessage // a JSON object; nil means {}
	Parent    string          // the calling execution; empty for a call from outside
	Tier      tool.Tier       // of the calling program's sandbox, if stronger than Config.Tier
	Labels    []string        // labels of what the caller has read
	Findings  []string        // rules of what the review found in the program: "sql"
	Time      time.Time       // zero: now. Its location is used for hour and weekday
	// Kinds are kinds of personal data ("email"). If not empty, the decision is not about the call,
	// but whether Tool may get this data in place of the tokens in Arguments (action reveal).
	Kinds []string
}

// A Decision is the answer to a Request, with its reason for the record and the caller.
type Decision struct {
	Effect  Effect
	Policy  string // ids of the deciding policies, comma-separated
	Version string // see Engine.Version
	Reason  string // one line, for people
	Grant   tool.Grant
	Redact  []string // fields to remove from the result: see Redact
	// set by the gateway, for the record: how personal data in the arguments was handled
	Remark string
	// if Effect is Ask: the groups whose members may decide. Every asking permit names all of them
	Approvers []string
}

// A Config configures an Engine.
type Config struct {
	Name  string // "open", "read-only", "ask-for-writes", or the name of a folder
	Files []File // the policies
	Rules []Rule // the administrator's settings of tools
	// Tier is the weakest tier at which programs run here. Strongest is the strongest at which any
	// could; zero means Tier.
	Tier, Strongest tool.Tier
	Clock           *wallclock.Clock // nil: the system's
}

// An Engine decides requests. It is safe for concurrent use, and its decisions depend only on
// requests and the time.
type Engine struct {
	cfg     Config
	rules   []*rule // sorted by id
	index   index   // of rules
	version string
	free    map[string]Decision // decisions on files, by action: see freely
	reads   bool                // some policy reads arguments
	timed   bool                // some policy reads the time
	known   sync.Map            // caches the *facts of tools, by path

	decisions decisions // caches decisions on steady facts
}

// A rule is one policy, prepared for evaluation.
type rule struct {
	id     string
	file   string
	policy *cedar.Policy
	forbid bool
	bounds bounds
	reason string
	looks  depends
	varies bool // reads arguments or the time
	once   sync.Once
	fixed  outcome // partial evaluation, if it depends on nothing that a Sight knows; set by once
}

// bounds holds the annotations of a permit.
type bounds struct {
	ask       bool
	approvers []string
	tier      tool.Tier
	redact    []string // paths of fields in results
	limits    []tool.Bound
}

// New returns an Engine. The error is an *Error inside a *tool.Error of kind tool.Invalid.
func New(cfg Config) (*Engine, error) {
	cfg.Strongest = max(cfg.Strongest, cfg.Tier)
	e := &Engine{cfg: cfg}
	var problems []Problem
	e.rules, problems = loadFiles(cfg.Files)
	for _, r := range e.rules {
		args, clock := readsContext(r.policy)
		r.varies = args || clock
		e.reads, e.timed = e.reads || args, e.timed || clock
		r.looks = dependsOf(r.policy)
	}
	if len(problems) == 0 && !cfg.isStarter() {
		problems = e.checkBase()
	}
	if len(problems) > 0 {
		return nil, newError(problems)
	}
	e.index = newIndex(e.rules)
	e.version = configDigest(cfg)
	e.free = e.fixedDecisions()
	return e, nil
}

// isStarter reports whether the policies are an unchanged starter. Those have been checked by a
// test, and checking takes longer than the rest of New.
func (c Config) isStarter() bool {
	if len(c.Files) != 1 {
		return false
	}
	own, ok := Starter(strings.TrimSuffix(c.Files[0].Name, ".cedar"))
	return ok && own.Name == c.Files[0].Name && bytes.Equal(own.Text, c.Files[0].Text)
}

// configDigest returns a digest of everything that determines decisions. It doesn't depend on the
// order of files and rules.
func configDigest(cfg Config) string {
	var parts []string
	for _, f := range cfg.Files {
		parts = append(parts, fmt.Sprintf("file %q %q", f.Name, f.Text))
	}
	for _, r := range cfg.Rules {
		parts = append(parts, r.String())
	}
	slices.Sort(parts)
	h := sha256.New()
	for _, p := range parts {
		io.WriteString(h, p+"\n")
	}
	fmt.Fprintf(h, "tier %s\n", cfg.Tier)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Name returns the name of the starter policy or of the folder of the policies.
func (e *Engine) Name() string { return e.cfg.Name }

// Version returns a digest, 16 hexadecimal digits, of all policies, the administrator's settings of
// tools, and the tier.
func (e *Engine) Version() string { return e.version }

// Timed reports whether decisions depend on the time.
func (e *Engine) Timed() bool { return e.timed }

// Len returns the number of policies.
func (e *Engine) Len() int { return len(e.rules) }

// set is a cedar.PolicyIterator of rules.
type set []*rule

// All returns an iterator over the policies.
func (s set) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, r := range s {
			if !yield(cedar.PolicyID(r.id), r.policy) {
				return
			}
		}
	}
}

// Decide decides r. Callers must not modify the slices in the decision.
func (e *Engine) Decide(r Request) Decision {
	d := e.decideRequest(r)
	d.Version = e.version
	return d
}

func (e *Engine) decideRequest(r Request) Decision {
	if d, ok := e.decideEarly(r); ok {
		return d
	}
	about, err := e.factsOf(r)
	var args cedar.Record
	if err == nil {
		args, err = e.readArguments(r, about)
	}
	if err != nil {
		return Decision{Effect: Deny, Policy: "arguments", Reason: err.Error()}
	}
	if !about.steady {
		return e.evaluatePolicies(r, about, args)
	}
	return e.decisions.lookUp(r, about.tool, func() Decision { return e.evaluatePolicies(r, about, args) })
}

// evaluatePolicies decides r by the policies.
func (e *Engine) evaluatePolicies(r Request, about *facts, args cedar.Record) Decision {
	w, err := e.worldOf(r, about, args)
	if err != nil {
		return Decision{Effect: Deny, Policy: "arguments", Reason: err.Error()}
	}
	effect, found := cedar.Authorize(e.matchingRules(string(w.actionUID().ID), w.facts.entity), w, w.cedarRequest())
	for _, bad := range found.Errors {
		if rule := e.ruleByID(bad.PolicyID); rule.forbid {
			return Decision{Effect: Deny, Policy: rule.id,
				Reason: "this forbid can't be evaluated, so it denies: " + oneLine(bad.Message)}
		}
	}
	satisfied := make([]*rule, 0, len(found.Reasons))
	for _, reason := range found.Reasons {
		satisfied = append(satisfied, e.ruleByID(reason.PolicyID))
	}
	switch {
	case effect == cedar.Allow && r.File != nil:
		return denyAsking(e.mergePermits(r, satisfied), "for files")
	case effect == cedar.Allow && len(r.Kinds) > 0:
		return denyAsking(e.mergePermits(r, satisfied), "for personal data alone")
	case effect == cedar.Allow && ReachesNetwork(r.Tool):
		return denyRedaction(e.mergePermits(r, satisfied))
	case effect == cedar.Allow:
		return e.mergePermits(r, satisfied)
	case len(satisfied) > 0:
		return Decision{Effect: Deny, Policy: idsOf(satisfied), Reason: joinReasons(satisfied, "it is forbidden")}
	}
	why := e.explainDenial(found.Errors)
	if ReachesNetwork(r.Tool) {
		why = "no policy permits programs to connect to " + string(w.facts.entity.UID.ID) +
			strings.TrimPrefix(why, "no policy permits it")
	}
	return Decision{Effect: Deny, Policy: noPolicy, Reason: why}
}

// noPolicy is the Policy of a Decision that denies because no policy permits the call.
const noPolicy = "none"

// IsUnpermitted reports whether the call is denied only because no policy permits it: none forbids
// it.
func (d *Decision) IsUnpermitted() bool { return d.Effect == Deny && d.Policy == noPolicy }

// explainDenial explains why no permit was satisfied.
func (e *Engine) explainDenial(errs []cedar.DiagnosticError) string {
	if len(errs) == 0 {
		return "no policy permits it"
	}
	worst := slices.MinFunc(errs, func(a, b cedar.DiagnosticError) int {
		return strings.Compare(string(a.PolicyID), string(b.PolicyID))
	})
	return fmt.Sprintf("no policy permits it; %s can't be evaluated: %s", worst.PolicyID, oneLine(worst.Message))
}

// startsProgram reports whether r is a call of execute.
func (r *Request) startsProgram() bool {
	return r.File == nil && len(r.Kinds) == 0 && r.Tool.Upstream == tool.Own && !ReachesNetwork(r.Tool)
}

// runningTier returns the tier of the program that makes r.
func (e *Engine) runningTier(r Request) tool.Tier { return max(e.cfg.Tier, r.Tier) }

// mergePermits returns the decision for the permits that r satisfies, with the strictest of their
// bounds. A program that is started gets a sandbox of the tier that they require. Everything else
// is denied unless the tier at which its program runs is strong enough.
func (e *Engine) mergePermits(r Request, permits []*rule) Decision {
	program := r.startsProgram()
	d := Decision{Effect: Allow, Policy: idsOf(permits),
		Grant: tool.Grant{Tier: e.cfg.Tier, Bounds: boundsOf(permits, program)}, Redact: joinPaths(permits)}
	var asking, tiered []*rule
	for _, p := range permits {
		if p.bounds.ask {
			asking = append(asking, p)
		}
		if p.bounds.tier > d.Grant.Tier {
			d.Grant.Tier = p.bounds.tier
			tiered = []*rule{p}
		}
	}
	switch {
	case !program && d.Grant.Tier > e.runningTier(r): // tiered: the permit of the strictest tier
		return Decision{Effect: Deny, Policy: idsOf(tiered), Grant: d.Grant, Reason: e.explainTier(r, d.Grant.Tier)}
	case len(asking) > 0:
		d.Effect, d.Policy, d.Reason, d.Approvers = Ask, idsOf(asking), joinReasons(asking,
			"a person decides"), commonGroups(asking)
		if len(d.Approvers) == 0 {
			d.Effect, d.Reason = Deny, "these policies ask different groups, and no group may decide for all of them"
		}
	default:
		d.Reason = joinReasons(permits, "it is permitted")
	}
	return d
}

// explainTier explains that r requires a stronger tier than it has.
func (e *Engine) explainTier(r Request, needed tool.Tier) string {
	if r.Parent == "" {
		return fmt.Sprintf("it needs a program that runs at tier %s, and no program makes this call", needed)
	}
	return fmt.Sprintf("it needs a program that runs at tier %s, and this one runs at %s", needed, e.runningTier(r))
}

// commonGroups returns the groups that all of the permits name. Two permits both have to be
// satisfied, so the groups of one alone must not decide.
func commonGroups(asking []*rule) []string {
	out := slices.Clone(asking[0].bounds.approvers)
	for _, r := range asking[1:] {
		out = slices.DeleteFunc(out, func(g string) bool { return !slices.Contains(r.bounds.approvers, g) })
	}
	return out
}

func (e *Engine) ruleByID(id cedar.PolicyID) *rule {
	i, ok := slices.BinarySearchFunc(e.rules, string(id), func(r *rule, id string) int {
		return strings.Compare(r.id, id)
	})
	if !ok {
		return &rule{id: string(id), forbid: true} // not one of our policies: it can only deny
	}
	return e.rules[i]
}

// idsOf returns the ids of rules, sorted and comma-separated.
func idsOf(rules []*rule) string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.id
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// joinReasons returns the reasons of rules, sorted, or otherwise if they have none.
func joinReasons(rules []*rule, otherwise string) string {
	var all []string
	for _, r := range rules {
		if r.reason != "" {
			all = append(all, r.reason)
		}
	}
	if len(all) == 0 {
		return otherwise
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

// oneLine returns an error text of Cedar on one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
