// Package limit limits usage: calls, executions, CPU time, tokens and bytes over windows of time,
// by principal, group, upstream and tool, and the number of concurrent executions. It also blocks
// calls to an upstream that fails, and repeated calls that only fail.
//
// Rates are limited with GCRA (the generic cell rate algorithm, ITU-T I.371, annex A). It keeps one
// time per limited item, at which everything used so far would be used up at an even rate. That
// time is in the Store, so that a restart doesn't reset the limits.
package limit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Quantity is the quantity that a Rule limits.
type Quantity string

// The quantities that can be limited.
const (
	Calls      Quantity = "calls"      // of tools of upstreams
	Executions Quantity = "executions" // of programs
	Concurrent Quantity = "concurrent" // concurrent executions
	CPU        Quantity = "cpu"        // seconds of CPU time of programs, and of the host for calls
	Tokens     Quantity = "tokens"     // in answers to the model
	Egress     Quantity = "egress"     // bytes sent: of arguments to upstreams, and by connections
	Ingress    Quantity = "ingress"    // bytes received by connections of programs and sandboxes
)

// AllQuantities returns all quantities.
func AllQuantities() []Quantity {
	return []Quantity{Calls, Executions, Concurrent, CPU, Tokens, Egress, Ingress}
}

// ofCalls reports whether it is used by calls, and not by programs.
func (q Quantity) ofCalls() bool { return q == Calls || q == Egress || q == Ingress }

// A Scope is the scope of a Rule's limit.
type Scope string

// The scopes of limits.
const (
	PerPrincipal Scope = "principal" // each principal has its own limit; the default
	PerGroup     Scope = "group"     // each group of principals
	PerUpstream  Scope = "upstream"
	PerTool      Scope = "tool"
	PerHost      Scope = "host" // each network host that is connected to
	PerAll       Scope = "all"  // shared by everyone
)

// AllScopes returns all scopes.
func AllScopes() []Scope {
	return []Scope{PerPrincipal, PerGroup, PerUpstream, PerTool, PerHost, PerAll}
}

// A Rule limits usage in any window of time. Up to Max may be used at once, and over time Max per
// Window.
type Rule struct {
	What   Quantity
	Max    float64
	Window time.Duration // 0 for Concurrent
	Per    Scope
	// The principals to which it applies; empty: all.
	Principal string // pattern of an ID, as in path.Match
	Group     string
	Tools     string // pattern of paths, "github.*"; for Calls, Egress and Ingress
	Hosts     string // pattern of network hosts, "*.example.com": only connections; for the same
	// Policy is the id of the rule's policy; empty for rules of the configuration.
	Policy string
}

// ruleOf converts a bound of a policy to a Rule. The rule's key has the policy's id and the bound,
// but not the policy's version, so that changing a policy doesn't reset its limits.
func ruleOf(b tool.Bound) *Rule {
	return &Rule{What: Quantity(b.What), Max: b.Max, Window: b.Window, Per: Scope(b.Per), Policy: b.Policy}
}

// String returns the rule in readable form.
func (r *Rule) String() string {
	s := fmt.Sprintf("%s %s", formatAmount(r.Max), r.unitName())
	if r.Window > 0 {
		s += " in " + formatSpan(r.Window)
	}
	if r.Tools != "" {
		s += " of " + r.Tools
	}
	if r.Hosts != "" {
		s += " with " + r.Hosts
	}
	if r.Per != PerAll {
		s += " for each " + string(r.Per)
	}
	if r.Policy != "" {
		s += " (policy " + r.Policy + ")"
	}
	return s
}

func (r *Rule) unitName() string {
	switch r.What {
	case Concurrent:
		return "executions at once"
	case CPU:
		return "seconds of CPU time"
	case Egress:
		return "bytes sent"
	case Ingress:
		return "bytes received"
	}
	return string(r.What)
}

// counterKeys returns the counters that a call uses: the rule's text, and the principal, group,
// upstream, tool or host that the limit is for. host is what the call connects to; it may be empty.
func (r *Rule) counterKeys(c *tool.Call, host string) (keys []string) {
	head := fmt.Sprintf("%s|%v|%s|%s|%s|%s|%s|", r.What, r.Max, r.Window, r.Per, r.Principal, r.Group, r.Tools)
	if r.Hosts != "" {
		head += r.Hosts + "|"
	}
	if r.Policy != "" {
		head = fmt.Sprintf("policy %q|", r.Policy) + head
	}
	switch r.Per {
	case PerGroup:
		for _, g := range c.Principal.Groups {
			if r.Group == "" || g == r.Group {
				keys = append(keys, head+g)
			}
		}
		return keys
	case PerUpstream:
		return []string{head + c.Tool.Upstream}
	case PerTool:
		return []string{head + c.Tool.Path()}
	case PerHost:
		if host == "" {
			return nil
		}
		return []string{head + host}
	case PerAll:
		return []string{head}
	}
	return []string{head + c.Principal.ID}
}

// appliesTo reports whether the rule applies to a call, which may connect to a host.
func (r *Rule) appliesTo(c *tool.Call, host string, what Quantity) bool {
	if r.Hosts != "" && (host == "" || !matchesPattern(r.Hosts, host)) {
		return false
	}
	if r.What != what || r.Group != "" && !slices.Contains(c.Principal.Groups, r.Group) {
		return false
	}
	return matchesPattern(r.Principal, c.Principal.ID) && r.MatchesTool(c.Tool)
}

// MatchesTool reports whether the rule's pattern matches a tool, in any spelling of its path.
func (r *Rule) MatchesTool(t *tool.Tool) bool {
	if matchesPattern(r.Tools, t.Path()) || matchesPattern(r.Tools, programPath(t)) {
		return true
	}
	if strings.ContainsAny(r.Tools, `?[\`) { // in another spelling these would have a different meaning
		return false
	}
	pattern := tool.SnakePattern(r.Tools)
	return slices.ContainsFunc(t.Spellings()[1:], func(path string) bool { return matchesPattern(pattern, path) })
}

// programPath returns the path of a tool as written in programs: a rule for "shop.get_order" also
// applies to "shop.get-order".
func programPath(t *tool.Tool) string {
	return t.Upstream + "." + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, t.Name)
}

// matchesPattern reports whether a pattern, which is empty or valid, matches s.
func matchesPattern(pattern, s string) bool {
	if pattern == "" || pattern == "*" {
		return true
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00"))
	return err == nil && ok
}

// Check returns an error if the rule is invalid.
func (r *Rule) Check() error {
	switch {
	case !slices.Contains(AllQuantities(), r.What):
		return tool.Errorf(tool.Invalid, "%q can't be limited: use one of %v", r.What, AllQuantities())
	case !slices.Contains(AllScopes(), r.Per):
		return tool.Errorf(tool.Invalid, "a limit can't be per %q: use one of %v", r.Per, AllScopes())
	case !(r.Max > 0) || math.IsInf(r.Max, 0):
		return tool.Errorf(tool.Invalid, "a limit's max must be over 0: use a policy to forbid something")
	case r.What == Concurrent && r.Window != 0:
		return tool.Errorf(tool.Invalid, "a limit of concurrent executions has no window")
	case r.What != Concurrent && r.Window <= 0:
		return tool.Errorf(tool.Invalid, "a limit of %s needs a window, such as 1m", r.What)
	case (r.Tools != "" || r.Hosts != "") && !r.What.ofCalls():
		return tool.Errorf(tool.Invalid, "a limit of %s can't name tools or hosts: only limits of calls, egress and "+
			"ingress can", r.What)
	case (r.Per == PerUpstream || r.Per == PerTool || r.Per == PerHost) && !r.What.ofCalls():
		return tool.Errorf(tool.Invalid,
			"a limit of %s can't be per %s: only limits of calls, egress and ingress can", r.What, r.Per)
	}
	for _, p := range []string{r.Principal, r.Tools, r.Hosts} {
		if _, err := path.Match(p, ""); err != nil {
			return tool.Errorf(tool.Invalid, "invalid pattern %q: * matches any text", p)
		}
	}
	return nil
}

// A Store stores usage. It is safe for concurrent use.
type Store interface {
	// Load returns the times stored under all keys, except those before now. It also returns when
	// the stored times were last found to be unreliable, or zero if never. Every limit counts as
	// used up at that time.
	Load(ctx context.Context, now time.Time) (times map[string]time.Time, doubt time.Time, err error)
	// Save stores times under their keys. It doesn't wait for the disk.
	Save(ctx context.Context, times map[string]time.Time) error
}

// Config configures a Limiter.
type Config struct {
	Rules []Rule
	Store Store            // nil: usage is forgotten when the process ends
	Clock *wallclock.Clock // nil: the system's
	// Breaks is notified when calls to an upstream are paused; nil: no one is.
	Breaks BreakRecorder
}

// A BreakRecorder is notified when calls to an upstream are paused. It must not wait.
type BreakRecorder interface {
	NoteBreak(upstream string)
}

// A Limiter enforces limits, and blocks calls that are likely to fail. It is safe for concurrent
// use.
type Limiter struct {
	cfg     Config
	rules   atomic.Pointer[[]Rule] // those in force
	breaker *Breaker

	mu    sync.Mutex
	doubt time.Time            // every limit was used up at this time
	times map[string]time.Time // by key, when the usage would be used up at an even rate (GCRA's TAT)
	now   map[string]float64   // by key, the number of concurrent uses
	swept time.Time
	known bool // previous usage has been loaded
}

// New returns a new Limiter.
func New(ctx context.Context, cfg Config) (*Limiter, error) {
	l := &Limiter{cfg: cfg, breaker: NewBreaker(cfg.Clock), times: map[string]time.Time{}, now: map[string]float64{},
		swept: cfg.Clock.Now()}
	if err := l.SetRules(cfg.Rules); err != nil {
		return nil, err
	}
	l.breaker.breaks = cfg.Breaks
	if len(cfg.Rules) > 0 { // report an unreadable data folder at startup
		if err := l.recallUsage(ctx); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// SetRules replaces the rules. Usage of rules that stay the same still counts.
func (l *Limiter) SetRules(rules []Rule) error {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Per = cmp.Or(rules[i].Per, PerPrincipal)
		if err := rules[i].Check(); err != nil {
			return err
		}
	}
	l.rules.Store(&rules)
	return nil
}

// recallUsage loads the previous usage, once, and not before there is a rule. l.mu is held, or l is
// not shared yet.
func (l *Limiter) recallUsage(ctx context.Context) error {
	if l.known || l.cfg.Store == nil {
		return nil
	}
	times, doubt, err := l.cfg.Store.Load(ctx, l.cfg.Clock.Now())
	if err != nil {
		return err
	}
	l.doubt = doubt
	maps.Copy(l.times, times)
	l.known = true
	return nil
}

// HasLimit reports whether any rule limits the unit what for a call.
func (l *Limiter) HasLimit(c *tool.Call, what Quantity) bool {
	return len(l.appendUses(c, nil, what, 0)) > 0
}

// Guard makes a call of an upstream's tool if the limits and the breaker allow it.
func (l *Limiter) Guard(ctx context.Context, c *tool.Call, call func() (*tool.Result, error)) (*tool.Result, error) {
	noted, err := l.breaker.Allow(c, hostFrom(ctx))
	if err != nil {
		return nil, err
	}
	done, err := l.Take(ctx, c, false)
	if err != nil {
		noted(nil, nil)
		return nil, err
	}
	r, err := call()
	done(Spent{Nothing: err != nil && tool.AsError(err).Unsent})
	if err != nil && ctx.Err() != nil { // the caller gave up, which says nothing about the upstream
		noted(nil, nil)
	} else {
		noted(r, err)
	}
	return r, err
}

// A use is the cost of one use for one rule.
type use struct {
	rule *Rule
	key  string
	host string // that is connected to; may be empty
	cost float64
}

// Take charges what a call is about to use: one call and the bytes of its arguments, or one
// execution. If that exceeds a limit, nothing is charged, and the error, of kind Limit, says how
// long to wait. The caller must call done at the end, with the additional usage or the fact that
// nothing was sent.
func (l *Limiter) Take(ctx context.Context, c *tool.Call, execution bool) (done func(Spent), err error) {
	if len(*l.rules.Load()) == 0 && len(c.Grant.Bounds) == 0 {
		return func(Spent) {}, nil
	}
	var uses, under []use
	if execution {
		uses = l.appendUses(c, nil, Executions, 1)
		under = l.appendUses(c, nil, Concurrent, 1)
		for _, w := range []Quantity{CPU, Tokens} {
			uses = l.appendUses(c, uses, w, 0) // the cost is unknown: wait until earlier usage is within the limit
		}
	} else {
		host := hostFrom(ctx)
		uses = l.appendHostUses(host, c, nil, Calls, 1)
		uses = l.appendHostUses(host, c, uses, Egress, float64(len(c.Arguments)))
		if host != "" {
			uses = l.appendHostUses(host, c, uses, Ingress, 0) // how much it will receive is unknown, too
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.recallUsage(context.WithoutCancel(ctx)); err != nil {
		return nil, tool.NotSent(err)
	}
	now := l.cfg.Clock.Now()
	l.sweepTimes(now)
	for _, u := range uses {
		if wait := l.waitFor(u, now); wait > 0 {
			return nil, exceededError(&u, c, wait)
		}
	}
	for _, u := range under {
		if l.now[u.key]+1 > u.rule.Max {
			return nil, exceededError(&u, c, 0)
		}
	}
	if err := l.chargeUses(ctx, uses, now); err != nil {
		return nil, err
	}
	for _, u := range under {
		l.now[u.key]++
	}
	return l.endOnce(ctx, c, uses, under), nil
}

// Resume counts an execution that continues after a restart as under way, regardless of the limits:
// it was allowed when it began. done is as in Take.
func (l *Limiter) Resume(ctx context.Context, c *tool.Call) (done func(Spent)) {
	under := l.appendUses(c, nil, Concurrent, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range under {
		l.now[u.key]++
	}
	return l.endOnce(ctx, c, nil, under)
}

// Spend charges CPU time that the host used for a principal outside of an execution, regardless of
// the limits.
func (l *Limiter) Spend(ctx context.Context, who tool.Principal, cpu time.Duration) {
	c := &tool.Call{Principal: who, Tool: tool.ExecuteTool()}
	uses := l.appendUses(c, nil, CPU, cpu.Seconds())
	if len(uses) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// if it can't be stored, it still counts until this process ends
	_ = l.chargeUses(context.WithoutCancel(ctx), uses, l.cfg.Clock.Now())
}

// Afford returns an error of kind Limit if the CPU time of a call's principal is used up.
func (l *Limiter) Afford(ctx context.Context, c *tool.Call) error {
	uses := l.appendUses(c, nil, CPU, 0)
	if len(uses) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.recallUsage(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	now := l.cfg.Clock.Now()
	for _, u := range uses {
		if wait := l.waitFor(u, now); wait > 0 {
			return exceededError(&u, c, wait)
		}
	}
	return nil
}

// Spent is usage that is only known at the end.
type Spent struct {
	CPU     time.Duration // of an execution
	Tokens  int           // of its answer
	Nothing bool          // a call was not sent: its charge is refunded
}

// endOnce returns the function that ends a use; only its first call has an effect.
func (l *Limiter) endOnce(ctx context.Context, c *tool.Call, uses, under []use) func(Spent) {
	var once sync.Once
	return func(s Spent) { once.Do(func() { l.finishUse(ctx, c, uses, under, s) }) }
}

func (l *Limiter) finishUse(ctx context.Context, c *tool.Call, taken, under []use, s Spent) {
	uses := l.appendUses(c, nil, CPU, s.CPU.Seconds())
	uses = l.appendUses(c, uses, Tokens, float64(s.Tokens))
	if s.Nothing {
		for _, u := range taken {
			u.cost = -u.cost
			uses = append(uses, u)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range under {
		if l.now[u.key]--; l.now[u.key] <= 0 {
			delete(l.now, u.key)
		}
	}
	// It was used in any case: if it can't be stored, it still counts until this process ends.
	_ = l.chargeUses(context.WithoutCancel(ctx), uses, l.cfg.Clock.Now())
}

// appendUses returns to with the costs of a call appended, one for each rule that limits what.
// These are the rules of the configuration, and those of the policies that allowed the call.
func (l *Limiter) appendUses(c *tool.Call, to []use, what Quantity, cost float64) []use {
	return l.appendHostUses("", c, to, what, cost)
}

// appendHostUses is like appendUses, for a call that connects to a host, if it isn't empty.
func (l *Limiter) appendHostUses(host string, c *tool.Call, to []use, what Quantity, cost float64) []use {
	add := func(r *Rule) {
		for _, k := range r.counterKeys(c, host) {
			to = append(to, use{r, k, host, cost})
		}
	}
	rules := *l.rules.Load()
	for i := range rules {
		if r := &rules[i]; r.appliesTo(c, host, what) {
			add(r)
		}
	}
	for _, b := range c.Grant.Bounds {
		if b.What == string(what) {
			add(ruleOf(b))
		}
	}
	return to
}

// waitFor returns the time until u is within its rule. l.mu is held.
func (l *Limiter) waitFor(u use, now time.Time) time.Duration {
	tat := l.usedUntil(u, now)
	// A single use that exceeds the whole limit waits until nothing is used, as it would wait
	// forever otherwise.
	cost := min(u.cost, u.rule.Max)
	free := u.rule.Window - time.Duration(cost*float64(u.rule.Window)/u.rule.Max)
	if u.cost == 0 {
		free-- // wait until there is room for something
	}
	return tat.Sub(now) - free
}

// usedUntil returns the time at which all usage so far is used up. l.mu is held.
func (l *Limiter) usedUntil(u use, now time.Time) time.Time {
	tat := l.times[u.key]
	if full := l.doubt.Add(u.rule.Window); !l.doubt.IsZero() && tat.Before(full) {
		tat = full
	}
	switch most := now.Add(u.rule.Window); {
	case tat.Before(now):
		return now
	case tat.After(most) && (u.rule.What == Calls || u.rule.What == Executions):
		tat = most // no use goes beyond it, so the clock was ahead when it was stored
		l.times[u.key] = tat
	}
	return tat
}

// timeCost returns the time that a use costs, negative for a refund. It is at most a century, which
// fits into a Duration.
func (u *use) timeCost() time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(u.cost*float64(u.rule.Window)/u.rule.Max, float64(most)))
}

// chargeUses adds the costs of uses and stores the new times. l.mu is held.
func (l *Limiter) chargeUses(ctx context.Context, uses []use, now time.Time) error {
	changed := map[string]time.Time{}
	for _, u := range uses {
		if u.cost == 0 {
			continue
		}
		l.times[u.key] = l.usedUntil(u, now).Add(u.timeCost())
		changed[u.key] = l.times[u.key]
	}
	if l.cfg.Store == nil || len(changed) == 0 {
		return nil
	}
	return l.cfg.Store.Save(ctx, changed)
}

// sweepTimes removes expired times, at most once a minute. l.mu is held.
func (l *Limiter) sweepTimes(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	for k, t := range l.times {
		if !t.After(now) {
			delete(l.times, k)
		}
	}
}
