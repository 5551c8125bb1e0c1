package httpapi

import (
	"fmt"
	"io"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// healthz reports that the process serves requests.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") }

// readyz reports whether the process can do its work.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.cfg.Ready(); err != nil {
		plain(w, http.StatusServiceUnavailable, tool.AsError(err).Msg+"\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
}

// metrics serves the metrics for Prometheus.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Metrics == nil {
		fail(w, tool.Errorf(tool.NotFound, "metrics are not enabled"))
		return
	}
	s.cfg.Metrics.ServeHTTP(w, r)
}

// home lists the main paths.
func (s *Server) home(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, fmt.Sprintf("Biplane %s\n\nMCP for agents   /mcp\nHTTP API         %s/status\nhealth           /healthz /readyz\nmetrics          /metrics\napprovals        /approvals\n\nThe console is not part of this build.\n",
		s.cfg.Status().Version, api.Prefix))
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = io.WriteString(w, text)
}

// status answers with the state of the process. Only admins and auditors see where it runs and how
// it is configured.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	st := s.cfg.Status()
	if !operates(s.principal(r)) {
		st = api.Status{
			Version: st.Version, Started: st.Started, Mode: st.Mode, Policy: st.Policy, PolicyVersion: st.PolicyVersion, Tier: st.Tier,
			Executions: st.Executions, Upstreams: st.Upstreams, Tools: st.Tools,
		}
	}
	write(w, http.StatusOK, st)
}

// operates reports whether p is an admin, as the local user is, or an auditor. Others must not see
// an upstream's command, its last output and its errors, which contain paths and sometimes
// credentials.
func operates(p tool.Principal) bool { return identity.HasRole(p, identity.Auditor) }

func (s *Server) upstreams(w http.ResponseWriter, r *http.Request) {
	all, whole := s.cfg.Upstreams(r.Context()), operates(s.principal(r))
	out := make([]api.Upstream, 0, len(all))
	for _, u := range all {
		if !whole {
			u = api.Upstream{Name: u.Name, Namespace: u.Namespace, Type: u.Type, State: u.State, Stale: u.Stale, Tools: u.Tools}
		}
		out = append(out, u)
	}
	write(w, http.StatusOK, out)
}

func (s *Server) sandboxes(w http.ResponseWriter, r *http.Request) {
	write(w, http.StatusOK, s.cfg.Sandboxes(r.Context()))
}
