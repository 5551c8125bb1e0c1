package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestViewersSeeNoPaths checks that only admins and auditors see where the process runs and what
// its upstreams write.
func TestViewersSeeNoPaths(t *testing.T) {
	for role, whole := range map[string]bool{identity.Viewer: false, identity.User: false, identity.Approver: false,
		identity.Auditor: true, identity.Admin: true} {
		s := httpapi.New(httpapi.Config{
			Principal: tool.Principal{ID: "key:a", Roles: []string{role}},
			Process: process{
				status: api.Status{Version: "v1", PID: 7, Config: "/home/secret.yaml", ConfigSum: "secretsum",
					DataDir: "/secret", Listen: "secret:1", Policy: "mine", PolicyProblem: "secret.cedar:1",
					Checkpoints: []api.AuditSink{{Name: "secret"}}},
				upstreams: []api.Upstream{{
					Name: "a", State: "down", Target: "/usr/bin/secret", Reason: "secret", Server: "secret",
					Protocol: "secret", Stderr: []string{"secret"},
					Broken: []api.Broken{{Tool: "t", Reason: "secret"}},
				}},
			},
		})
		for path, want := range map[string]string{"/status": `"version":"v1"`, "/upstreams": `"state":"down"`} {
			w := httptest.NewRecorder()
			s.Socket().ServeHTTP(w, httptest.NewRequest("GET", api.Prefix+path, nil))
			if body := w.Body.String(); !strings.Contains(body, want) || strings.Contains(body, "secret") != whole {
				t.Errorf("role = %s, path = %s, body = %s, want strings.Contains(body, want) && "+
					"strings.Contains(body, \"secret\") == whole", role, path, body)
			}
		}
		s.Close()
	}
}
