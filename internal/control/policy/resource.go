package policy

import (
	"fmt"
	"slices"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The names of files in policies.
const (
	fileType   = cedar.EntityType("File")
	folderType = cedar.EntityType("Folder")

	readAction  = "read"
	writeAction = "write"
)

// actions lists all actions that policies decide.
var actions = []string{callAction, executeAction, readAction, writeAction, connectAction, revealAction}

// A FileUse is a program's use of one of its files. Files in ./tools are not subject to policy:
// they are read-only declarations of what may be called.
type FileUse struct {
	Path  string // clean, below the root: "workspace/a/b.csv", "skills/retry.ts"
	Write bool   // created, changed, moved or removed; otherwise it is read
}

func (u *FileUse) actionName() string {
	if u.Write {
		return writeAction
	}
	return readAction
}

// fileFacts returns the facts that policies know about a file. It also has the attributes of tools,
// so that policies without an action apply to files like to tools: reading a file is readOnly.
func (u *FileUse) fileFacts() *facts {
	// the path may be a folder, which a write can create
	folders := []cedar.EntityUID{cedar.NewEntityUID(folderType, cedar.String(u.Path))}
	for i, c := range u.Path {
		if c == '/' {
			folders = append(folders, cedar.NewEntityUID(folderType, cedar.String(u.Path[:i])))
		}
	}
	no := cedar.Boolean(false)
	return &facts{action: u.actionName(), entity: cedar.Entity{
		UID: cedar.NewEntityUID(fileType, cedar.String(u.Path)), Parents: cedar.NewEntityUIDSet(folders...),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"path": cedar.String(u.Path), "name": cedar.String(u.Path[strings.LastIndexByte(u.Path, '/')+1:]),
			"upstream": cedar.String(""),
			"readOnly": cedar.Boolean(!u.Write), "destructive": cedar.Boolean(u.Write), "idempotent": no,
			"openWorld": no,
			"tags":      setOf(nil), "labels": setOf(nil),
		}),
	}}
}

// factsOf returns the facts that policies know about the resource of a request.
func (e *Engine) factsOf(r Request) (*facts, error) {
	switch {
	case r.File != nil:
		return r.File.fileFacts(), nil
	case ReachesNetwork(r.Tool):
		t, err := TargetOf(r.Arguments)
		if err != nil {
			return nil, err
		}
		return t.targetFacts(), nil
	}
	return e.toolFacts(r.Tool.ForCall(r.Arguments)), nil
}

// decideEarly returns the decision on a request that doesn't require evaluating the policies.
func (e *Engine) decideEarly(r Request) (d Decision, ok bool) {
	switch {
	case len(r.Kinds) > 0 && (r.Tool == nil || r.Tool.Upstream == tool.Own):
		return Decision{Effect: Deny, Policy: "builtin", Reason: "personal data is passed only to tools of upstreams"},
			true
	case r.File != nil && strings.HasPrefix(r.File.Path, "tools/"), r.File == nil && r.Tool != nil && isOwn(r.Tool):
		return Decision{Effect: Allow, Policy: "builtin", Reason: "it shows only what the caller may see anyway",
			Grant: tool.Grant{Tier: e.cfg.Tier}}, true
	case r.File != nil:
		d, ok = e.free[r.File.actionName()]
		return d, ok
	case r.Tool == nil:
		return Decision{Effect: Deny, Policy: "none", Reason: "the call names no tool"}, true
	}
	return Decision{}, false
}

// denyAsking denies a decision to ask where that is not supported. A program may use thousands of
// files. For personal data alone, the approver of the call already sees what is sent.
func denyAsking(d Decision, what string) Decision {
	if d.Effect == Ask {
		d.Effect, d.Approvers, d.Reason = Deny, nil, "it requires approval ("+d.Reason+"), which is not available "+
			what+": permit that in a separate policy, and restrict this one to calls"
	}
	return d
}

// fixedDecisions returns the decisions on file actions that are the same for every file and
// principal. For these, some permit is unconditional, and no rule forbids or restricts the action.
// Programs then need no evaluation for their files.
func (e *Engine) fixedDecisions() map[string]Decision {
	free := map[string]Decision{}
	for _, action := range []string{readAction, writeAction} {
		var permits []*rule
		open := true
		for _, r := range e.rules {
			if !r.includesAction(action) {
				continue
			}
			if r.forbid || r.bounds.ask || r.bounds.tier > e.cfg.Tier {
				open = false
				break
			}
			if r.isUnconditional() {
				permits = append(permits, r)
			}
		}
		if open && len(permits) > 0 {
			free[action] = Decision{Effect: Allow, Policy: idsOf(permits),
				Reason: joinReasons(permits,
					"it is permitted"), Grant: tool.Grant{Tier: e.cfg.Tier}, Version: e.version}
		}
	}
	return free
}

// includesAction reports whether the rule's scope includes an action.
func (r *rule) includesAction(action string) bool {
	id := cedar.NewEntityUID(actionType, cedar.String(action))
	switch s := r.policy.AST().Action.(type) {
	case ast.ScopeTypeEq:
		return s.Entity == id
	case ast.ScopeTypeIn:
		return s.Entity == id
	case ast.ScopeTypeInSet:
		return slices.Contains(s.Entities, id)
	}
	return true
}

// isUnconditional reports whether the rule holds for all principals and files.
func (r *rule) isUnconditional() bool {
	p := r.policy.AST()
	_, anybody := p.Principal.(ast.ScopeTypeAll)
	_, anything := p.Resource.(ast.ScopeTypeAll)
	is, files := p.Resource.(ast.ScopeTypeIs)
	return anybody && (anything || files && is.Type == fileType) && len(p.Conditions) == 0
}

// includesOnly reports whether the rule's scope includes no other actions.
func (r *rule) includesOnly(these ...string) bool {
	return !slices.ContainsFunc(actions,
		func(a string) bool { return r.includesAction(a) && !slices.Contains(these, a) })
}

// checkFiles reports errors in what the rule says about files.
func (r *rule) checkFiles(f File) (problems []Problem) {
	if r.bounds.ask && r.includesOnly(readAction, writeAction) {
		problems = append(problems,
			r.newProblem(f, "@ask",
				"approval is not available for files, since a program may use thousands: permit or forbid them"))
	}
	if (len(r.bounds.limits) > 0 || len(r.bounds.redact) > 0) && r.includesOnly(readAction, writeAction) {
		problems = append(problems,
			r.newProblem(f, "",
				"@limit and @redact apply to calls, not to files: remove them, or forbid the files"))
	}
	areas := []string{"workspace", "skills"}
	for _, kind := range []string{"File", "Folder"} {
		for _, id := range r.entityIDs(kind) {
			area, _, below := strings.Cut(id, "/")
			switch {
			case slices.Contains(areas, area) && (below || kind == "Folder") && !strings.HasSuffix(id, "/") &&
				!slices.Contains(strings.Split(id, "/"), ".."):
			case kind == "Folder":
				problems = append(problems,
					r.newProblem(f, id, "unknown folder %s::%s: folders are \"workspace\", \"skills\" and the "+
						"folders in them, such as \"workspace/reports\"%s", kind, quoteCedar(id),
						suggestName(id, areas)))
			default:
				problems = append(problems,
					r.newProblem(f, id,
						"unknown file %s::%s: files have names like \"workspace/data.csv\" and \"skills/retry.ts\"",
						kind, quoteCedar(id)))
			}
		}
	}
	return problems
}

// warnNoFilePermit warns if no policy permits files: then programs can't read or write their own.
func (e *Engine) warnNoFilePermit() (warnings []Problem) {
	for _, action := range []string{readAction, writeAction} {
		if !slices.ContainsFunc(e.rules, func(r *rule) bool { return !r.forbid && r.includesAction(action) }) &&
			len(e.rules) > 0 {
			warnings = append(warnings, Problem{File: e.rules[0].file, Message: fmt.Sprintf(
				`no policy permits programs to %s their files, so all are denied: add permit (principal, action == `+
					`Action::"%[1]s", resource is File); as Biplane's own policies do`, action)})
		}
	}
	return warnings
}
