package policy

import (
	"maps"
	"slices"
	"strings"
	"time"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A world is what the policies see of one request. It implements cedar.EntityGetter.
type world struct {
	facts *facts
	user  cedar.Entity
	about cedar.RecordMap // the context

	reveals bool // the action is reveal
}

// newWorld returns the world of a request, or an error if the arguments are invalid.
func (e *Engine) newWorld(r Request) (*world, error) {
	about, err := e.factsOf(r)
	if err != nil {
		return nil, err
	}
	args, err := e.readArguments(r, about)
	if err != nil {
		return nil, err
	}
	return e.worldOf(r, about, args)
}

// readArguments returns the arguments of a request if any policy reads arguments. It returns an
// error if they are invalid.
func (e *Engine) readArguments(r Request, about *facts) (args cedar.Record, err error) {
	if !e.reads || about.tool == nil { // otherwise the resource has them
		return args, nil
	}
	return convertArguments(r.Arguments, about.shape)
}

// worldOf returns the world of a request about a resource.
func (e *Engine) worldOf(r Request, about *facts, args cedar.Record) (*world, error) {
	w := &world{facts: about, user: userOf(r.Principal), reveals: len(r.Kinds) > 0}
	w.about = e.knownContext(r)
	w.about["arguments"] = args
	if w.facts.action == connectAction {
		t, err := TargetOf(r.Arguments)
		if err != nil {
			return nil, err
		}
		maps.Copy(w.about, t.requestContext())
	}
	w.about["program"] = cedar.Boolean(r.Parent != "")
	w.about["labels"] = setOf(r.Labels)
	w.about["findings"] = setOf(r.Findings)
	return w, nil
}

// knownContext returns the part of the context that is known without a call.
func (e *Engine) knownContext(r Request) cedar.RecordMap {
	m := cedar.RecordMap{"client": cedar.String(r.Principal.Client), "kinds": setOf(r.Kinds),
		"tier": cedar.String(e.runningTier(r).String())}
	if e.timed {
		now := r.Time
		if now.IsZero() {
			now = e.cfg.Clock.Now()
		}
		m["now"] = cedar.NewDatetime(now)
		m["hour"] = cedar.Long(now.Hour())
		m["weekday"] = cedar.String(strings.ToLower(now.Weekday().String()))
	} else {
		m["now"], m["hour"], m["weekday"] = cedar.NewDatetime(time.Time{}), cedar.Long(0), cedar.String("")
	}
	return m
}

func userOf(p tool.Principal) cedar.Entity {
	groups := make([]cedar.EntityUID, len(p.Groups))
	for i, g := range p.Groups {
		groups[i] = cedar.NewEntityUID(groupType, cedar.String(g))
	}
	return cedar.Entity{
		UID: cedar.NewEntityUID(userType, cedar.String(p.ID)), Parents: cedar.NewEntityUIDSet(groups...),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"id": cedar.String(p.ID), "name": cedar.String(p.Name), "person": cedar.String(p.Person),
			"agent": cedar.String(p.Agent), "client": cedar.String(p.Client), "profile": cedar.String(p.Profile),
			"roles": setOf(p.Roles), "groups": setOf(p.Groups), "scopes": setOf(p.Scopes),
		}),
	}
}

func (w *world) cedarRequest() cedar.Request {
	return cedar.Request{Principal: w.user.UID, Action: w.actionUID(), Resource: w.facts.entity.UID,
		Context: cedar.NewRecord(w.about)}
}

func (w *world) actionUID() cedar.EntityUID {
	if w.reveals {
		return cedar.NewEntityUID(actionType, revealAction)
	}
	return cedar.NewEntityUID(actionType, cedar.String(w.facts.action))
}

// Get returns the entity with an id.
func (w *world) Get(id cedar.EntityUID) (cedar.Entity, bool) {
	switch id {
	case w.user.UID:
		return w.user, true
	case w.facts.entity.UID:
		return w.facts.entity, true
	}
	return cedar.Entity{UID: id}, id.Type == groupType || id.Type == upstreamType || id.Type == folderType ||
		id.Type == actionType
}

// Shows reports whether r.Principal may call r.Tool with some arguments; see Sight.
func (e *Engine) Shows(r Request) bool { return e.Sight(r.Principal, r.Time).Shows(r.Tool) }

// A Sight reports which tools a principal is shown: the tools that it could call with some
// arguments. It evaluates the policies partially, since the arguments, the origin of the call and
// the labels of its session are unknown. A tool that some call could reach is never hidden. A tool
// that no call could reach is hidden, unless that follows only from policies with contradictory
// conditions on one argument. A Sight must not be used concurrently.
type Sight struct {
	engine *Engine
	env    eval.Env
	user   cedar.Entity
	left   map[actionRule]*partialResult
}

// An actionRule is a rule with a known action.
type actionRule struct {
	action string
	rule   *rule
}

// A partialResult is a partially evaluated rule.
type partialResult struct {
	policy  *ast.Policy // the rest when only the tool is unknown; nil: nothing
	outcome outcome     // of a rule that doesn't depend on the tool
}

// An outcome is the result of evaluating the conditions of a rule partially.
type outcome struct {
	keep  bool // it may hold
	sure  bool // it holds
	fails bool // one of the conditions can't be evaluated
	alone bool // and it is the only one left
}

func outcomeOf(rest *ast.Policy, keep bool) outcome {
	if !keep {
		return outcome{}
	}
	o := outcome{keep: true, sure: len(rest.Conditions) == 0, fails: alwaysFails(rest)}
	o.alone = o.fails && len(rest.Conditions) == 1
	return o
}

// Sight returns a Sight of p at a time; zero means now.
func (e *Engine) Sight(p tool.Principal, at time.Time) *Sight {
	s := &Sight{engine: e, user: userOf(p), left: map[actionRule]*partialResult{}}
	s.env = eval.Env{Principal: s.user.UID, Context: e.sightContext(Request{Principal: p, Time: at})}
	return s
}

// sightContext returns the context of a Sight. The tier of a program is unknown if there are
// several.
func (e *Engine) sightContext(r Request) cedar.Record {
	about := e.knownContext(r)
	if e.cfg.Strongest > e.cfg.Tier {
		about["tier"] = eval.Variable("tier")
	}
	return unknownContext(about)
}

// callAttributes are the attributes of the context that only a call has.
var callAttributes = []cedar.String{"arguments", "program", "labels", "findings", "method", "path"}

// unknownContext returns a context in which the values that only a call has are unknown.
func unknownContext(about cedar.RecordMap) cedar.Record {
	for _, name := range callAttributes {
		about[name] = eval.Variable(name)
	}
	return cedar.NewRecord(about)
}

// evaluateRule returns the partial evaluation of a rule whose scope matches, for the tool of env.
// Results are cached as far as the rule's dependencies allow: forever, for this Sight, or not at
// all.
func (s *Sight) evaluateRule(r *rule, env eval.Env, w *world) outcome {
	if r.looks.literal { // a literal entity's attributes depend on the tool
		return outcomeOf(eval.PartialPolicy(env, r.conditionsOnly()))
	}
	if r.looks == (depends{}) {
		r.once.Do(func() {
			r.fixed = r.evaluatePartly(eval.Env{Principal: env.Principal, Action: env.Action,
				Context: unknownContext(cedar.RecordMap{}), Entities: w}, env.Resource).outcome
		})
		return r.fixed
	}
	key := actionRule{w.facts.action, r}
	p := s.left[key]
	if p == nil {
		p = r.evaluatePartly(env, env.Resource)
		s.left[key] = p
	}
	if !r.looks.resource || p.policy == nil {
		return p.outcome
	}
	return outcomeOf(eval.PartialPolicy(env, p.policy))
}

// evaluatePartly evaluates the conditions of a rule whose scope matches, first without the
// resource.
func (r *rule) evaluatePartly(env eval.Env, resource cedar.Value) *partialResult {
	env.Resource = eval.Variable("resource")
	rest, keep := eval.PartialPolicy(env, r.conditionsOnly())
	if !keep {
		return &partialResult{}
	}
	out := &partialResult{policy: rest}
	if !r.looks.resource {
		env.Resource = resource
		out.outcome = outcomeOf(eval.PartialPolicy(env, rest))
	}
	return out
}

// conditionsOnly returns the conditions of the rule as a separate policy.
func (r *rule) conditionsOnly() *ast.Policy {
	p := r.policy.AST()
	return &ast.Policy{Effect: p.Effect, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeAll{},
		Resource: ast.ScopeTypeAll{}, Conditions: p.Conditions}
}

// Shows reports whether the principal is shown a tool.
func (s *Sight) Shows(t *tool.Tool) bool {
	switch {
	case t == nil:
		return false
	case t.Judge != nil && !t.Annotations.Reads() && s.Shows(t.AsReader()):
		return true
	}
	if required := t.RequiredTool(); required != nil && !s.Shows(required) {
		return false
	}
	if isOwn(t) {
		return true
	}
	if ReachesNetwork(t) { // the host is only known with the call
		return slices.ContainsFunc(s.engine.rules,
			func(r *rule) bool { return !r.forbid && r.includesAction(connectAction) })
	}
	return s.showsResource(s.engine.toolFacts(t))
}

// showsResource reports whether some use of a resource could be permitted.
func (s *Sight) showsResource(f *facts) bool {
	w := &world{facts: f, user: s.user}
	env := s.env
	env.Action, env.Resource, env.Entities = w.actionUID(), w.facts.entity.UID, w
	var may bool
	least := tool.MicroVM + 1 // the weakest tier that a permit requires
	tiered := tool.WASM       // the strongest tier of permits that surely hold
	var asking []*rule        // permits that surely hold and ask
	for _, rule := range s.engine.matchingRules(w.facts.action, w.facts.entity) {
		scope := rule.policy.AST()
		if !inScope(scope.Principal, s.user) || !inScope(scope.Resource, w.facts.entity) {
			continue
		}
		o := s.evaluateRule(rule, env, w)
		switch {
		case !o.keep:
		case rule.forbid && (o.sure || o.alone):
			return false
		case !rule.forbid && !o.fails:
			may = true
			least = min(least, rule.bounds.tier)
			if o.sure {
				tiered = max(tiered, rule.bounds.tier)
			}
			if o.sure && rule.bounds.ask {
				asking = append(asking, rule)
			}
		}
	}
	if len(asking) > 0 && len(commonGroups(asking)) == 0 {
		return false
	}
	// A call of execute chooses a sandbox of the tier that it needs, or fails with the reason for
	// which there is none.
	return may && (w.facts.action == executeAction || max(least, tiered) <= s.engine.cfg.Strongest)
}

// alwaysFails reports whether a remaining condition of a policy can't be evaluated, whatever the
// unknown values are.
func alwaysFails(p *ast.Policy) bool {
	for _, c := range p.Conditions {
		if _, bad := eval.ToPartialError(c.Body); bad {
			return true
		}
	}
	return false
}

// readsContext reports whether a policy reads arguments, and the time. A use of the whole context
// counts as both.
func readsContext(p *cedar.Policy) (args, clock bool) {
	for _, c := range p.AST().Conditions {
		var attrs []ast.NodeTypeAccess
		whole := 0
		ast.Inspect(ast.NewNode(c.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				if v, ok := n.Arg.(ast.NodeTypeVariable); ok && v.Name == "context" {
					attrs = append(attrs, n)
					return false
				}
			case ast.NodeTypeVariable:
				if n.Name == "context" {
					whole++
				}
			}
			return true
		})
		if whole > 0 {
			return true, true
		}
		for _, a := range attrs {
			args = args || a.Value == "arguments"
			clock = clock || a.Value == "now" || a.Value == "hour" || a.Value == "weekday"
		}
	}
	return args, clock
}
