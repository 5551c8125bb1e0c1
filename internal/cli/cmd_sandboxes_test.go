package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestStartProcess checks that startProcess succeeds if only the status can't be read.
func TestStartProcess(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) != "start" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(api.SandboxAnswer{Process: &api.SandboxProcess{ID: 3}})
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	a := &app{Process: Process{Out: &out, Err: &errs}}
	err := startProcess(t.Context(), a, &api.Client{Base: s.URL}, "work", api.SandboxOperation{Argv: []string{"sleep"}})
	if err != nil || out.String() != "process 3\n" || errs.Len() > 0 {
		t.Errorf("output %q, messages %q, error %v", out.String(), errs.String(), err)
	}
}
