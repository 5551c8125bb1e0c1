package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Limits of a page, in bytes as displayed. A request that isn't shown completely can't be approved
// here.
const (
	maxShown    = 256 << 10 // of one call's arguments
	maxProgram  = 2 << 20
	maxPage     = 2 << 20 // of all arguments of an execution
	maxTogether = 200     // calls of an execution
)

// MaySee reports whether p may see a request. Approvers, auditors and administrators see all
// requests; others see their own.
func MaySee(p tool.Principal, r *approval.Request) bool {
	return p.ID == r.Principal || identity.HasRole(p, identity.Approver, identity.Auditor, identity.Admin)
}

func asDecider(p tool.Principal) approval.Decider {
	return approval.Decider{Principal: p, Any: identity.HasRole(p, identity.Admin), Via: "page"}
}

// A row is a request in a list.
type row struct {
	approval.Request
	Short string // of the arguments
}

// maxRequests is the maximum number of requests on the page.
const maxRequests = 1000

type listData struct {
	Rows []row
	All  bool
}

// showList shows pending requests. With all, it also shows decided ones. With execution, it shows
// the requests of one execution on one page.
func showList(v *visit) error {
	q := v.r.URL.Query()
	if id := q.Get("execution"); id != "" {
		return showExecution(v, id)
	}
	query := approval.Query{Limit: maxRequests}
	d := listData{All: q.Get("all") == "true"}
	if !d.All {
		query.States = []approval.State{approval.Pending}
	}
	for {
		some, err := v.server.cfg.Approvals.List(v.r.Context(), query)
		if err != nil {
			return err
		}
		for _, r := range some {
			if MaySee(v.who, &r) {
				d.Rows = append(d.Rows, row{r, shortArguments(r.Arguments)})
			}
		}
		if d.All || len(some) == 0 {
			break
		}
		query.Before = some[len(some)-1].ID
	}
	if !d.All { // a principal's many requests don't hide the requests of others
		d.Rows = queue.Interleave(d.Rows, func(r *row) string { return r.Principal })
	}
	d.Rows = d.Rows[:min(len(d.Rows), maxRequests)]
	v.renderPage(http.StatusOK, "list.html", d)
	return nil
}

// shortArguments returns the beginning of arguments, for a list.
func shortArguments(args json.RawMessage) string {
	if len(args) == 0 {
		return "(large)"
	}
	const most = 100
	text := []rune(tool.VisibleLine(string(args[:min(len(args), 4*most)])))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// A shown is a request as displayed to the person who decides.
type shown struct {
	approval.Request
	Text  string // the arguments, indented
	Bytes int    // of the arguments, as they are sent
	Cut   bool   // Text is truncated
	Why   string // why the viewer may not decide on it; empty: they may
	Opens bool   // the viewer may open its execution
	// Writes are the calls of a plan. Text is the list of them as it is approved.
	Writes []write
	// Earlier compares the arguments with those of an earlier request; nil: there is none.
	Earlier *comparison
}

// A write is one call of a plan.
type write struct {
	Tool, Text string
	Simulated  bool // its arguments depend on a simulated result: it will be refused
}

// IsPending reports whether the request is pending.
func (s shown) IsPending() bool { return s.State == approval.Pending }

type detailData struct {
	Execution  string // if set, the page shows all its pending requests; otherwise a single request
	Requests   []shown
	More       int // number of requests left out
	Program    string
	ProgramCut bool
	Lines      []*codeLine // of the program
	LinesCut   bool
	Decides    bool // a request can be decided on
	Approves   bool // a request can be approved
}

// showRequest shows a request; with raw, the bytes of its arguments.
func showRequest(v *visit) error {
	r, err := visibleRequest(v, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	if v.r.URL.Query().Get("raw") == "true" {
		v.w.Header().Set("Content-Type", "application/octet-stream")
		v.w.Header().Set("Content-Disposition", `attachment; filename="`+r.ID+`.json"`)
		_, _ = v.w.Write(r.Arguments)
		return nil
	}
	d := detailData{Requests: []shown{displayForm(v, r)}}
	showDetail(v, &d)
	return nil
}

// visibleRequest returns a request, if the viewer may see it.
func visibleRequest(v *visit, id string) (*approval.Request, error) {
	r, err := v.server.cfg.Approvals.Get(v.r.Context(), id)
	if err != nil || !MaySee(v.who, r) {
		if err == nil || tool.AsError(err).Kind == tool.NotFound {
			return nil, tool.Errorf(tool.NotFound, "no request %q: biplane approvals list shows the pending ones",
				tool.VisibleLine(id))
		}
		return nil, err
	}
	return r, nil
}

// showExecution shows all pending requests of an execution.
func showExecution(v *visit, execution string) error {
	all, err := v.server.cfg.Approvals.List(v.r.Context(),
		approval.Query{States: []approval.State{approval.Pending}, Execution: execution, Limit: 1000})
	if err != nil {
		return err
	}
	d := detailData{Execution: execution}
	size := 0
	for i := len(all) - 1; i >= 0; i-- { // oldest first
		r, err := v.server.cfg.Approvals.Get(v.r.Context(), all[i].ID) // a list omits large arguments
		if err != nil {
			return err
		}
		if !MaySee(v.who, r) {
			continue
		}
		c := displayForm(v, r)
		if len(d.Requests) == maxTogether || size+len(c.Text) > maxPage {
			d.More++
			continue
		}
		size += len(c.Text)
		d.Requests = append(d.Requests, c)
	}
	if len(d.Requests) == 0 {
		return tool.Errorf(tool.NotFound, "no call of execution %q waits for approval", tool.VisibleLine(execution))
	}
	showDetail(v, &d)
	return nil
}

// showDetail writes the page for requests of one program.
func showDetail(v *visit, d *detailData) {
	if r := &d.Requests[0].Request; r.Execution != "" {
		d.Program, d.ProgramCut = truncateText(tool.Visible([]byte(v.server.cfg.Program(v.r.Context(), r))), maxProgram)
	}
	if d.Lines, d.LinesCut = colourProgram(d.Program, languageOf(v, &d.Requests[0].Request)); d.LinesCut {
		d.Lines = nil // the plain text is complete
	}
	markFindings(d)
	if err := compareRequests(v, d.Requests); err != nil {
		v.server.cfg.Log.Warn("requests not compared", "err", err)
	}
	for i := range d.Requests {
		c := &d.Requests[i]
		if !c.IsPending() || c.Why != "" {
			continue
		}
		d.Decides = true
		d.Approves = d.Approves || !c.Cut
	}
	v.renderPage(http.StatusOK, "detail.html", d)
}

// languageOf returns the language of a request's program, for its colours.
func languageOf(v *visit, r *approval.Request) string {
	if r.Execution == "" || v.access.API == nil {
		return ""
	}
	x, err := v.newClient().Journal(v.r.Context(), r.Execution)
	if err != nil { // an approver may not read the journal
		return ""
	}
	return x.Language
}

// markFindings marks the lines of likely faults.
func markFindings(d *detailData) {
	for i := range d.Requests {
		for _, f := range d.Requests[i].Findings {
			if f.Line > 0 && f.Line <= len(d.Lines) {
				d.Lines[f.Line-1].Failed = true
			}
		}
	}
}

// displayForm converts a request to its displayed form.
func displayForm(v *visit, r *approval.Request) shown {
	c := shown{Request: *r, Bytes: len(r.Arguments),
		Opens: r.Principal == v.who.ID || identity.HasRole(v.who, identity.Auditor)}
	c.Text, c.Cut = indentArguments(r.Arguments)
	if r.Tool == tool.PlanPath && !c.Cut {
		if p, err := plan.Parse(r.Arguments); err == nil {
			for _, w := range p.Writes {
				args, _ := indentArguments(w.Arguments)
				c.Writes = append(c.Writes, write{w.Tool, args, w.Simulated})
			}
		}
	}
	switch err := v.server.cfg.Approvals.May(asDecider(v.who), r); {
	case !v.access.SignIn:
		c.Why = "Sign-in is not configured here: decide on the command line, with biplane approvals approve " + r.ID
	case !identity.HasRole(v.who, identity.Approver):
		c.Why = "Deciding takes the role approver."
	case err != nil:
		c.Why = tool.AsError(err).Msg
	}
	return c
}

// indentArguments indents arguments. Numbers, order and repeated keys are preserved.
func indentArguments(args json.RawMessage) (_ string, short bool) {
	var b bytes.Buffer
	if err := json.Indent(&b, args, "", "  "); err != nil {
		b.Reset()
		b.Write(args)
	}
	return truncateText(tool.Visible(b.Bytes()), maxShown)
}

// truncateText truncates s to most bytes, and reports whether it was too long.
func truncateText(s string, most int) (_ string, short bool) {
	if len(s) <= most {
		return s, false
	}
	return strings.ToValidUTF8(s[:most], ""), true
}

// handleDecision handles a decision on requests that a page has shown. Each request comes with the
// digest that was shown.
func handleDecision(v *visit) error {
	f := v.r.PostForm
	verb := f.Get("decision")
	if verb != "approve" && verb != "deny" {
		return tool.Errorf(tool.Invalid, "the form contains neither approve nor deny: nothing was decided")
	}
	if len(f["request"]) == 0 {
		return tool.Errorf(tool.Invalid, "no call was selected: nothing was decided")
	}
	if len(f["request"]) > maxTogether {
		return tool.Errorf(tool.Limit, "at most %d calls can be decided at once: nothing was decided", maxTogether)
	}
	var ids []string
	for _, named := range f["request"] { // check everything before anything is decided
		id, digest, _ := strings.Cut(named, " ")
		r, err := visibleRequest(v, id)
		switch {
		case err != nil:
			return err
		case r.Digest != digest:
			return tool.Errorf(tool.Conflict,
				"request %s has changed since the page was loaded: nothing was decided; review it again", r.ID)
		}
		if _, short := indentArguments(r.Arguments); short && verb == "approve" {
			return tool.Errorf(tool.Invalid, "request %s was not shown in full: nothing was decided; approve it on "+
				"the command line (biplane approvals show %s)", r.ID, r.ID)
		}
		ids = append(ids, id)
	}
	var problems []string
	for _, id := range ids {
		if _, err := v.server.cfg.Approvals.Decide(v.r.Context(), asDecider(v.who), id, verb == "approve",
			f.Get("note")); err != nil {
			problems = append(problems, tool.AsError(err).Msg)
		}
	}
	if len(problems) > 0 {
		return tool.Errorf(tool.Conflict, "%s of %s: %s", strconv.Itoa(len(ids)-len(problems)),
			countCalls(len(ids)), strings.Join(problems, "; "))
	}
	to := "/approvals"
	if len(ids) == 1 {
		to += "/" + url.PathEscape(ids[0])
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

func countCalls(n int) string {
	if n == 1 {
		return "1 call was decided"
	}
	return fmt.Sprintf("%d calls were decided", n)
}
