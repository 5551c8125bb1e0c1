// Package gateway is the single entry point for tools. Every use of a tool goes through
// Gateway.Call, whether from outside or from a program, and whether the tool belongs to an upstream
// or to Biplane. So resolving, validating, deciding, asking and recording are implemented once.
package gateway

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Gateway. All fields but Credentials, InForce, Log, Limits, Privacy,
// Shapes and Turns are required.
type Config struct {
	Catalog  *catalog.Catalog
	Policy   *policy.Engine
	Approval *approval.Gate
	Audit    *audit.Log
	// Credentials may bar a principal from a tool, whatever policy says; nil: no one is barred.
	Credentials Credentials
	Profiles    policy.Profiles // nil: there are none
	// InForce are the policies now in force, which may be newer than Policy; nil: Policy.
	InForce interface{ CurrentVersion() string }
	Log     *slog.Logger   // nil: slog.Default()
	Limits  *limit.Limiter // nil: none
	// Privacy hides personal data from models; nil: it is not hidden.
	Privacy *privacy.Guard
	// Shapes learns the types of results; nil: they are not learned.
	Shapes ResultLearner
	// Turns are those of large work, which Gateways that follow each other share; nil: its own.
	Turns *queue.Fair
}

// Credentials are the credentials of principals.
type Credentials interface {
	// ExplainDenial returns why a principal's credential may not use a tool, or "" if it may.
	ExplainDenial(tool.Principal, *tool.Tool) string
}

// A Gateway is a tool.Caller that dispatches to all others. It is immutable: a new configuration
// needs a new Gateway.
type Gateway struct {
	cfg      Config
	fleeting bool // the tools that a principal may see can change without a new catalog
	seen     sights
	all      handler // passes a call through all stages
	recorded handler // passes it through the stages from "record" on
}

// New returns a Gateway. It returns an error if a required part is missing.
func New(cfg Config) (*Gateway, error) {
	switch {
	case cfg.Catalog == nil:
		return nil, fmt.Errorf("gateway: no catalog")
	case cfg.Policy == nil:
		return nil, fmt.Errorf("gateway: no policy")
	case cfg.Approval == nil:
		return nil, fmt.Errorf("gateway: no approval gate")
	case cfg.Audit == nil:
		return nil, fmt.Errorf("gateway: no audit log")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Turns == nil {
		cfg.Turns = queue.NewWork()
	}
	g := &Gateway{cfg: cfg, fleeting: cfg.Credentials != nil || cfg.Policy.Timed()}
	g.all, g.recorded = g.chain(stages), g.chain(stagesFrom("record"))
	return g, nil
}

// Call passes the call through the stages. It does not modify c; the call that is passed on is a
// copy with ID, Tool, Arguments and Grant set.
//
// Errors are *tool.Error: NotFound (with the nearest names), Invalid (with the errors in the
// arguments), Denied, Internal if the audit log can't be written (the call is then not made), and
// the errors of the upstream.
func (g *Gateway) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return g.all(ctx, &request{call: *c})
}
