package mcpserver

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Endpoint says how the server presents itself to the clients of a profile.
type Endpoint struct {
	Mode         Mode   // default Code
	Instructions string // describe the server to an agent when it connects; unused in mode Direct
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
func (s *Server) newEndpoint(e Endpoint) *endpoint {
	if e.Mode == "" {
		e.Mode = Code
	}
	if e.Mode == Direct {
		e.Instructions = ""
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

// endpointOf returns the endpoint of a principal's profile, or nil if there is no such profile.
func (s *Server) endpointOf(p tool.Principal) *endpoint { return s.endpoints[p.Profile] }

// modeOf returns the mode in which a principal sees the tools. The principal's profile exists.
func (s *Server) modeOf(p tool.Principal) Mode { return s.endpointOf(p).Mode }

// servers returns the SDK's servers of all endpoints in one of some modes.
func (s *Server) servers(modes ...Mode) (all []*mcp.Server) {
	for _, e := range s.endpoints {
		for _, m := range modes {
			if e.Mode == m {
				all = append(all, e.sessions, e.stateless)
			}
		}
	}
	return all
}
