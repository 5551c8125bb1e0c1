package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// resourcePath is the path of the metadata of a protected resource. The path for /mcp is
// below it (RFC 9728, section 3.1).
const resourcePath = "/.well-known/oauth-protected-resource"

// serveMCP passes a request to the MCP handler.
func (s *Server) serveMCP(w http.ResponseWriter, r *http.Request) {
	if s.cfg.MCP == nil {
		writeError(w, tool.Errorf(tool.NotFound, "MCP is not available at this address"))
		return
	}
	// A stream to the client may stay open, but no longer than its credential is valid.
	if p := principalOf(r); r.Method == http.MethodGet && !p.Until.IsZero() {
		ctx, cancel := context.WithDeadline(r.Context(), p.Until)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if name := r.PathValue("profile"); name != "" {
		p := principalOf(r)
		p.Profile = name
		r = r.WithContext(identity.WithPrincipal(r.Context(), p))
	}
	s.cfg.MCP.ServeHTTP(w, r)
}

// mcpPath is the path of MCP. The paths below it are those of profiles.
const mcpPath = "/mcp"

// IsMCP reports whether a path is one of MCP.
func IsMCP(path string) bool { return path == mcpPath || strings.HasPrefix(path, mcpPath+"/") }

// serveResource serves the protected resource metadata, which names the authorization servers.
func (s *Server) serveResource(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Resource == nil {
		writeError(w, tool.Errorf(tool.NotFound, "OAuth is not configured"))
		return
	}
	s.cfg.Resource.ServeHTTP(w, r)
}

// refuseRequest answers a request that is unauthenticated or not authorized (RFC 6750, section 3).
func refuseRequest(w http.ResponseWriter, err error) {
	var no *identity.Refusal
	if !errors.As(err, &no) {
		writeError(w, err)
		return
	}
	if no.Challenge != "" {
		w.Header().Set("WWW-Authenticate", no.Challenge)
	}
	writeProblem(w, no.Status, tool.AsError(err))
}
