package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Policies answers questions about policies, and changes their files.
type Policies interface {
	PolicyDesk
	PolicyEditor
}

// A PolicyDesk answers questions about policies. It changes nothing.
type PolicyDesk interface {
	Schema(ctx context.Context) string
	Check(ctx context.Context, files []api.PolicyFile) (*api.PolicyReport, error)
	Explain(ctx context.Context, q api.PolicyQuestion) (*api.PolicyAnswer, error)
	Replay(ctx context.Context, who tool.Principal, r api.PolicyReplayRequest) (*api.PolicyReplay, error)
}

// A PolicyEditor reads and changes the files of the policies in force.
type PolicyEditor interface {
	ListFiles() (*api.PolicyFiles, error)
	EditFile(ctx context.Context, who tool.Principal, e api.PolicyEdit) (*api.PolicyReport, error)
}

// policyRoutes answers questions about policies, and changes their files.
type policyRoutes struct{ policies Policies }

func (h *policyRoutes) listFiles(w http.ResponseWriter, r *http.Request) {
	files, err := h.policies.ListFiles()
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, files)
}

func (h *policyRoutes) editFile(w http.ResponseWriter, r *http.Request) {
	var q api.PolicyEdit
	answerPolicy(w, r, &q, func() (any, error) { return h.policies.EditFile(r.Context(), principalOf(r), q) })
}

func (h *policyRoutes) policySchema(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, h.policies.Schema(r.Context()))
}

func (h *policyRoutes) policyCheck(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Files []api.PolicyFile `json:"files"`
	}
	answerPolicy(w, r, &q, func() (any, error) { return h.policies.Check(r.Context(), q.Files) })
}

func (h *policyRoutes) policyExplain(w http.ResponseWriter, r *http.Request) {
	var q api.PolicyQuestion
	answerPolicy(w, r, &q, func() (any, error) { return h.policies.Explain(r.Context(), q) })
}

func (h *policyRoutes) policyReplay(w http.ResponseWriter, r *http.Request) {
	var q api.PolicyReplayRequest
	answerPolicy(w, r, &q, func() (any, error) { return h.policies.Replay(r.Context(), principalOf(r), q) })
}

// answerPolicy decodes the request into q and answers with the result of f.
func answerPolicy(w http.ResponseWriter, r *http.Request, q any, f func() (any, error)) {
	err := readJSON(r, q)
	var v any
	if err == nil {
		v, err = f()
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}
