package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// executionRoutes runs programs, and serves their executions.
type executionRoutes struct {
	door     tool.Caller
	journals Journals
	secrets  Secrets
	closing  context.Context // done when the server closes
	log      *slog.Logger
}

// executeArguments are the arguments of execute.
type executeArguments struct {
	After          string  `json:"after,omitempty"`
	Code           string  `json:"code"`
	Language       string  `json:"language,omitempty"`
	Mode           string  `json:"mode,omitempty"`
	Session        string  `json:"session,omitempty"`
	Image          string  `json:"image,omitempty"`
	Tier           string  `json:"tier,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
}

// runProgram runs a program like an agent's call of execute.
func (h *executionRoutes) runProgram(w http.ResponseWriter, r *http.Request) {
	var req api.RunRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	args := executeArguments{
		After: req.After, Code: req.Code, Language: req.Language, Mode: req.Mode, Session: req.Session,
		Tier: req.Tier, Image: req.Image, TimeoutSeconds: req.TimeoutSeconds,
	}
	ctx := r.Context()
	id, state, err := h.callExecute(ctx, tool.ExecutePath, args, earlyAnswer{w: w})
	for err == nil && (state == string(execution.Running) || state == string(execution.Queued)) && !req.NoWait {
		id, state, err = h.callExecute(ctx, tool.ResumePath, map[string]string{"execution": id}, nil)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Location", api.Prefix+"/executions/"+url.PathEscape(id))
	h.writeExecution(w, r, id, req.Tokens)
}

// An earlyAnswer sends the place of an execution as soon as it has begun, with status 103, so that
// the client can follow it.
type earlyAnswer struct {
	tool.NoObserver
	w http.ResponseWriter
}

// OnExecution implements tool.Observer.
func (e earlyAnswer) OnExecution(id string) {
	e.w.Header().Set("Content-Location", api.Prefix+"/executions/"+url.PathEscape(id))
	e.w.WriteHeader(http.StatusEarlyHints)
}

// callExecute calls execute or resume, and returns the execution's id and state from the result.
func (h *executionRoutes) callExecute(ctx context.Context, path string, args any,
	o tool.Observer) (id, state string, err error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return "", "", err
	}
	p, _ := identity.PrincipalFrom(ctx)
	res, err := h.door.Call(ctx, &tool.Call{Path: path, Arguments: raw, Principal: p, Observer: o})
	if err != nil {
		return "", "", err
	}
	var v struct {
		Meta struct {
			Execution struct {
				ID    string `json:"id"`
				State string `json:"state"`
			} `json:"biplane.dev/execution"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(res.Raw, &v); err != nil || v.Meta.Execution.ID == "" {
		return "", "", tool.Errorf(tool.Internal, "%s answered without an execution: %s", path, resultText(res))
	}
	return v.Meta.Execution.ID, v.Meta.Execution.State, nil
}

func (h *executionRoutes) showExecution(w http.ResponseWriter, r *http.Request) {
	h.writeExecution(w, r, r.PathValue("id"), r.URL.Query().Get("tokens") == "true")
}

// writeExecution writes an execution, if the caller owns it or may read everything. It uses this
// process's copy, or the journal if there is none. Tokens are counted only for the former, since a
// journal doesn't have all the data.
func (h *executionRoutes) writeExecution(w http.ResponseWriter, r *http.Request, id string, tokens bool) {
	p := principalOf(r)
	x, ok := h.journals.Execution(id)
	if !ok {
		var err error
		if x, err = h.journals.Past(r.Context(), p, id); err != nil {
			writeError(w, err)
			return
		}
	} else if x.Principal.ID != p.ID && !identity.HasRole(p, identity.Auditor) {
		writeError(w, tool.Errorf(tool.NotFound, "no execution %q: biplane executions list shows the stored ones",
			text.Cut(id, 80)))
		return
	}
	out := toWire(x)
	if ok && tokens {
		if t, err := x.Count(); err != nil {
			h.log.Warn("tokens not counted", "execution", id, "err", err)
		} else {
			out.Tokens = &api.Tokens{Returned: t.Returned, KeptOut: t.KeptOut}
		}
	}
	writeJournal(w, h.secrets, out)
}

// toWire converts an execution to the API's type.
func toWire(x *execution.Execution) *api.Execution {
	out := &api.Execution{
		ID: x.ID, State: string(x.State), Value: x.Value, Error: wireError(x.Error), Notes: x.Notes,
		Tier: x.Tier.String(), Image: x.Image, Missing: x.Missing, Session: x.Session, Labels: x.Labels,
		Rebuilt: x.Rebuilt, SessionNote: x.SessionNote, MS: x.MS, Console: wireConsole(x.Console),
		Calls: []api.CallLine{},
	}
	for _, c := range x.Calls {
		out.Calls = append(out.Calls,
			api.CallLine{Tool: c.Tool, MS: c.MS, Bytes: c.Bytes, Error: c.Error, From: c.From})
	}
	return out
}

func wireError(e *execution.Failure) *api.ProgramError {
	if e == nil {
		return nil
	}
	return &api.ProgramError{Kind: e.Kind, Limit: e.Limit, Message: e.Message, Line: e.Line, Column: e.Column,
		Frame: e.Frame, Hint: e.Hint}
}

func wireConsole(lines []execution.Line) []api.ConsoleLine {
	out := make([]api.ConsoleLine, len(lines))
	for i, l := range lines {
		out[i] = api.ConsoleLine{Level: l.Level, Text: l.Text}
	}
	return out
}
