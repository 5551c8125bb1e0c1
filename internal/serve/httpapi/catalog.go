package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

func (s *Server) tools(w http.ResponseWriter, r *http.Request) {
	tools := s.cfg.Index.Tools(r.Context(), s.principal(r))
	if tools == nil {
		tools = []api.Tool{}
	}
	write(w, http.StatusOK, tools)
}

func (s *Server) tool(w http.ResponseWriter, r *http.Request) {
	t, err := s.cfg.Index.Tool(r.Context(), s.principal(r), r.PathValue("path"))
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, t)
}

// Hints accepts weaker hints of tools.
type Hints interface {
	AcceptHints(ctx context.Context, p tool.Principal, path, claim string) (*api.WeakerHints, error)
}

func (s *Server) acceptHints(w http.ResponseWriter, r *http.Request) {
	var a struct {
		Claim string `json:"claim"`
	}
	if err := read(r, &a); err != nil {
		fail(w, err)
		return
	}
	if a.Claim == "" {
		fail(w, tool.Errorf(tool.Invalid, `"claim" is required, the tool's claim from the list of tools: nothing was accepted`))
		return
	}
	accepted, err := s.cfg.Hints.AcceptHints(r.Context(), s.principal(r), r.PathValue("path"), a.Claim)
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, accepted)
}

func (s *Server) types(w http.ResponseWriter, r *http.Request) {
	write(w, http.StatusOK, s.cfg.Index.Types(r.Context(), s.principal(r)))
}

// search answers with the text that an agent's search returns, and with the hits as objects.
func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	args := map[string]any{"query": q.Get("query")}
	limit := 0
	if l := q.Get("limit"); l != "" {
		n, err := strconv.Atoi(l)
		if err != nil || n < 1 {
			fail(w, tool.Errorf(tool.Invalid, "limit %q must be a positive number", l))
			return
		}
		limit, args["limit"] = n, n
	}
	raw, err := tool.Marshal(args)
	if err != nil {
		fail(w, err)
		return
	}
	res, err := s.cfg.Door.Call(r.Context(), &tool.Call{Path: tool.SearchPath, Arguments: raw, Principal: s.principal(r)})
	if err != nil {
		fail(w, err)
		return
	}
	hits, err := s.cfg.Index.Search(r.Context(), s.principal(r), q.Get("query"), limit)
	if err != nil {
		fail(w, err)
		return
	}
	if hits == nil {
		hits = []api.Hit{}
	}
	write(w, http.StatusOK, api.Hits{Hits: hits, Text: text(res)})
}

// text returns the text blocks of a result, one per line.
func text(res *tool.Result) string {
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
