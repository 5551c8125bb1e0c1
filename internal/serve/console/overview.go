package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/api"
)

const (
	overviewRows = 8  // of each list on the first page
	chartDays    = 14 // of the charts there
	// overviewTime bounds the reading of the first page: upstreams may be connecting.
	overviewTime = 5 * time.Second
)

// A stateCount is a count of the items in a state.
type stateCount struct {
	State string
	Count int
}

type overviewData struct {
	Status                                        *api.Status
	Live                                          []api.ExecutionInfo
	MoreLive                                      bool
	Sessions                                      []stateCount
	Waiting                                       []api.Approval
	MoreWaiting                                   bool
	Upstreams                                     []api.Upstream
	Calls, Saved                                  *chart
	Own                                           bool // the usage is only the visitor's own
	LiveBad, SessionBad, WaitBad, UpBad, UsageBad string
}

// showOverview shows the first page. A part that can't be read says why, and the others are shown.
func showOverview(v *visit) error {
	ctx, cancel := context.WithTimeout(v.r.Context(), overviewTime)
	defer cancel()
	c := v.newClient()
	status, err := c.Status(ctx)
	if err != nil {
		return ownError(err)
	}
	d := &overviewData{Status: status}
	page, err := c.Executions(ctx, api.ExecutionFilter{States: []string{api.StateRunning, api.StateWaiting},
		Limit: overviewRows})
	if d.LiveBad = problemOf(err); err == nil {
		d.Live, d.MoreLive = page.Executions, page.Next != ""
	}
	all, err := c.Sessions().List(ctx)
	d.SessionBad = problemOf(err)
	d.Sessions = countStates(all)
	d.Waiting, err = c.Approvals().List(ctx, api.ApprovalFilter{Limit: overviewRows + 1})
	if d.WaitBad = problemOf(err); len(d.Waiting) > overviewRows {
		d.Waiting, d.MoreWaiting = d.Waiting[:overviewRows], true
	}
	d.Upstreams, err = c.Upstreams(ctx)
	d.UpBad = problemOf(err)
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-chartDays)
	use, err := c.Usage(ctx, api.UsageQuery{From: from, By: []string{"day"}})
	if d.UsageBad = problemOf(err); err == nil {
		d.Own = use.Own
		d.Calls = newChart("Calls", dailyPoints(use, from, func(l *api.UsageLine) int64 { return l.Calls }))
		d.Saved = newChart("Tokens saved", dailyPoints(use, from, func(l *api.UsageLine) int64 { return l.Saved }))
	}
	v.renderPage(http.StatusOK, "overview.html", d)
	return nil
}

// countStates counts sessions by state.
func countStates(all []api.Session) (out []stateCount) {
	count := map[string]int{}
	for i := range all {
		count[all[i].State]++
	}
	for state, n := range count {
		out = append(out, stateCount{state, n})
	}
	slices.SortFunc(out, func(a, b stateCount) int { return cmp.Compare(a.State, b.State) })
	return out
}

// dailyPoints returns one value for each day of the charts.
func dailyPoints(u *api.Usage, from time.Time, value func(*api.UsageLine) int64) []point {
	byDay := map[string]int64{}
	for i := range u.Lines {
		byDay[u.Lines[i].Day] += value(&u.Lines[i])
	}
	var out []point
	for i := range chartDays {
		day := from.AddDate(0, 0, i).Format(time.DateOnly)
		out = append(out, point{day, byDay[day]})
	}
	return out
}
