package httpapi

import (
	"context"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Notices are the channels for notices.
type Notices interface {
	ListChannels() []api.NoticeChannel
	SendTest(ctx context.Context, name string) ([]api.NoticeChannel, error)
}

// noticeRoutes serves the channels for notices.
type noticeRoutes struct{ notices Notices }

func (h *noticeRoutes) listChannels(w http.ResponseWriter, r *http.Request) {
	out := []api.NoticeChannel{}
	if h.notices != nil {
		out = append(out, h.notices.ListChannels()...)
	}
	writeList(w, r, out, func(c *api.NoticeChannel) string { return c.Name })
}

func (h *noticeRoutes) testChannels(w http.ResponseWriter, r *http.Request) {
	var t api.NoticeTest
	if err := readJSON(r, &t); err != nil {
		writeError(w, err)
		return
	}
	if h.notices == nil {
		writeError(w, tool.Errorf(tool.NotFound, "no channel for notices is configured"))
		return
	}
	out, err := h.notices.SendTest(r.Context(), t.Channel)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}
