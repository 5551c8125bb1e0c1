package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A review holds the errors in the configuration and the policies that show only once the upstreams
// have listed their tools. These are unknown tools, upstreams, arguments, groups and users.
type review struct {
	again chan struct{} // has one token after a change in what it depends on

	mu    sync.Mutex
	state string   // the input that lines was computed from
	lines []string // replaced, never modified
}

func newReview() *review { return &review{again: make(chan struct{}, 1)} }

// signalChange signals that tools, policies or keys may have changed.
func (r *review) signalChange() {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// reviewNames logs the warnings once the upstreams have listed their tools, and again when another
// upstream has or the policies change. A process that ends before checkDelay logs them when it
// ends.
func (d *Daemon) reviewNames(ctx context.Context) {
	select {
	case <-d.upstreams.settled:
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(checkDelay):
	case <-ctx.Done():
	}
	for {
		d.listWarnings()
		select {
		case <-d.reload.reviewed.again:
		case <-ctx.Done():
			return
		}
	}
}

// listWarnings returns the current errors; none before the upstreams are past their first
// connection. It logs new ones. A server's new list is checked only if it is the upstream's first.
// Otherwise the last result is valid until policies or API keys change.
func (d *Daemon) listWarnings() []string {
	select {
	case <-d.upstreams.settled:
	default:
		return nil
	}
	r, listed := d.reload.reviewed, d.upstreams.listTools()
	r.mu.Lock()
	defer r.mu.Unlock()
	state := d.policies.engine.Load().Version() + " " + d.reload.settings.Load().Sum + " " +
		strings.Join(slices.Sorted(maps.Keys(listed)), " ")
	for _, k := range d.keys.List() {
		if k.Revoked.IsZero() {
			state += fmt.Sprintf(" %s %q %q", k.Name, k.Groups, k.Roles)
		}
	}
	if state == r.state {
		return r.lines
	}
	lines := d.reviewOf(listed)
	for _, line := range lines {
		if !slices.Contains(r.lines, line) {
			d.log.Warn(line)
		}
	}
	r.state, r.lines = state, lines
	return lines
}

// reviewOf returns the current errors, given the tools of the upstreams that have listed theirs.
func (d *Daemon) reviewOf(listed map[string][]*tool.Tool) []string {
	s := d.reload.settings.Load()
	lines := s.UnmatchedNames(listed)
	report, err := d.newPolicyDesk(nil).Check(context.Background(), nil)
	if err != nil {
		return append(lines, "policies: "+tool.AsError(err).Msg)
	}
	for _, p := range append(report.Problems, report.Warnings...) {
		lines = append(lines, "policy "+policyLine(p))
	}
	return lines
}

func policyLine(p api.PolicyProblem) string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// listTools returns all tools of the upstreams that have listed theirs, including tools that the
// configuration leaves out.
func (u *upstreams) listTools() map[string][]*tool.Tool {
	out := map[string][]*tool.Tool{}
	for _, s := range u.listSources() {
		if snap := s.up.Snapshot(); snap.Health.State == tool.Ready || len(snap.Tools) > 0 {
			out[s.up.Name()] = snap.Tools
		}
	}
	return out
}
