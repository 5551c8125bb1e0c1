package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/program/check"
	"github.com/biplane-dev/biplane/internal/tool"
)

// WaitReadyFor waits like WaitReady. It also lists the tools of upstreams that no one has used yet
// with the credentials of a principal, if those are needed.
func (u *upstreams) WaitReadyFor(ctx context.Context, p tool.Principal) {
	u.WaitReady(ctx)
	u.preparePersonal(ctx, p)
}

// preparePersonal lists the tools of upstreams with credentials: person that have listed none yet.
func (u *upstreams) preparePersonal(ctx context.Context, p tool.Principal) {
	ctx, cancel := context.WithTimeout(ctx, max(u.wait, preparePause))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range u.listSources() {
		if up, ok := s.up.(*personalUpstream); ok {
			wg.Go(func() { up.PrepareFor(ctx, p.ID) })
		}
	}
}

// addResources adds the resources of a principal to the offers of upstreams with credentials:
// person.
func (u *upstreams) addResources(ctx context.Context, all []*tool.Offers, p tool.Principal) {
	ctx, cancel := context.WithTimeout(ctx, max(u.wait, preparePause))
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, o := range all {
		s := u.source(o.Upstream)
		if s == nil || !slices.ContainsFunc(o.Tools, func(t *tool.Tool) bool { return t.Method == tool.ReadResource }) {
			continue
		}
		if up, ok := s.up.(*personalUpstream); ok {
			wg.Go(func() { o.Resources = up.ListResources(ctx, p.ID) })
		}
	}
}

// isListed reports whether the tools of all upstreams with credentials: person are known.
func (u *upstreams) isListed() bool {
	for _, s := range u.listSources() {
		if up, ok := s.up.(*personalUpstream); ok && !up.isListed() {
			return false
		}
	}
	return true
}

// prepareOne is like preparePersonal, for one upstream.
func (u *upstreams) prepareOne(ctx context.Context, name, owner string) {
	if s := u.source(name); s != nil {
		if up, ok := s.up.(*personalUpstream); ok {
			ctx, cancel := context.WithTimeout(ctx, max(u.wait, preparePause))
			defer cancel()
			up.PrepareFor(ctx, owner)
		}
	}
}

// waitForProgram waits like WaitReady, but only for the upstreams that a program may use.
func (u *upstreams) waitForProgram(ctx context.Context, arguments json.RawMessage) {
	select {
	case <-u.settled:
		return
	default:
	}
	var a struct {
		Code    string `json:"code"`
		Session string `json:"session"` // its earlier definitions are not in the text
	}
	if json.Unmarshal(arguments, &a) != nil || a.Session != "" {
		u.WaitReady(ctx)
		return
	}
	mayUse := check.MayUseUpstream(a.Code)
	if mayUse == nil {
		u.WaitReady(ctx)
		return
	}
	for _, info := range u.catalog.View().Upstreams() {
		if mayUse(info.Name, info.Namespace) && !u.awaitAttempt(ctx, info.Name) {
			return
		}
	}
}

// waiting returns a Caller that waits for all upstreams before it calls next.
func (u *upstreams) waiting(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.WaitReadyFor(ctx, c.Principal)
		return next.Call(ctx, c)
	})
}

// waitingFor is like waiting, for execute: it waits only for the upstreams that the program may
// use.
func (u *upstreams) waitingFor(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		u.waitForProgram(ctx, c.Arguments)
		u.preparePersonal(ctx, c.Principal)
		return next.Call(ctx, c)
	})
}

// waitForTool waits like WaitReadyFor, but only for the upstream of the tool that a program calls.
// A program resumed after a restart starts before the upstreams do, and before anyone has listed
// the tools of upstreams with credentials: person.
func (u *upstreams) waitForTool(ctx context.Context, c *tool.Call) {
	settled := u.isSettled()
	if settled && u.isListed() {
		return
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "tools."), ".")
	for _, info := range u.catalog.View().Upstreams() {
		if info.Name == first || info.Namespace == first {
			if !settled {
				u.awaitAttempt(ctx, info.Name)
			}
			u.prepareOne(ctx, info.Name, c.Principal.ID)
			return
		}
	}
	if !settled {
		u.WaitReady(ctx) // no known upstream has that name yet
	}
}
