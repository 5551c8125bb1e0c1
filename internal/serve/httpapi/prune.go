package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Pruner deletes and archives old data. p is who asked for it, which is recorded.
type Pruner interface {
	PruneData(ctx context.Context, p tool.Principal, r api.PruneRequest) (*api.PruneStep, error)
}

// pruneRoutes deletes and archives old data.
type pruneRoutes struct{ pruner Pruner }

func (h *pruneRoutes) pruneData(w http.ResponseWriter, r *http.Request) {
	var req api.PruneRequest
	err := readJSON(r, &req)
	switch {
	case err != nil:
	case !slices.Contains(api.PruneKinds, req.Kind):
		err = tool.Errorf(tool.Invalid, "kind %q is not one of %s", text.Cut(req.Kind, 40),
			strings.Join(api.PruneKinds, ", "))
	case req.Before.IsZero() || req.Before.After(time.Now()):
		err = tool.Errorf(tool.Invalid, "before must be a time in the past")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	answerWith(w)(h.pruner.PruneData(r.Context(), principalOf(r), req))
}
