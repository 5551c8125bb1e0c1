package httpapi

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Usage reports the usage of principals; implemented by *usage.Meter.
type Usage interface {
	Report(ctx context.Context, q usage.Query) (*usage.Report, error)
}

// usageRoutes serves the usage.
type usageRoutes struct{ usage Usage }

// showUsage answers with the usage of all principals to auditors and admins, and with their own to
// others.
func (h *usageRoutes) showUsage(w http.ResponseWriter, r *http.Request) {
	q, err := usageQuery(r.URL.Query(), time.Now())
	if err != nil {
		writeError(w, err)
		return
	}
	p := principalOf(r)
	if !identity.HasRole(p, identity.Auditor, identity.Admin) {
		q.Principal = p.ID
	}
	rep, err := h.usage.Report(r.Context(), q)
	if err != nil {
		writeError(w, err)
		return
	}
	out := &api.Usage{From: rep.From, To: rep.To, By: rep.By, Own: q.Principal != "", Lines: []api.UsageLine{}}
	if rep.Prices != nil {
		out.Currency = rep.Prices.Currency
	}
	for i := range rep.Lines {
		out.Lines = append(out.Lines, wireUsage(rep, &rep.Lines[i]))
	}
	out.Total = wireUsage(rep, &rep.Total)
	writeJSON(w, http.StatusOK, out)
}

// usageQuery parses a query for usage.
func usageQuery(v url.Values, now time.Time) (q usage.Query, err error) {
	for key := range v {
		if !slices.Contains([]string{"from", "to", "by"}, key) {
			return q, tool.Errorf(tool.Invalid, "unknown parameter %q: usage takes from, to and by", text.Cut(key, 80))
		}
	}
	q = usage.Query{From: now.AddDate(0, 0, -30), To: now}
	for name, to := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		if value := v.Get(name); value != "" {
			if *to, err = time.Parse(time.RFC3339, value); err != nil {
				return q, tool.Errorf(tool.Invalid, "%s %q must be a time such as 2026-10-01T00:00:00Z", name,
					text.Cut(value, 80))
			}
		}
	}
	q.From = q.From.UTC().Truncate(time.Hour)
	q.To = q.To.UTC()
	if value := v.Get("by"); value != "" {
		q.By = strings.Split(value, ",")
	}
	return q, q.Check()
}

func wireUsage(rep *usage.Report, l *usage.Line) api.UsageLine {
	c := l.Counts
	out := api.UsageLine{
		Calls: c.Calls, Failed: c.Failed, Denied: c.Denied, MS: c.MS, Sent: c.Sent, Received: c.Received,
		Executions: c.Executions, CPUMS: c.CPU / 1000,
		Read: c.Read, Written: c.Written, KeptOut: c.Kept, Unwritten: c.Unwritten, Estimated: c.Estimated,
		Saved: l.Saved,
	}
	for i, v := range l.Of {
		if f := out.Field(rep.By[i]); f != nil {
			*f = v
		}
	}
	if rep.Prices != nil {
		cost, saved := roundMoney(l.Cost), roundMoney(l.SavedMoney)
		out.Cost, out.SavedCost = &cost, &saved
	}
	return out
}

// roundMoney rounds to a millionth.
func roundMoney(v float64) float64 { return math.Round(v*1e6) / 1e6 }
