package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Sessions holds the state that persists between programs; implemented by *live.Sessions.
type Sessions interface {
	List(ctx context.Context, p tool.Principal) ([]live.Info, error)
	Get(ctx context.Context, p tool.Principal, name string) (*live.Info, error)
	End(ctx context.Context, p tool.Principal, name string) error
	Fork(ctx context.Context, p tool.Principal, from, to string) (*live.Info, error)
	SuspendSession(ctx context.Context, p tool.Principal, name string) (*live.Info, error)
	ResumeSession(ctx context.Context, p tool.Principal, name string) (*live.Info, error)
	Export(ctx context.Context, p tool.Principal, name string, w io.Writer, passphrase string) error
	Import(ctx context.Context, p tool.Principal, name string, r io.Reader, passphrase string) (*live.Info, error)
	Do(ctx context.Context, p tool.Principal, session string, op sandbox.File) (json.RawMessage, error)
}

// Limits on bodies that aren't JSON.
const (
	fileBytes   = 20 << 20 // above the limit of a session, so that its error explains the limit
	exportBytes = 1 << 30
	uploadTime  = 10 * time.Minute
)

// sessionRoutes serves and changes the sessions and their files.
type sessionRoutes struct {
	sessions Sessions
	log      *slog.Logger
}

func (h *sessionRoutes) listSessions(w http.ResponseWriter, r *http.Request) {
	all, err := h.sessions.List(r.Context(), principalOf(r))
	if err != nil {
		writeError(w, err)
		return
	}
	out := make([]api.Session, len(all))
	for i := range all {
		out[i] = wireSession(&all[i])
	}
	writeList(w, r, out, func(s *api.Session) string { return s.Owner + " " + s.Name })
}

func (h *sessionRoutes) showSession(w http.ResponseWriter, r *http.Request) {
	answerSession(w, http.StatusOK)(h.sessions.Get(r.Context(), principalOf(r), r.PathValue("session")))
}

func (h *sessionRoutes) endSession(w http.ResponseWriter, r *http.Request) {
	answerDone(w, h.sessions.End(r.Context(), principalOf(r), r.PathValue("session")))
}

func (h *sessionRoutes) forkSession(w http.ResponseWriter, r *http.Request) {
	var req api.SessionSource
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	answerSession(w, http.StatusCreated)(h.sessions.Fork(r.Context(), principalOf(r),
		r.PathValue("session"), req.To))
}

func (h *sessionRoutes) suspendSession(w http.ResponseWriter, r *http.Request) {
	answerSession(w, http.StatusOK)(h.sessions.SuspendSession(r.Context(), principalOf(r), r.PathValue("session")))
}

func (h *sessionRoutes) resumeSession(w http.ResponseWriter, r *http.Request) {
	answerSession(w, http.StatusOK)(h.sessions.ResumeSession(r.Context(), principalOf(r), r.PathValue("session")))
}

// exportSession answers with the file as it is created. An error after the start of the body aborts
// the connection, since the status has been sent.
func (h *sessionRoutes) exportSession(w http.ResponseWriter, r *http.Request) {
	var req api.SessionSource
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	out := &lateBody{ResponseWriter: w}
	err := h.sessions.Export(r.Context(), principalOf(r), r.PathValue("session"), out, req.Passphrase)
	switch {
	case err != nil && out.begun:
		h.log.Warn("session not exported", "session", r.PathValue("session"), "err", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		writeError(w, err)
	}
}

// A lateBody writes a binary body. It sends the header with the first bytes.
type lateBody struct {
	http.ResponseWriter
	begun bool
}

// Write sends b.
func (l *lateBody) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.Header().Set("Content-Type", "application/octet-stream")
		l.WriteHeader(http.StatusOK)
	}
	return l.ResponseWriter.Write(b)
}

func (h *sessionRoutes) importSession(w http.ResponseWriter, r *http.Request) {
	passphrase, err := base64.StdEncoding.DecodeString(r.Header.Get(api.PassphraseHeader))
	if err != nil {
		writeError(w, tool.Errorf(tool.Invalid, "the header %s is not base64", api.PassphraseHeader))
		return
	}
	body, ok := uploadBody(w, r, exportBytes)
	if !ok {
		return
	}
	answerSession(w, http.StatusCreated)(h.sessions.Import(r.Context(), principalOf(r), r.PathValue("session"),
		body, string(passphrase)))
}

// uploadBody returns the body of a request that isn't JSON, with limits on its size and time.
func uploadBody(w http.ResponseWriter, r *http.Request, most int64) (io.Reader, bool) {
	if r.Header.Get("Content-Type") != "application/octet-stream" {
		writeError(w, tool.Errorf(tool.Invalid, "the body's Content-Type must be application/octet-stream"))
		return nil, false
	}
	// Connections without deadlines (tests, pipes) are limited by their other end.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime))
	return http.MaxBytesReader(w, r.Body, most), true
}

// readFile answers with the bytes of a file.
func (h *sessionRoutes) readFile(w http.ResponseWriter, r *http.Request) {
	raw, err := h.sessions.Do(r.Context(), principalOf(r), r.PathValue("session"),
		sandbox.File{Op: "read", Path: r.URL.Query().Get("path"), Base64: true})
	if err != nil {
		writeError(w, err)
		return
	}
	var data []byte // encoding/json decodes base64
	if err := json.Unmarshal(raw, &data); err != nil {
		writeError(w, tool.Errorf(tool.Internal, "the file can't be read: %w", err))
		return
	}
	out := &lateBody{ResponseWriter: w}
	// An error means that the client has gone.
	_, _ = out.Write(data)
}

// listFiles answers with the entries of a directory.
func (h *sessionRoutes) listFiles(w http.ResponseWriter, r *http.Request) {
	raw, err := h.sessions.Do(r.Context(), principalOf(r), r.PathValue("session"),
		sandbox.File{Op: "list", Path: r.URL.Query().Get("path")})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, raw)
}

func (h *sessionRoutes) writeFile(w http.ResponseWriter, r *http.Request) {
	body, ok := uploadBody(w, r, fileBytes)
	if !ok {
		return
	}
	data, err := io.ReadAll(body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		writeError(w, tool.Errorf(tool.Limit,
			"the file is larger than %d MiB, more than any file of a session may be: copy it in parts",
			large.Limit>>20))
		return
	case err != nil:
		writeError(w, tool.Errorf(tool.Invalid, "the body ended early: %w", err))
		return
	}
	_, err = h.sessions.Do(r.Context(), principalOf(r), r.PathValue("session"),
		sandbox.File{Op: "write", Path: r.URL.Query().Get("path"), Data: base64.StdEncoding.EncodeToString(data),
			Base64: true})
	answerDone(w, err)
}

// changeFile performs the file operations without content.
func (h *sessionRoutes) changeFile(w http.ResponseWriter, r *http.Request) {
	var req api.FileOp
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	switch req.Op {
	case "list", "stat", "mkdir", "rm", "rmdir", "rename", "copy", "truncate":
	default:
		writeError(w, tool.Errorf(tool.Invalid, "unknown file operation %q: use list, stat, mkdir, rm, rmdir, "+
			"rename, copy or truncate; GET reads and PUT writes", req.Op))
		return
	}
	v, err := h.sessions.Do(r.Context(), principalOf(r), r.PathValue("session"), sandbox.File{
		Op: req.Op, Path: req.Path, To: req.To, Offset: req.Offset, Flag: req.Flag, Recursive: req.Recursive,
		Force: req.Force,
	})
	if err != nil {
		writeError(w, err)
		return
	}
	if v == nil {
		v = json.RawMessage("{}")
	}
	writeJSON(w, http.StatusOK, v)
}

// answerDone answers with err, or with an empty object if it is nil.
func answerDone(w http.ResponseWriter, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct{}{})
}

func answerSession(w http.ResponseWriter, status int) func(*live.Info, error) {
	return func(i *live.Info, err error) {
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, status, wireSession(i))
	}
}

func wireSession(i *live.Info) api.Session {
	return api.Session{
		Name: i.Name, Owner: i.Owner, Languages: append([]string{},
			i.Languages...), State: i.State, Created: i.Created, Used: i.Used, Expires: i.Expires,
		Programs: i.Programs, Tier: i.Tier, StateBytes: i.StateBytes, FileBytes: i.FileBytes, Files: i.Files,
		JournalBytes: i.JournalBytes, Engine: i.Engine, Labels: append([]string{}, i.Labels...), Note: i.Note,
	}
}
