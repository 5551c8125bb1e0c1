package audit

import "fmt"

// approvers compares the approvers named in calls with the decisions on record.
type approvers struct {
	decided map[string]approvedCall // approvals, by request
	// calls that needed approval and have not ended, by record; by is not set
	asked map[string]approvedCall
}

// An approvedCall is a call that a person approved, or that waited for one.
type approvedCall struct{ tool, execution, by string }

// addLeaf records the approvals in a leaf. It returns a fault if a call names an approver who never
// approved it.
func (a *approvers) addLeaf(seq int64, c *content) (f Fault, ok bool) {
	switch {
	case c.Part == PartEvent && c.Kind == KindApproval && c.Effect == "approved" && c.Outcome != Failed:
		if a.decided == nil {
			a.decided = map[string]approvedCall{}
		}
		a.decided[c.Name] = approvedCall{c.Tool, c.Execution, c.Principal}
	case c.Part == PartBegun && c.Effect == "ask":
		if a.asked == nil {
			a.asked = map[string]approvedCall{}
		}
		a.asked[c.Record] = approvedCall{tool: c.Tool, execution: c.Execution}
	case c.Part == PartEnded:
		call, asked := a.asked[c.Record]
		delete(a.asked, c.Record)
		call.by = c.Detail[approvedByDetail]
		request, says := c.Detail[requestDetail], ""
		switch d, known := a.decided[request]; {
		case call.by == "" && request == "", known && asked && d == call:
			return f, true
		case !known:
			says = "the record contains no such decision"
		case d.by != call.by:
			says = "the record shows that it was decided by " + d.by
		default:
			says = "the record shows a decision on another call"
		}
		return Fault{What: faultApproval, Seq: seq, Last: seq, Record: c.Record, Msg: fmt.Sprintf(
			"leaf %d (record %s) says that %s approved the call with request %q, but %s: the approval was forged", seq,
			c.Record, call.by, request, says)}, false
	}
	return f, true
}
