package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newValidator returns a validator for policies with a schema.
func newValidator(text string) (*validate.Validator, error) {
	var s schema.Schema
	if err := s.UnmarshalCedar([]byte(text)); err != nil {
		return nil, fmt.Errorf("policy schema: %w", err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		return nil, fmt.Errorf("policy schema: %w", err)
	}
	return validate.New(resolved), nil
}

// checkBase returns the errors that don't depend on tools: names of entities, actions and
// attributes, and types.
func (e *Engine) checkBase() (problems []Problem) {
	check, err := newValidator(schemaOfAll("{}"))
	if err != nil {
		return []Problem{{File: "policies", Message: err.Error()}}
	}
	for _, r := range e.rules {
		f := e.ruleFile(r)
		for _, a := range r.entityIDs("Action") {
			if !slices.Contains(actions, a) {
				problems = append(problems,
					r.newProblem(f, a, "unknown action %s%s", quoteCedar(a), suggestName(a, actions)))
			}
		}
		problems = append(append(problems, r.checkFiles(f)...), r.checkHosts(f)...)
		problems = append(problems, r.checkReveal(f)...)
		problems = append(append(problems, r.wrongLabels(f)...), r.unknownFindings(f)...)
		hidden := r.withoutArguments(func(string) bool { return true })
		problems = append(problems, r.convertError(f, check.Policy("", hidden), "")...)
	}
	return problems
}

func (e *Engine) ruleFile(r *rule) File {
	i := slices.IndexFunc(e.cfg.Files, func(f File) bool { return f.Name == r.file })
	return e.cfg.Files[i]
}

// Check returns the problems of the policies for the given tools: names of tools, upstreams and
// arguments, and the types of arguments. An error that concerns only some of the tools of a policy
// is a warning. The parameter unlisted names the upstreams that have not listed their tools. Names
// of their tools can't be checked.
func (e *Engine) Check(tools []*tool.Tool, unlisted ...string) (problems, warnings []Problem) {
	shapes := make([]*shape, len(tools))
	for i, t := range tools {
		shapes[i] = shapeOf(t.InputSchema)
	}
	for _, r := range e.rules {
		f := e.ruleFile(r)
		problems = append(problems, r.findUnknown(f, tools, unlisted)...)
		if args, _ := readsContext(r.policy); args {
			wrong, partly := r.checkArguments(f, tools, shapes)
			problems, warnings = append(problems, wrong...), append(warnings, partly...)
		}
	}
	return problems, append(append(warnings, e.warnNoFilePermit()...), e.WarnTiers()...)
}

// WarnTiers warns about permits that require a stronger tier than any program can run at.
func (e *Engine) WarnTiers() (warnings []Problem) {
	for _, r := range e.rules {
		if r.bounds.tier > e.cfg.Strongest {
			warnings = append(warnings, r.newProblem(e.ruleFile(r), "@tier",
				"%s requires tier %s, and no sandbox here is of this tier or a stronger one: "+
					"the calls and files that it permits are denied, and so are programs", r.id, r.bounds.tier))
		}
	}
	return warnings
}

// CheckNames is the part of Check that concerns names of tools and upstreams.
func (e *Engine) CheckNames(tools []*tool.Tool, unlisted ...string) (problems []Problem) {
	for _, r := range e.rules {
		problems = append(problems, r.findUnknown(e.ruleFile(r), tools, unlisted)...)
	}
	return problems
}

// NamesUpstream reports whether a policy names an upstream, or a tool of it.
func (e *Engine) NamesUpstream(upstream string) bool {
	return slices.ContainsFunc(e.rules, func(r *rule) bool {
		return slices.Contains(r.entityIDs("Upstream"), upstream) ||
			slices.ContainsFunc(r.entityIDs("Tool"),
				func(id string) bool { return strings.HasPrefix(id, upstream+".") })
	})
}

// findUnknown reports the tools and upstreams in the rule that don't exist.
func (r *rule) findUnknown(f File, tools []*tool.Tool, unlisted []string) (problems []Problem) {
	paths, upstreams := []string{tool.Own + ".execute"}, append([]string{tool.Own}, unlisted...)
	for _, id := range r.entityIDs("Tool") { // of upstreams with tools; lists of tools don't have them
		u, name, _ := strings.Cut(id, ".")
		if tool.NamesMethod(name) &&
			slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Upstream == u }) {
			paths = append(paths, id)
		}
	}
	later := func(kind, id string) bool {
		return kind == "Tool" && slices.ContainsFunc(unlisted, func(u string) bool {
			return strings.HasPrefix(id, u+".")
		})
	}
	for _, t := range tools {
		paths, upstreams = append(paths, t.Path()), append(upstreams, t.Upstream)
	}
	for kind, known := range map[string][]string{"Tool": paths, "Upstream": upstreams} {
		for _, id := range r.entityIDs(kind) {
			if !slices.Contains(known, id) && !later(kind, id) {
				problems = append(problems,
					r.newProblem(f, id, "unknown entity %s::%s%s", kind, quoteCedar(id),
						cmp.Or(suggestSpelling(kind, id, tools), suggestName(id, known))))
			}
		}
	}
	return problems
}

// suggestSpelling suggests a tool whose path is another spelling of id.
func suggestSpelling(kind, id string, tools []*tool.Tool) string {
	for _, t := range tools {
		if upstream, name, ok := strings.Cut(id, "."); kind == "Tool" && ok &&
			tool.Snake(upstream) == tool.Snake(t.Upstream) && t.IsNamed(name) {
			return fmt.Sprintf(": did you mean %q?", t.Path())
		}
	}
	return ""
}

// maxChecked is the maximum number of tools whose arguments a policy is checked against.
const maxChecked = 2000

// checkArguments checks the use of arguments in the rule against each tool that it applies to.
func (r *rule) checkArguments(f File, tools []*tool.Tool, shapes []*shape) (problems, warnings []Problem) {
	var about []int
	for i, t := range tools {
		if r.includesTool(t) && len(about) < maxChecked {
			about = append(about, i)
		}
	}
	if len(about) == 0 {
		return nil, nil
	}
	if p := r.unknownArguments(f, about, shapes); len(p) > 0 {
		return p, nil
	}
	failed, fails := map[Problem][]string{}, 0
	for _, i := range about {
		wrong := r.checkTool(f, shapes[i])
		for _, p := range wrong {
			failed[p] = append(failed[p], tools[i].Path())
		}
		if len(wrong) > 0 {
			fails++
		}
	}
	for p, paths := range failed {
		slices.Sort(paths)
		some := strings.Join(paths[:min(3, len(paths))], ", ")
		if n := len(paths) - 3; n > 0 {
			some += fmt.Sprintf(" and %d more", n)
		}
		if fails == len(about) {
			problems = append(problems, p)
			continue
		}
		effect := "so it permits none of its calls"
		if r.forbid {
			effect = "so it denies all of its calls"
		}
		p.Message = fmt.Sprintf("for %s: %s; the policy can't be evaluated there, %s", some, p.Message, effect)
		warnings = append(warnings, p)
	}
	return problems, warnings
}

// unknownArguments reports the arguments in the rule that none of the tools has.
func (r *rule) unknownArguments(f File, about []int, shapes []*shape) (problems []Problem) {
	known := []string{}
	for _, i := range about {
		s := shapes[i]
		if !s.isKind(recordShape) || len(s.fields) == 0 {
			return nil // it may have any argument
		}
		for name := range s.fields {
			known = append(known, name)
		}
	}
	for _, path := range r.argumentPaths() {
		name, _, _ := strings.Cut(path, ".")
		if name != "" && !slices.Contains(known, name) {
			problems = append(problems,
				r.newProblem(f, name, "no tool that this policy applies to has an argument %s%s", quoteCedar(name),
					suggestName(name, known)))
		}
	}
	return problems
}

func (r *rule) checkTool(f File, s *shape) []Problem {
	unknown := map[string]bool{}
	typ := s.cedarType("", unknown)
	check, err := newValidator(schemaFor(typ))
	if err != nil {
		return []Problem{r.newProblem(f, "", "%s", oneLine(err.Error()))}
	}
	untyped := func(path string) bool {
		if path == "" || !s.isKind(recordShape) {
			return true
		}
		for at := path; ; {
			if unknown[at] {
				return true
			}
			i := strings.LastIndexByte(at, '.')
			if i < 0 {
				return false
			}
			at = at[:i]
		}
	}
	return r.convertError(f, check.Policy("", r.withoutArguments(untyped)), typ)
}

// includesTool reports whether the scope of the rule includes a tool.
func (r *rule) includesTool(t *tool.Tool) bool {
	switch s := r.policy.AST().Resource.(type) {
	case ast.ScopeTypeEq:
		return string(s.Entity.ID) == t.Path()
	case ast.ScopeTypeIn:
		return string(s.Entity.ID) == t.Upstream || string(s.Entity.ID) == t.Path()
	case ast.ScopeTypeIs:
		return s.Type == toolType
	case ast.ScopeTypeIsIn:
		return s.Type == toolType && string(s.Entity.ID) == t.Upstream || string(s.Entity.ID) == t.Path()
	}
	return true
}

var (
	lacks    = lazily.Regexp("attribute `([^`]+)`(.*) not found")
	unsafe   = lazily.Regexp("unable to guarantee safety of access to optional attribute `([^`]+)`")
	inAction = lazily.Regexp(` (?:in context )?for Action::"\w+"`)
	ticked   = lazily.Regexp("`([^`]+)`")
	onType   = lazily.Regexp(" on entity type `[^`]+`")
)

// convertError converts an error of the checker to problems.
func (r *rule) convertError(f File, err error, arguments string) (problems []Problem) {
	if err == nil {
		return nil
	}
	all := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		all = joined.Unwrap()
	}
	for _, msg := range checkerMessages(all) {
		if strings.HasPrefix(msg, "unable to find an applicable action") && len(all) > 1 ||
			strings.HasPrefix(msg, "unrecognized action") {
			continue
		}
		at := ""
		if m := ticked.Get().FindStringSubmatch(msg); m != nil {
			at = m[1][strings.LastIndexByte(m[1], '.')+1:]
		}
		switch {
		case unsafe.Get().MatchString(msg):
			path := unsafe.Get().FindStringSubmatch(msg)[1]
			base := "context." + path
			if i := strings.LastIndexByte(base, '.'); i > 0 {
				msg = fmt.Sprintf("%s may be missing: test for it first, with `%s has %s && ...`",
					base, base[:i], base[i+1:])
			}
		case lacks.Get().MatchString(msg):
			msg += suggestName(at, attributes)
		}
		problems = append(problems, r.newProblem(f, at, "%s", msg))
	}
	return problems
}

// checkerMessages returns the messages of the checker, sorted and without duplicates. The checker
// visits the possible types of a policy in random order. A message that applies to several types
// names none of them.
func checkerMessages(all []error) []string {
	types := map[string][]string{} // messages by their text without the type
	for _, err := range all {
		msg := inAction.Get().ReplaceAllString(oneLine(err.Error()), "")
		short := onType.Get().ReplaceAllString(msg, "")
		types[short] = append(types[short], msg)
	}
	var out []string
	for short, said := range types {
		if said = sortList(said); len(said) == 1 {
			short = said[0]
		}
		out = append(out, short)
	}
	return sortList(out)
}

// attributes lists all names in the schema, for suggestions.
var attributes = []string{
	"id", "name", "person", "agent", "client", "profile", "roles", "groups", "scopes", "upstream", "path", "host",
	"port",
	"scheme", "readOnly", "destructive", "idempotent", "openWorld", "tags", "labels",
	"arguments", "program", "findings", "tier", "method", "now", "hour", "weekday",
}
