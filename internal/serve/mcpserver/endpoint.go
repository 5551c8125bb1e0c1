package mcpserver

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Endpoint says how the server presents itself to the clients of a profile.
type Endpoint struct {
	Mode         Mode   // default Code
	Instructions string // describe the server to an agent; in mode Direct, "" means those of the upstreams
	Unprefixed   bool   // in mode Direct, list tools under their own names if these are unique
}

// An endpoint holds the SDK's servers for the clients of one profile. All endpoints share the
// Server's limits.
type endpoint struct {
	Endpoint
	sessions  *mcp.Server // for stdio, and for HTTP up to 2025-11-25
	stateless *mcp.Server // for HTTP of 2026-07-28

	overSessions, overStateless http.Handler
}

// newEndpoint returns an endpoint. The Server's own handler checks hosts, origins, sizes and
// sessions, so the SDK's limits are turned off.
func newEndpoint(s *Server, e Endpoint) *endpoint {
	if e.Mode == "" {
		e.Mode = Code
	}
	out := &endpoint{Endpoint: e, sessions: s.newSDK(e), stateless: s.newSDK(e)}
	out.overSessions = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return out.sessions },
		&mcp.StreamableHTTPOptions{
			Logger: sdkLog(s.log), MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
		})
	out.overStateless = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return out.stateless },
		&mcp.StreamableHTTPOptions{
			Logger: sdkLog(s.log), MaxRequestBodyBytes: -1, DisableLocalhostProtection: true,
			Stateless: true, PropagateRequestCancellation: true,
		})
	return out
}

// endpoints has the endpoints by profile; "" is the one without a profile.
type endpoints map[string]*endpoint

// endpointOf returns the endpoint of a principal's profile, or nil if there is no such profile.
func (all endpoints) endpointOf(p tool.Principal) *endpoint { return all[p.Profile] }

// modeOf returns the mode in which a principal sees the tools. The principal's profile exists.
func (all endpoints) modeOf(p tool.Principal) Mode { return all.endpointOf(p).Mode }

// listServers returns the SDK's servers of all endpoints in one of some modes.
func (all endpoints) listServers(modes ...Mode) (found []*mcp.Server) {
	for _, e := range all {
		for _, m := range modes {
			if e.Mode == m {
				found = append(found, e.sessions, e.stateless)
			}
		}
	}
	return found
}
