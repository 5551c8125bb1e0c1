package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Sandboxes serves each principal's own sandboxes as MCP servers.
type Sandboxes interface {
	// ServeSandbox answers a request for the MCP server of a principal's sandbox.
	ServeSandbox(w http.ResponseWriter, r *http.Request, p tool.Principal, sandbox string)
}

// sandboxRoutes serves principals' own sandboxes. Each request is a call of a tool.
type sandboxRoutes struct {
	door    tool.Caller
	servers Sandboxes
}

// callTool calls a tool of sandboxes, and returns its structured result.
func (h *sandboxRoutes) callTool(r *http.Request, name string, args any, o tool.Observer) (json.RawMessage, error) {
	raw, err := tool.Marshal(args)
	if err != nil {
		return nil, err
	}
	ctx := tool.ForPeople(r.Context())
	res, err := h.door.Call(ctx, &tool.Call{Path: tool.Own + "." + tool.SandboxPrefix + name, Arguments: raw,
		Principal: principalOf(r), Observer: o})
	switch {
	case err != nil:
		return nil, err
	case res.Structured == nil:
		return nil, tool.Errorf(tool.Internal, "the tool answered without a value: %s", resultText(res))
	}
	return res.Structured, nil
}

// answerCall answers with the result of a call.
func (h *sandboxRoutes) answerCall(w http.ResponseWriter, r *http.Request, status int, name string, args any) {
	raw, err := h.callTool(r, name, args, nil)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, status, raw)
}

// namedSandbox has the argument that names a sandbox.
type namedSandbox struct {
	Sandbox string `json:"sandbox"`
}

func (h *sandboxRoutes) listSandboxes(w http.ResponseWriter, r *http.Request) {
	raw, err := h.callTool(r, "list", struct{}{}, nil)
	var v struct {
		Sandboxes []json.RawMessage `json:"sandboxes"` // by their names
	}
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeList(w, r, v.Sandboxes, func(raw *json.RawMessage) string {
		var named struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(*raw, &named) // the tool's own result
		return named.ID
	})
}

func (h *sandboxRoutes) createSandbox(w http.ResponseWriter, r *http.Request) {
	var req api.OwnSandboxRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	h.answerCall(w, r, http.StatusCreated, "create", req)
}

func (h *sandboxRoutes) showSandbox(w http.ResponseWriter, r *http.Request) {
	h.answerCall(w, r, http.StatusOK, "show", namedSandbox{r.PathValue("sandbox")})
}

func (h *sandboxRoutes) suspendSandbox(w http.ResponseWriter, r *http.Request) {
	h.answerCall(w, r, http.StatusOK, "suspend", namedSandbox{r.PathValue("sandbox")})
}

func (h *sandboxRoutes) resumeSandbox(w http.ResponseWriter, r *http.Request) {
	h.answerCall(w, r, http.StatusOK, "resume", namedSandbox{r.PathValue("sandbox")})
}

func (h *sandboxRoutes) endSandbox(w http.ResponseWriter, r *http.Request) {
	_, err := h.callTool(r, "end", namedSandbox{r.PathValue("sandbox")}, nil)
	answerDone(w, err)
}

// useSandbox carries out an operation.
func (h *sandboxRoutes) useSandbox(w http.ResponseWriter, r *http.Request) {
	var req api.SandboxOperation
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	op := r.PathValue("operation")
	switch op {
	case "run", "start", "processes", "logs", "stop", "read", "write", "files", "stat", "mkdir", "move", "remove",
		"watch", "ports", "preview":
	default:
		writeError(w, tool.Errorf(tool.NotFound, "sandboxes have no operation %q", op))
		return
	}
	args := struct {
		namedSandbox
		api.SandboxOperation
	}{namedSandbox{r.PathValue("sandbox")}, req}
	if op != "run" || !strings.Contains(r.Header.Get("Accept"), api.NDJSON) {
		h.answerCall(w, r, http.StatusOK, op, args)
		return
	}
	out := &outputStream{w: w}
	raw, err := h.callTool(r, op, args, out)
	if err != nil && !out.begun {
		writeError(w, err)
		return
	}
	last := struct {
		Answer json.RawMessage `json:"answer,omitempty"`
		Error  *api.Error      `json:"error,omitempty"`
	}{Answer: raw}
	if err != nil {
		e := tool.AsError(err)
		last.Error = &api.Error{Kind: string(e.Kind), Message: e.Msg}
	}
	out.writeLine(last)
}

// An outputStream writes the output of a command as it arrives.
type outputStream struct {
	tool.NoObserver
	w     http.ResponseWriter
	begun bool
}

// WantsLogs returns true: output arrives as log messages.
func (o *outputStream) WantsLogs() bool { return true }

// OnLog writes output.
func (o *outputStream) OnLog(_ context.Context, l tool.Log) {
	var v struct {
		Logger string `json:"logger"`
		Data   string `json:"data"`
	}
	if json.Unmarshal(l.Raw, &v) == nil {
		o.writeLine(api.SandboxOutput{Stream: v.Logger, Data: v.Data})
	}
}

// writeLine writes a line, and sends it at once.
func (o *outputStream) writeLine(v any) {
	text, err := tool.Marshal(v)
	if err != nil {
		return
	}
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", api.NDJSON)
		o.w.WriteHeader(http.StatusOK)
	}
	// An error means that the client has gone, which also ends the call.
	_, _ = io.WriteString(o.w, string(text)+"\n")
	_ = http.NewResponseController(o.w).Flush()
}

// serveMachine passes a request to the MCP server of a sandbox.
func (h *sandboxRoutes) serveMachine(w http.ResponseWriter, r *http.Request) {
	if h.servers == nil {
		writeError(w, tool.Errorf(tool.NotFound, "sandboxes are not served at this address"))
		return
	}
	h.servers.ServeSandbox(w, r, principalOf(r), r.PathValue("sandbox"))
}
