package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// run runs a program like an agent's call of execute.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	var req api.RunRequest
	if err := read(r, &req); err != nil {
		fail(w, err)
		return
	}
	args := map[string]any{"code": req.Code}
	if req.Language != "" {
		args["language"] = req.Language
	}
	if req.Session != "" {
		args["session"] = req.Session
	}
	if req.After != "" {
		args["after"] = req.After
	}
	if req.Mode != "" {
		args["mode"] = req.Mode
	}
	if req.TimeoutSeconds != 0 {
		args["timeout_seconds"] = req.TimeoutSeconds
	}
	ctx := r.Context()
	id, state, err := s.execute(ctx, tool.ExecutePath, args)
	for err == nil && (state == string(execution.Running) || state == string(execution.Queued)) && !req.NoWait {
		id, state, err = s.execute(ctx, tool.ResumePath, map[string]any{"execution": id})
	}
	if err != nil {
		fail(w, err)
		return
	}
	s.answer(w, r, id, req.Tokens)
}

// execute calls execute or resume, and returns the execution's id and state from the result.
func (s *Server) execute(ctx context.Context, path string, args map[string]any) (id, state string, err error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return "", "", err
	}
	p, _ := identity.PrincipalFrom(ctx)
	res, err := s.cfg.Door.Call(ctx, &tool.Call{Path: path, Arguments: raw, Principal: p})
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
		return "", "", tool.Errorf(tool.Internal, "%s answered without an execution: %s", path, text(res))
	}
	return v.Meta.Execution.ID, v.Meta.Execution.State, nil
}

func (s *Server) execution(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, r.PathValue("id"), r.URL.Query().Get("tokens") == "true")
}

// answer writes an execution, if the caller owns it or may read everything. It uses this process's
// copy, or the journal if there is none. Tokens are counted only for the former, since a journal
// doesn't have all the data.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, id string, tokens bool) {
	p := s.principal(r)
	x, ok := s.cfg.Execution(id)
	if !ok {
		var err error
		if x, err = s.cfg.Journals.Past(r.Context(), p, id); err != nil {
			fail(w, err)
			return
		}
	} else if x.Principal.ID != p.ID && !identity.HasRole(p, identity.Auditor) {
		fail(w, tool.Errorf(tool.NotFound, "no execution %q: biplane executions list shows the stored ones", prose.Cut(id, 80)))
		return
	}
	out := wire(x)
	if ok && tokens {
		if t, err := x.Count(); err != nil {
			s.log.Warn("count tokens", "execution", id, "err", err)
		} else {
			out.Tokens = &api.Tokens{Returned: t.Returned, KeptOut: t.KeptOut}
		}
	}
	s.writeHidden(w, out)
}

// wire converts an execution to the API's type.
func wire(x *execution.Execution) *api.Execution {
	out := &api.Execution{
		ID: x.ID, State: string(x.State), Value: x.Value, Error: wireError(x.Error), Notes: x.Notes, Tier: x.Tier.String(), Missing: x.Missing, Session: x.Session, Labels: x.Labels,
		Rebuilt: x.Rebuilt, MS: x.MS, Console: wireConsole(x.Console), Calls: []api.CallLine{},
	}
	for _, c := range x.Calls {
		out.Calls = append(out.Calls, api.CallLine{Tool: c.Tool, MS: c.MS, Bytes: c.Bytes, Error: c.Error, From: c.From})
	}
	return out
}

func wireError(e *execution.Failure) *api.ProgramError {
	if e == nil {
		return nil
	}
	return &api.ProgramError{Kind: e.Kind, Limit: e.Limit, Message: e.Message, Line: e.Line, Column: e.Column, Frame: e.Frame, Hint: e.Hint}
}

func wireConsole(lines []execution.Line) []api.ConsoleLine {
	out := make([]api.ConsoleLine, len(lines))
	for i, l := range lines {
		out[i] = api.ConsoleLine{Level: l.Level, Text: l.Text}
	}
	return out
}
