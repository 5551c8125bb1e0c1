package daemon

import (
	"cmp"
	"slices"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
)

// profilesOf returns the tools of the profiles of a configuration.
func profilesOf(c *config.Config) policy.Profiles {
	out := policy.Profiles{}
	for _, p := range c.Profiles {
		out[p.Name] = p.Tools
	}
	return out
}

// servesDirect reports whether some agents call the tools of upstreams themselves.
func servesDirect(c *config.Config) bool {
	return c.Mode == string(mcpserver.Direct) || slices.ContainsFunc(c.Profiles, func(p config.Profile) bool {
		return c.ModeOf(p) == string(mcpserver.Direct)
	})
}

// instructionsIn returns Biplane's own instructions for a mode. In mode direct there are none, and
// agents get those of the upstreams.
func instructionsIn(mode string) string {
	if mode == string(mcpserver.Direct) {
		return ""
	}
	return instructions
}

// endpointsOf returns the endpoints of the profiles of a configuration.
func endpointsOf(c *config.Config) map[string]mcpserver.Endpoint {
	out := map[string]mcpserver.Endpoint{}
	for _, p := range c.Profiles {
		out[p.Name] = mcpserver.Endpoint{Mode: mcpserver.Mode(c.ModeOf(p)),
			Instructions: cmp.Or(p.Instructions, instructionsIn(c.ModeOf(p))), Unprefixed: p.Unprefixed}
	}
	return out
}
