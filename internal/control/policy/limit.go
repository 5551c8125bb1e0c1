package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// limitText matches one limit of @limit: "calls: 10 per 1m for each tool".
var limitText = lazily.Regexp(`^([a-z]+) *: *([0-9]+)(?: +per +([0-9a-z.]+))?(?: +for +(?:(all)|each +([a-z]+)))?$`)

// The bounds of a limit and of its window.
const (
	maxLimit  = 1 << 50
	maxWindow = 400 * 24 * time.Hour
	minWindow = time.Second
)

// limitsOf parses the value of @limit. A limit on something that the policy doesn't permit is an
// error.
func (r *rule) limitsOf(value string) ([]tool.Bound, error) {
	var out []tool.Bound
	for _, text := range splitNames(value) {
		b, err := boundOf(text)
		if err != nil {
			return nil, err
		}
		held := r.includesAction(executeAction)
		if ofCalls(b) {
			held = r.includesAction(callAction) || r.includesAction(connectAction)
		}
		if !held {
			return nil, tool.Errorf(tool.Invalid, "%q has no effect on what this permits: calls, egress and ingress "+
				"limit the actions call and connect; executions, concurrent, cpu and tokens limit "+
				"execute", clipText(text))
		}
		out = append(out, b)
	}
	if len(out) == 0 {
		return nil, tool.Errorf(tool.Invalid,
			`it is empty: write how much may be used, such as @limit("calls: 10 per 1m, egress: 100000 per 1d")`)
	}
	slices.SortFunc(out, compareBounds)
	return slices.Compact(out), nil
}

// ofCalls reports whether b limits calls of tools and connections, rather than programs.
func ofCalls(b tool.Bound) bool {
	return slices.Contains([]limit.Quantity{limit.Calls, limit.Egress, limit.Ingress}, limit.Quantity(b.What))
}

// boundOf parses one limit.
func boundOf(text string) (tool.Bound, error) {
	m := limitText.Get().FindStringSubmatch(text)
	if m == nil {
		return tool.Bound{}, tool.Errorf(tool.Invalid, `invalid limit %q: write one like "calls: 10 per 1m", `+
			`"concurrent: 2" or "calls: 100 per 1h for each tool"`, clipText(text))
	}
	b := tool.Bound{What: m[1], Per: cmp.Or(m[4], m[5], string(limit.PerPrincipal))}
	if !slices.Contains(limit.AllQuantities(), limit.Quantity(b.What)) {
		return b, tool.Errorf(tool.Invalid, "%q can't be limited: use one of %v%s", b.What, limit.AllQuantities(),
			suggestName(b.What, textsOf(limit.AllQuantities())))
	}
	if b.Per == string(limit.PerGroup) || m[5] == string(limit.PerAll) {
		return b, tool.Errorf(tool.Invalid, "%q: a policy's limit is for each principal, upstream, tool or host, or "+
			"for all; the policy itself says to whom it applies", clipText(text))
	}
	n, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil || n > maxLimit {
		return b, tool.Errorf(tool.Invalid, "%q: the maximum is %d", clipText(text), int64(maxLimit))
	}
	b.Max = float64(n)
	if m[3] != "" {
		if b.Window, err = windowOf(m[3]); err != nil {
			return b, err
		}
	}
	rule := limit.Rule{What: limit.Quantity(b.What), Max: b.Max, Window: b.Window, Per: limit.Scope(b.Per)}
	if err := rule.Check(); err != nil {
		return b, tool.Errorf(tool.Invalid, "%q: %s", clipText(text), tool.AsError(err).Msg)
	}
	return b, nil
}

// windowOf parses durations like 90s, 1m, 1h30m and 7d.
func windowOf(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days int
		if days, err = strconv.Atoi(n); err == nil {
			d = time.Duration(min(days, 10_000)) * 24 * time.Hour
		}
	}
	if err != nil || d < minWindow || d > maxWindow {
		return 0, tool.Errorf(tool.Invalid, "invalid window %q: write a time like 10s, 1m, 1h or 7d, at most 400d",
			clipText(s))
	}
	return d, nil
}

// boundsOf returns the limits of all permits, for programs or for calls. Each is enforced, so the
// strictest one decides.
func boundsOf(permits []*rule, programs bool) []tool.Bound {
	var out []tool.Bound
	for _, p := range permits {
		for _, b := range p.bounds.limits {
			if ofCalls(b) != programs {
				b.Policy = p.id
				out = append(out, b)
			}
		}
	}
	slices.SortFunc(out, compareBounds)
	return out
}

func compareBounds(a, b tool.Bound) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.What, b.What), cmp.Compare(a.Window, b.Window),
		cmp.Compare(a.Per, b.Per), cmp.Compare(a.Max, b.Max))
}

// Limits returns the limits in the syntax of @limit, each with its policy's id: "calls: 10 per 1m
// (crm)".
func (d Decision) Limits() []string {
	var out []string
	for _, b := range d.Grant.Bounds {
		s := fmt.Sprintf("%s: %.0f", b.What, b.Max)
		if b.Window > 0 {
			s += " per " + windowText(b.Window)
		}
		switch limit.Scope(b.Per) {
		case limit.PerPrincipal:
		case limit.PerAll:
			s += " for all"
		default:
			s += " for each " + b.Per
		}
		out = append(out, s+" ("+b.Policy+")")
	}
	return out
}

// windowText formats a window in the syntax of windowOf.
func windowText(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	s := d.String() // 1h0m0s
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func textsOf[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = string(w)
	}
	return out
}
