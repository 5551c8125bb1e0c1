package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/policy"
)

// validate adds the defaults of the tool's schema to the arguments, and checks them. If the
// principal may not see the tool, the call is denied instead: an error in the arguments would
// reveal the schema.
func validate(_ context.Context, g *Gateway, r *request) error {
	r.call.Arguments = r.entry.Fill(r.call.Arguments)
	err := r.entry.Validate(r.call.Arguments)
	if err == nil {
		return nil
	}
	var d policy.Decision
	if d, r.hidden = g.denyHidden(&r.call); !r.hidden {
		return err
	}
	r.setDecision(d)
	return nil
}
