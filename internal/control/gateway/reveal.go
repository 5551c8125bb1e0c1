package gateway

import (
	"context"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// reveal replaces the tokens in a call's arguments by their values, if policy lets the tool have
// them. Our own tools receive programs as written.
func reveal(ctx context.Context, g *Gateway, req *request) error {
	c := &req.call
	if g.cfg.Privacy == nil || c.Tool.Upstream == tool.Own {
		return nil
	}
	args, r, err := g.cfg.Privacy.Reveal(ctx, scope(c), c.Arguments, func(kinds []string) (bool, string) {
		if d, barred := g.explainBar(c.Principal, c.Tool); barred {
			return false, d.Reason
		}
		p := requestOf(c, c.Tool)
		p.Kinds = kinds
		return g.cfg.Policy.Reveals(p)
	})
	if err != nil {
		return err
	}
	c.Arguments = args
	if r == nil {
		return nil
	}
	tell := func(text string) {
		c.Observe().OnRemark(c.Tool.Path() + " was given " + text)
	}
	var parts []string
	if len(r.Kinds) > 0 {
		parts = append(parts, "personal data was turned back: "+joinNames(r.Kinds))
	}
	if len(r.Kept) > 0 {
		parts = append(parts, fmt.Sprintf("sent as tokens, not turned back: %s (%s)", joinNames(r.Kept), r.Reason))
		tell(fmt.Sprintf("%s as it stands, not what that stands for: %s", joinNames(r.Kept), r.Reason))
	}
	if len(r.Alien) > 0 {
		parts = append(parts, "sent as it stands, since it stands for nothing here: "+joinNames(r.Alien))
		tell(joinNames(r.Alien) + " as it stands: it stands for nothing in this session")
	}
	req.remark = strings.Join(parts, "; ")
	return nil
}

// joinNames joins names, and counts them if there are many.
func joinNames(names []string) string {
	const most = 20
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}
