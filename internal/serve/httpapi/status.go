package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Process is the process that serves the API.
type Process interface {
	Status() api.Status
	Upstreams(ctx context.Context) []api.Upstream
	Sandboxes(ctx context.Context) []api.Capability
	// Ready returns why the process can't do its work yet, or nil.
	Ready() error
}

// processRoutes serves the state of the process.
type processRoutes struct {
	process Process
	metrics http.Handler // nil: none
}

// serveHealth reports that the process serves requests.
func (h *processRoutes) serveHealth(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok\n")
}

// serveReady reports whether the process can do its work.
func (h *processRoutes) serveReady(w http.ResponseWriter, _ *http.Request) {
	if err := h.process.Ready(); err != nil {
		writePlain(w, http.StatusServiceUnavailable, tool.AsError(err).Msg+"\n")
		return
	}
	writePlain(w, http.StatusOK, "ready\n")
}

// serveMetrics serves the metrics for Prometheus.
func (h *processRoutes) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if h.metrics == nil {
		writeError(w, tool.Errorf(tool.NotFound, "metrics are not enabled"))
		return
	}
	h.metrics.ServeHTTP(w, r)
}

// serveHome lists the main paths.
func (h *processRoutes) serveHome(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK,
		fmt.Sprintf("Biplane %s\n\nMCP for agents   /mcp\nHTTP API         %s/openapi.json\nhealth           /healthz "+
			"/readyz\nmetrics          /metrics\n\nThe console for browsers is at the address of biplane serve.\n",
			h.process.Status().Version, api.Prefix))
}

func writePlain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = io.WriteString(w, text)
}

// showStatus answers with the state of the process. Only admins and auditors see where it runs and
// how it is configured.
func (h *processRoutes) showStatus(w http.ResponseWriter, r *http.Request) {
	st := h.process.Status()
	if !isOperator(principalOf(r)) {
		st = api.Status{
			Version: st.Version, Started: st.Started, Mode: st.Mode, Policy: st.Policy, PolicyVersion: st.PolicyVersion,
			Tier:       st.Tier,
			Executions: st.Executions, Upstreams: st.Upstreams, Tools: st.Tools,
		}
	}
	writeJSON(w, http.StatusOK, st)
}

// isOperator reports whether p is an admin, as the local user is, or an auditor. Others must not
// see an upstream's command, its last output and its errors, which contain paths and sometimes
// credentials.
func isOperator(p tool.Principal) bool { return identity.HasRole(p, identity.Auditor) }

func (h *processRoutes) listUpstreams(w http.ResponseWriter, r *http.Request) {
	all, whole := h.process.Upstreams(r.Context()), isOperator(principalOf(r))
	out := make([]api.Upstream, 0, len(all))
	for _, u := range all {
		if !whole {
			u = api.Upstream{Name: u.Name, Namespace: u.Namespace, Type: u.Type, State: u.State, Stale: u.Stale,
				Tools: u.Tools}
		}
		out = append(out, u)
	}
	writeList(w, r, out, func(u *api.Upstream) string { return u.Name })
}

func (h *processRoutes) listSandboxes(w http.ResponseWriter, r *http.Request) {
	writeList(w, r, h.process.Sandboxes(r.Context()), func(c *api.Capability) string { return c.Driver })
}
