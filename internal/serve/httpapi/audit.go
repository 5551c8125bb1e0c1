package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Audit is the audit record, as people see it. p is the reader, and each read is recorded.
type Audit interface {
	State(ctx context.Context) (*api.AuditState, error)
	Records(ctx context.Context, p tool.Principal, q audit.Query) ([]api.AuditRecord, error)
	Record(ctx context.Context, p tool.Principal, id string) (*api.AuditRecord, error)
	Prove(ctx context.Context, p tool.Principal, id, at string) (*api.AuditProof, error)
	Verify(ctx context.Context, p tool.Principal, outside []string) (*api.AuditReport, error)
	Checkpoint(ctx context.Context) (*api.AuditCheckpoint, error)
	Checkpoints(ctx context.Context) ([]api.AuditCheckpoint, error)
	Consistency(ctx context.Context, p tool.Principal, older string) (*api.AuditProof, error)
	Export(ctx context.Context, p tool.Principal, w io.Writer, format string, from, to time.Time) error
	Evidence(ctx context.Context, p tool.Principal, w io.Writer, from, to time.Time) error
}

// auditRoutes serves the audit record.
type auditRoutes struct {
	audit Audit
	log   *slog.Logger
}

func (h *auditRoutes) auditState(w http.ResponseWriter, r *http.Request) {
	answerWith(w)(h.audit.State(r.Context()))
}

func (h *auditRoutes) auditRecords(w http.ResponseWriter, r *http.Request) {
	q, err := auditQuery(r)
	if err != nil {
		writeError(w, err)
		return
	}
	all, err := h.audit.Records(r.Context(), principalOf(r), q)
	if err == nil && len(all) == q.Max() {
		setNextPage(w, r, all[len(all)-1].ID)
	}
	answerWith(w)(all, err)
}

func (h *auditRoutes) auditRecord(w http.ResponseWriter, r *http.Request) {
	answerWith(w)(h.audit.Record(r.Context(), principalOf(r), r.PathValue("record")))
}

func (h *auditRoutes) auditProof(w http.ResponseWriter, r *http.Request) {
	var req api.AuditCheckpoint
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	answerWith(w)(h.audit.Prove(r.Context(), principalOf(r), r.PathValue("record"), req.Checkpoint))
}

func (h *auditRoutes) auditVerify(w http.ResponseWriter, r *http.Request) {
	var req api.AuditCheckpoints
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	answerWith(w)(h.audit.Verify(r.Context(), principalOf(r), req.Checkpoints))
}

func (h *auditRoutes) listCheckpoints(w http.ResponseWriter, r *http.Request) {
	all, err := h.audit.Checkpoints(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeList(w, r, all, func(c *api.AuditCheckpoint) string {
		return strconv.FormatInt(c.Size, 10) + " " + c.Root
	})
}

func (h *auditRoutes) makeCheckpoint(w http.ResponseWriter, r *http.Request) {
	answerWith(w)(h.audit.Checkpoint(r.Context()))
}

func (h *auditRoutes) auditConsistency(w http.ResponseWriter, r *http.Request) {
	var req api.AuditCheckpoint
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	answerWith(w)(h.audit.Consistency(r.Context(), principalOf(r), req.Checkpoint))
}

// auditExport answers with the records as they are read. An error after the start of the body
// aborts the connection.
func (h *auditRoutes) auditExport(w http.ResponseWriter, r *http.Request) {
	h.auditFile(w, r, func(w io.Writer, q audit.Query) error {
		return h.audit.Export(r.Context(), principalOf(r), w, r.URL.Query().Get("format"), q.Since, q.Until)
	})
}

func (h *auditRoutes) auditEvidence(w http.ResponseWriter, r *http.Request) {
	h.auditFile(w, r, func(w io.Writer, q audit.Query) error {
		return h.audit.Evidence(r.Context(), principalOf(r), w, q.Since, q.Until)
	})
}

// auditFile answers with a file about a period of time.
func (h *auditRoutes) auditFile(w http.ResponseWriter, r *http.Request, write func(io.Writer, audit.Query) error) {
	q, err := auditQuery(r)
	if err == nil && (q.Since.IsZero() || q.Until.IsZero() || !q.Since.Before(q.Until)) {
		err = tool.Errorf(tool.Invalid, "since must be before until")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	out := &lateBody{ResponseWriter: w}
	if err := write(out, q); err != nil {
		if flaw := (*audit.FlawError)(nil); errors.As(err, &flaw) { // everything is written: a trailer tells the client
			w.Header().Set(http.TrailerPrefix+api.FlawTrailer, flaw.Msg)
			return
		}
		if !out.begun {
			writeError(w, err)
			return
		}
		h.log.Warn("audit record not exported", "err", err)
		panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
	}
}

// auditQuery parses a query for records.
func auditQuery(r *http.Request) (audit.Query, error) {
	v := r.URL.Query()
	q := audit.Query{
		Kind: audit.Kind(v.Get("kind")), Execution: v.Get("execution"), Tool: v.Get("tool"),
		Upstream: v.Get("upstream"), Principal: v.Get("principal"),
		Outcome: audit.Outcome(v.Get("outcome")), Effect: v.Get("effect"),
		Before: cmp.Or(v.Get(cursorParameter), v.Get("before")),
	}
	if q.Before != "" && !isRecordID(q.Before) {
		return q, tool.Errorf(tool.NotFound, "no record %q: omit before to list from the newest one",
			text.Cut(q.Before, 80))
	}
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			t, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return q, tool.Errorf(tool.Invalid, "%s %q must be a time such as 2026-10-01T00:00:00Z", name, text)
			}
			*to = t
		}
	}
	var err error
	q.Limit, err = parseLimit(v, 0)
	return q, err
}

// isRecordID reports whether s has the form of the id of a record.
func isRecordID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "0123456789abcdefghjkmnpqrstvwxyz") == ""
}

// answerWith returns a function that writes v, or err if it is not nil.
func answerWith(w http.ResponseWriter) func(v any, err error) {
	return func(v any, err error) {
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, v)
	}
}
