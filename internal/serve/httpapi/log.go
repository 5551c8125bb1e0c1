package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Logs returns lines of the log; implemented by *logs.Book.
type Logs interface {
	ReadLines(ctx context.Context, after int64, wait bool) []api.LogLine
}

// logWait is how long a request waits for a line. It is shorter than the usual timeouts of proxies.
const logWait = 50 * time.Second

// logRoutes serves the log of the process.
type logRoutes struct {
	logs    Logs
	closing context.Context
}

func (h *logRoutes) listLines(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var after int64
	if v := q.Get("after"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			writeError(w, tool.Errorf(tool.Invalid, "after %q must be the number of a line", text.Cut(v, 80)))
			return
		}
		after = n
	}
	wait, err := strconv.ParseBool(q.Get("wait"))
	if err != nil && q.Get("wait") != "" {
		writeError(w, tool.Errorf(tool.Invalid, "wait %q must be true or false", text.Cut(q.Get("wait"), 80)))
		return
	}
	if h.logs == nil {
		writeError(w, tool.Errorf(tool.NotFound, "this process keeps no log"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), logWait)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	lines := h.logs.ReadLines(ctx, after, wait)
	if lines == nil {
		lines = []api.LogLine{}
	}
	writeJSON(w, http.StatusOK, lines)
}
