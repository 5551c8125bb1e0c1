package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Index describes the tools in the catalog.
type Index interface {
	Tools(ctx context.Context, p tool.Principal) []api.Tool
	Tool(ctx context.Context, p tool.Principal, path string) (*api.ToolDetail, error)
	Search(ctx context.Context, p tool.Principal, query string, limit int) ([]api.Hit, error)
	Types(ctx context.Context, p tool.Principal) map[string]string
}

// toolRoutes serves the catalog.
type toolRoutes struct {
	door  tool.Caller
	index Index
	hints Hints
}

func (h *toolRoutes) listTools(w http.ResponseWriter, r *http.Request) {
	writeList(w, r, h.index.Tools(r.Context(), principalOf(r)), func(t *api.Tool) string { return t.Path })
}

func (h *toolRoutes) showTool(w http.ResponseWriter, r *http.Request) {
	t, err := h.index.Tool(r.Context(), principalOf(r), r.PathValue("path"))
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, t)
}

// Hints accepts weaker tool hints.
type Hints interface {
	AcceptHints(ctx context.Context, p tool.Principal, path, claim string) (*api.WeakerHints, error)
}

func (h *toolRoutes) acceptHints(w http.ResponseWriter, r *http.Request) {
	var a struct {
		Claim string `json:"claim"`
	}
	if err := readJSON(r, &a); err != nil {
		writeError(w, err)
		return
	}
	if a.Claim == "" {
		writeError(w, tool.Errorf(tool.Invalid,
			`"claim" is required, the tool's claim from the list of tools: nothing was accepted`))
		return
	}
	accepted, err := h.hints.AcceptHints(r.Context(), principalOf(r), r.PathValue("path"), a.Claim)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, accepted)
}

func (h *toolRoutes) exportTypes(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, h.index.Types(r.Context(), principalOf(r)))
}

// searchTools answers with the text that an agent's search returns, and with the hits as objects.
func (h *toolRoutes) searchTools(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	args := struct {
		Limit int    `json:"limit,omitempty"`
		Query string `json:"query"`
	}{Query: q.Get("query")}
	limit := 0
	if l := q.Get("limit"); l != "" {
		n, err := strconv.Atoi(l)
		if err != nil || n < 1 {
			writeError(w, tool.Errorf(tool.Invalid, "limit %q must be a positive number", l))
			return
		}
		limit, args.Limit = n, n
	}
	raw, err := tool.Marshal(args)
	if err != nil {
		writeError(w, err)
		return
	}
	res, err := h.door.Call(r.Context(),
		&tool.Call{Path: tool.SearchPath, Arguments: raw, Principal: principalOf(r)})
	if err != nil {
		writeError(w, err)
		return
	}
	hits, err := h.index.Search(r.Context(), principalOf(r), q.Get("query"), limit)
	if err != nil {
		writeError(w, err)
		return
	}
	if hits == nil {
		hits = []api.Hit{}
	}
	writeJSON(w, http.StatusOK, api.Hits{Hits: hits, Text: resultText(res)})
}

// resultText returns the text blocks of a result, one per line.
func resultText(res *tool.Result) string {
	out := ""
	for _, c := range res.Content {
		var b tool.TextBlock
		if json.Unmarshal(c, &b) == nil && b.Type == "text" {
			if out != "" {
				out += "\n"
			}
			out += b.Text
		}
	}
	return out
}
