package httpapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

// Approvals holds the calls that wait for approval; implemented by *approval.Gate.
type Approvals interface {
	List(ctx context.Context, q approval.Query) ([]approval.Request, error)
	Get(ctx context.Context, id string) (*approval.Request, error)
	Decide(ctx context.Context, d approval.Decider, id string, approve bool, note string) (*approval.Request, error)
	// May returns why d may not decide on r, whatever state r is in, or nil.
	May(d approval.Decider, r *approval.Request) error
}

// approvalRoutes serves the requests for approval, and accepts decisions on them.
type approvalRoutes struct {
	approvals Approvals
	journals  Journals
	secrets   Secrets
}

func (h *approvalRoutes) listApprovals(w http.ResponseWriter, r *http.Request) {
	v, who := r.URL.Query(), principalOf(r)
	q := approval.Query{Execution: v.Get("execution"), Before: cmp.Or(v.Get(cursorParameter), v.Get("before")),
		Limit: api.MaxApprovals}
	if v.Get("all") != "true" {
		q.States = []approval.State{approval.Pending}
	}
	limit, err := parseLimit(v, api.MaxApprovals)
	if err != nil {
		writeError(w, err)
		return
	}
	if q.Before != "" {
		if last, err := h.approvals.Get(r.Context(), q.Before); err != nil || !console.MaySee(who, last) {
			writeError(w, tool.Errorf(tool.NotFound, "no request %q: omit before to list from the newest one",
				text.Cut(q.Before, 80)))
			return
		}
	}
	out := []api.Approval{}
	for len(out) < limit { // skip requests that the caller may not see, and still fill the page
		all, err := h.approvals.List(r.Context(), q)
		if err != nil {
			writeError(w, err)
			return
		}
		for i := range all {
			if len(out) < limit && console.MaySee(who, &all[i]) {
				out = append(out, wireApproval(&all[i]))
			}
		}
		if len(all) == 0 {
			break
		}
		q.Before = all[len(all)-1].ID
	}
	if len(out) == limit {
		setNextPage(w, r, out[limit-1].ID)
	}
	writeJSON(w, http.StatusOK, out)
}

func (h *approvalRoutes) showApproval(w http.ResponseWriter, r *http.Request) {
	req, err := h.approvals.Get(r.Context(), r.PathValue("id"))
	if err == nil && !console.MaySee(principalOf(r), req) {
		err = tool.Errorf(tool.NotFound, "no request %q: biplane approvals list shows the pending ones",
			r.PathValue("id"))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := wireApproval(req)
	if err := h.approvals.May(h.callerAsDecider(r), req); err != nil {
		out.Blocked = tool.AsError(err).Msg
	}
	if req.Execution != "" {
		// it may no longer be stored
		if d, err := h.journals.Details(r.Context(), tool.Principal{ID: req.Principal}, req.Execution); err == nil {
			out.Program = d.Program
		}
	}
	writeJournal(w, h.secrets, out)
}

// callerAsDecider returns the caller as the Decider of a request.
func (h *approvalRoutes) callerAsDecider(r *http.Request) approval.Decider {
	p := principalOf(r)
	return approval.Decider{Principal: p, Any: identity.HasRole(p, identity.Admin), Via: "api"}
}

func (h *approvalRoutes) decideApproval(w http.ResponseWriter, r *http.Request) {
	var d struct { // an api.Decision in which false differs from missing: a denial is final
		Approve *bool   `json:"approve"`
		Digest  *string `json:"digest"`
		Note    string  `json:"note"`
	}
	if err := readJSON(r, &d); err != nil {
		writeError(w, err)
		return
	}
	if d.Approve == nil || d.Digest == nil {
		writeError(w, tool.Errorf(tool.Invalid,
			`a decision needs "approve", true or false, and "digest", the request's digest: nothing was decided`))
		return
	}
	shown, err := h.approvals.Get(r.Context(), r.PathValue("id"))
	if err == nil && !console.MaySee(principalOf(r), shown) {
		err = tool.Errorf(tool.NotFound, "no request %q: biplane approvals list shows the pending ones",
			r.PathValue("id"))
	}
	if err == nil && shown.Digest != *d.Digest {
		err = tool.Errorf(tool.Conflict, "request %s has a different digest from the one in the decision: nothing "+
			"was decided; review the request again", shown.ID)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	req, err := h.approvals.Decide(r.Context(), h.callerAsDecider(r), r.PathValue("id"), *d.Approve, d.Note)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, wireApproval(req))
}

func wireApproval(r *approval.Request) api.Approval {
	kind, writes := api.KindCall, []api.PlannedWrite(nil)
	if r.Tool == tool.PlanPath {
		kind = api.KindPlan
		if p, err := plan.Parse(r.Arguments); err == nil { // otherwise it was truncated for a list
			for _, w := range p.Writes {
				writes = append(writes, api.PlannedWrite{Tool: w.Tool, Arguments: w.Arguments, Simulated: w.Simulated})
			}
		}
	}
	var found []api.ProgramFinding
	for _, f := range r.Findings {
		found = append(found, api.ProgramFinding{Rule: f.Rule, Line: f.Line, Message: f.Message})
	}
	return api.Approval{
		Findings: found,
		Kind:     kind, Writes: writes, ID: r.ID, State: string(r.State), Execution: r.Execution, Tool: r.Tool,
		Arguments: r.Arguments, Principal: r.Principal, Person: r.Person,
		Agent: r.Agent, Client: r.Client, Policy: r.Policy, Reason: r.Reason, Labels: r.Labels, Approvers: r.Approvers,
		Digest:  r.Digest,
		Created: r.Created, Expires: r.Expires, DecidedBy: r.Decider, Decided: r.Decided, Note: r.Note,
	}
}
