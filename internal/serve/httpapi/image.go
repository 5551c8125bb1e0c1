package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Images are the images that sandboxes are created from.
type Images interface {
	// WarmImage starts a sandbox of an image ahead.
	WarmImage(ctx context.Context, image string, r api.ImageWarmRequest) (*api.ImageWarmth, error)
	// CopyImage builds an image from a sandbox of a principal.
	CopyImage(ctx context.Context, p tool.Principal, image string, r api.ImageCopyRequest) (*api.CopiedImage, error)
}

// imageRoutes serves images.
type imageRoutes struct{ images Images }

func (h *imageRoutes) warmImage(w http.ResponseWriter, r *http.Request) {
	var req api.ImageWarmRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	answerWith(w)(h.images.WarmImage(r.Context(), r.PathValue("image"), req))
}

func (h *imageRoutes) copyImage(w http.ResponseWriter, r *http.Request) {
	var req api.ImageCopyRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	answerWith(w)(h.images.CopyImage(r.Context(), principalOf(r), r.PathValue("image"), req))
}
