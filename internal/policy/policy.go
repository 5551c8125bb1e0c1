// Package policy decides, without I/O, whether a call may proceed and within what bounds.
//
// Policies are written in Cedar (https://docs.cedarpolicy.com). What no policy permits is denied,
// and a forbid wins over every permit. Annotations on permits add bounds: @ask leaves the call to a
// person, @tier names the weakest isolation that the program behind it may run at, @limit bounds
// how much is used over time, @redact leaves fields out of results. Of all permits that a call
// satisfies the strictest bounds hold, so the order of policies never matters, and adding a bound
// never loosens one.
//
// In two places this is stricter than Cedar. A forbid that can't be evaluated denies; Cedar would
// leave it out, and a caller could then switch it off by sending an argument of another type. An
// annotation that nothing here knows or holds is an error when policies are loaded.
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

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Effect is what a decision says.
type Effect string

// The effects, strictest first. The zero Effect is treated as Deny.
const (
	Deny  Effect = "deny"
	Ask   Effect = "ask" // a person decides
	Allow Effect = "allow"
)

// A Request is what is to be decided on.
type Request struct {
	Principal tool.Principal
	Tool      *tool.Tool
	File      *FileUse        // instead of Tool: what a program does to one of its files
	Arguments json.RawMessage // a JSON object; nil means {}
	Parent    string          // the execution that asks; empty for a call from outside
	Labels    []string        // of what whoever asks has read
	Time      time.Time       // zero: now. Its location is that of hour and weekday
	// Kinds are of personal data ("email"): whether Tool may have it in the place of the tokens
	// that Arguments has is decided (action reveal), and not the call. None: the call.
	Kinds []string
}

// A Decision is the answer, with its reason for the record and for whoever asked.
type Decision struct {
	Effect  Effect
	Policy  string // the policies that decided, by their ids, with commas between
	Version string // of all policies and of what the configuration says of tools: see Engine.Version
	Reason  string // one line for people
	Grant   tool.Grant
	Redact  []string // fields that are left out of the result: see Redact
	// of the door, for the record: what became of personal data in the arguments. The engine says
	// nothing here
	Remark string
	// where Effect is Ask: the groups, a member of one of which decides. Every permit that asks
	// names each of them
	Approvers []string
}

// A Config is what an Engine is made of.
type Config struct {
	Name  string // "open", "read-only", "ask-for-writes", or that of a folder
	Files []File // the policies
	Rules []Rule // what the administrator says of tools
	// Tier is that at which programs run here. A permit that asks for more denies.
	Tier tool.Tier
	Now  func() time.Time // nil: time.Now
}

// An Engine decides. It is safe for concurrent use, and its decisions depend on requests and the
// time alone.
type Engine struct {
	cfg     Config
	rules   []*rule // by id
	index   index   // of rules
	version string
	free    map[string]Decision // on files, by action: see freely
	reads   bool                // some policy looks at arguments
	timed   bool                // some policy looks at the time
	known   sync.Map            // path of a tool to its *facts: what was worked out of it
}

// A rule is one policy, ready to be evaluated.
type rule struct {
	id     string
	file   string
	policy *cedar.Policy
	forbid bool
	bounds bounds
	reason string
	looks  depends
	once   sync.Once
	fixed  outcome // what is left of a rule that depends on nothing a Sight knows; set by once
}

// bounds are what annotations of a permit add.
type bounds struct {
	ask       bool
	approvers []string
	tier      tool.Tier
	redact    []string // paths of fields of results
	limits    []tool.Bound
}

// New makes an Engine. The error is an *Error inside a *tool.Error of kind invalid.
func New(cfg Config) (*Engine, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	e := &Engine{cfg: cfg}
	var problems []Problem
	e.rules, problems = load(cfg.Files)
	for _, r := range e.rules {
		args, clock := mentions(r.policy)
		e.reads, e.timed = e.reads || args, e.timed || clock
		r.looks = dependsOf(r.policy)
	}
	if len(problems) == 0 && !cfg.comes() {
		problems = e.checkBase()
	}
	if len(problems) > 0 {
		return nil, newError(problems)
	}
	e.index = newIndex(e.rules)
	e.version = digest(cfg)
	e.free = e.freely()
	return e, nil
}

// comes reports whether the policies are a starter as it comes with Biplane: nothing is wrong in
// those, as a test says, and to look for it takes longer than all else here.
func (c Config) comes() bool {
	if len(c.Files) != 1 {
		return false
	}
	own, ok := Starter(strings.TrimSuffix(c.Files[0].Name, ".cedar"))
	return ok && own.Name == c.Files[0].Name && bytes.Equal(own.Text, c.Files[0].Text)
}

// digest is that of all that decisions come from, whatever the order of files and rules.
func digest(cfg Config) string {
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

// Name is that of the starter policy or of the folder that the policies come from.
func (e *Engine) Name() string { return e.cfg.Name }

// Version is a digest, 16 hexadecimal digits, of all policies, of what the administrator says of
// tools, and of the tier.
func (e *Engine) Version() string { return e.version }

// Timed reports whether decisions depend on the time.
func (e *Engine) Timed() bool { return e.timed }

// Len is the number of policies.
func (e *Engine) Len() int { return len(e.rules) }

// set is the policies as Cedar takes them.
type set []*rule

// All gives all policies.
func (s set) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, r := range s {
			if !yield(cedar.PolicyID(r.id), r.policy) {
				return
			}
		}
	}
}

// Decide decides on r.
func (e *Engine) Decide(r Request) Decision {
	d := e.decide(r)
	d.Version = e.version
	return d
}

func (e *Engine) decide(r Request) Decision {
	if d, ok := e.settled(r); ok {
		return d
	}
	w, err := e.world(r)
	if err != nil {
		return Decision{Effect: Deny, Policy: "arguments", Reason: err.Error()}
	}
	effect, found := cedar.Authorize(e.fitting(string(w.action().ID), w.facts.entity), w, w.request())
	for _, bad := range found.Errors {
		if rule := e.rule(bad.PolicyID); rule.forbid {
			return Decision{Effect: Deny, Policy: rule.id, Reason: "this forbid can't be evaluated, so it denies: " + plain(bad.Message)}
		}
	}
	satisfied := make([]*rule, 0, len(found.Reasons))
	for _, reason := range found.Reasons {
		satisfied = append(satisfied, e.rule(reason.PolicyID))
	}
	switch {
	case effect == cedar.Allow && r.File != nil:
		return unasked(e.granted(satisfied, false), "about files")
	case effect == cedar.Allow && len(r.Kinds) > 0:
		return unasked(e.granted(satisfied, false), "about personal data alone")
	case effect == cedar.Allow && Network(r.Tool):
		return unheld(e.granted(satisfied, false))
	case effect == cedar.Allow:
		return e.granted(satisfied, r.Tool.Upstream == tool.Own)
	case len(satisfied) > 0:
		return Decision{Effect: Deny, Policy: idsOf(satisfied), Reason: because(satisfied, "it is forbidden")}
	}
	why := e.unpermitted(found.Errors)
	if Network(r.Tool) {
		why = "no policy permits programs to connect to " + string(w.facts.entity.UID.ID) + strings.TrimPrefix(why, "no policy permits it")
	}
	return Decision{Effect: Deny, Policy: "none", Reason: why}
}

// unpermitted says why no permit was satisfied.
func (e *Engine) unpermitted(errs []cedar.DiagnosticError) string {
	if len(errs) == 0 {
		return "no policy permits it"
	}
	worst := slices.MinFunc(errs, func(a, b cedar.DiagnosticError) int { return strings.Compare(string(a.PolicyID), string(b.PolicyID)) })
	return fmt.Sprintf("no policy permits it; %s can't be evaluated: %s", worst.PolicyID, plain(worst.Message))
}

// granted combines the bounds of all permits that are satisfied, for a program or a call: the
// strictest of each.
func (e *Engine) granted(permits []*rule, program bool) Decision {
	d := Decision{Effect: Allow, Policy: idsOf(permits), Grant: tool.Grant{Tier: e.cfg.Tier, Bounds: boundsOf(permits, program)}, Redact: redactions(permits)}
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
	case len(tiered) > 0: // of the strictest tier
		return Decision{Effect: Deny, Policy: idsOf(tiered), Grant: d.Grant, Reason: fmt.Sprintf("it needs programs to run at tier %s, and here they run at %s", d.Grant.Tier, e.cfg.Tier)}
	case len(asking) > 0:
		d.Effect, d.Policy, d.Reason, d.Approvers = Ask, idsOf(asking), because(asking, "a person decides"), common(asking)
		if len(d.Approvers) == 0 {
			d.Effect, d.Reason = Deny, "these policies ask different people, and there is no group that may decide for all of them"
		}
	default:
		d.Reason = because(permits, "it is permitted")
	}
	return d
}

// common gives the groups that all of the permits ask: of two permits, neither makes the other's
// people decide alone.
func common(asking []*rule) []string {
	out := slices.Clone(asking[0].bounds.approvers)
	for _, r := range asking[1:] {
		out = slices.DeleteFunc(out, func(g string) bool { return !slices.Contains(r.bounds.approvers, g) })
	}
	return out
}

func (e *Engine) rule(id cedar.PolicyID) *rule {
	i, ok := slices.BinarySearchFunc(e.rules, string(id), func(r *rule, id string) int { return strings.Compare(r.id, id) })
	if !ok {
		return &rule{id: string(id), forbid: true} // of no policy of ours: it can only deny
	}
	return e.rules[i]
}

// idsOf gives the ids of rules, sorted.
func idsOf(rules []*rule) string {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.id
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// because gives the reasons that rules name, sorted, or else what is said of all.
func because(rules []*rule, otherwise string) string {
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

// plain is an error text of Cedar on one line.
func plain(s string) string { return strings.Join(strings.Fields(s), " ") }
