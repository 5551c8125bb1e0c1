package console

import (
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of a comparison with an earlier request.
const (
	comparedRequests = 200 // of all principals, the newest
	comparedLines    = 400 // of the arguments of each
)

// A comparison shows how the arguments of a request differ from those of an earlier one.
type comparison struct {
	ID, State, Decider string
	Same               bool
	Lines              []diffLine
}

// compareRequests adds a comparison to each pending request, with the newest decided request of
// the same tool that the visitor may see.
func compareRequests(v *visit, all []shown) error {
	earlier, err := v.server.cfg.Approvals.List(v.r.Context(), approval.Query{Limit: comparedRequests})
	if err != nil {
		return err
	}
	var texts []string // of the arguments of earlier; empty: can't be compared
	for k := range earlier {
		text, cut := indentArguments(earlier[k].Arguments)
		if cut || earlier[k].State == approval.Pending || !isComparable(text) || !MaySee(v.who, &earlier[k]) {
			text = ""
		}
		texts = append(texts, text)
	}
	for i := range all {
		c := &all[i]
		if c.Cut || !c.IsPending() || !isComparable(c.Text) {
			continue
		}
		for k := range earlier {
			e, text := &earlier[k], texts[k]
			if e.Tool == c.Tool && text != "" {
				c.Earlier = &comparison{ID: e.ID, State: string(e.State), Decider: e.Decider, Same: text == c.Text,
					Lines: compareLines(text, c.Text)}
				break
			}
		}
	}
	return nil
}

// isComparable reports whether a text has few enough lines to be compared with another.
func isComparable(text string) bool { return strings.Count(text, "\n") < comparedLines }

// compareLines returns the lines of both texts, which are comparable, and marks the lines that only
// one has.
func compareLines(before, after string) []diffLine {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	// common[i][k] is the length of the longest common part of a[i:] and b[k:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if common[i][k] = max(common[i+1][k], common[i][k+1]); a[i] == b[k] {
				common[i][k] = common[i+1][k+1] + 1
			}
		}
	}
	var out []diffLine
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case i < len(a) && k < len(b) && a[i] == b[k]:
			out = append(out, diffLine{"", "  " + a[i]})
			i, k = i+1, k+1
		case k == len(b) || i < len(a) && common[i+1][k] >= common[i][k+1]:
			out = append(out, diffLine{"removed", "- " + a[i]})
			i++
		default:
			out = append(out, diffLine{"added", "+ " + b[k]})
			k++
		}
	}
	return out
}

// A waitingCall is a pending request in a notice of the browser.
type waitingCall struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
}

// maxNotices is how many pending requests a browser learns of at once.
const maxNotices = 50

// listWaiting answers with the pending requests that the visitor may see, for notices. It has
// neither their arguments nor their programs.
func listWaiting(v *visit) error {
	all, err := v.server.cfg.Approvals.List(v.r.Context(),
		approval.Query{States: []approval.State{approval.Pending}, Limit: comparedRequests})
	if err != nil {
		return err
	}
	out := []waitingCall{}
	for i := range all {
		if r := &all[i]; MaySee(v.who, r) && len(out) < maxNotices {
			out = append(out, waitingCall{r.ID, tool.VisibleLine(r.Tool)})
		}
	}
	text, err := tool.Marshal(out)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(http.StatusOK)
	_, _ = v.w.Write(text) // ignore errors of browsers that disconnected
	return nil
}
