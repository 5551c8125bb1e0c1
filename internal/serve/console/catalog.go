package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of the pages of tools.
const (
	shownTools  = 2000 // in the tree
	shownFields = 50   // of a form
	maxCode     = 64 << 10
)

// A toolGroup is an upstream with its tools.
type toolGroup struct {
	Upstream *api.Upstream // nil: it is not in the list of upstreams
	Name     string
	Tools    []api.Tool
}

type catalogData struct {
	Query     string
	Hits      *api.Hits
	Groups    []*toolGroup
	Notices   []api.DefinitionNotice // that a person should look at
	Weaker    []api.WeakerHints
	More      int
	MayAccept bool
	UpBad     string
}

// showTools shows the catalog as a tree or, with a query, what an agent's search returns.
func showTools(v *visit) error {
	c, ctx := v.newClient(), v.r.Context()
	d := &catalogData{Query: v.r.URL.Query().Get("q"), MayAccept: v.mayUse("POST /tools/{path}/accept")}
	if d.Query != "" {
		hits, err := c.Search(ctx, d.Query, 0)
		if err != nil {
			return ownError(err)
		}
		d.Hits = hits
	}
	tools, err := c.Tools(ctx)
	if err != nil {
		return ownError(err)
	}
	ups, err := c.Upstreams(ctx)
	d.UpBad = problemOf(err)
	d.Groups, d.More = groupTools(tools, ups)
	for i := range ups {
		d.Notices = append(d.Notices, ups[i].Definitions...)
		d.Weaker = append(d.Weaker, ups[i].Weaker...)
	}
	v.renderPage(http.StatusOK, "tools.html", d)
	return nil
}

// groupTools returns the upstreams with their tools, and how many tools were left out.
func groupTools(tools []api.Tool, ups []api.Upstream) (out []*toolGroup, more int) {
	byName := map[string]*toolGroup{}
	for i := range ups {
		g := &toolGroup{Upstream: &ups[i], Name: ups[i].Name}
		byName[g.Name], out = g, append(out, g)
	}
	if len(tools) > shownTools {
		tools, more = tools[:shownTools], len(tools)-shownTools
	}
	for _, t := range tools {
		g := byName[t.Upstream]
		if g == nil {
			g = &toolGroup{Name: t.Upstream}
			byName[g.Name], out = g, append(out, g)
		}
		g.Tools = append(g.Tools, t)
	}
	slices.SortStableFunc(out, func(a, b *toolGroup) int { return cmp.Compare(a.Name, b.Name) })
	return out, more
}

// acceptTool accepts a tool's definition or its weaker hints, as a page showed them.
func acceptTool(v *visit) error {
	_, err := v.newClient().AcceptHints(v.r.Context(), v.r.PathValue("path"), v.r.PostForm.Get("claim"))
	if err != nil {
		return ownError(err)
	}
	http.Redirect(v.w, v.r, "/tools", http.StatusSeeOther)
	return nil
}

// A field is an argument of a tool in a form.
type field struct {
	Name, Kind  string // Kind: "text", "number", "boolean", "choice" or "json"
	Description string
	Choices     []string
	Required    bool
}

type toolData struct {
	*api.ToolDetail
	Lines         []*codeLine // the signature
	Input, Output *tree
	Seen          *tree // what results have looked like
	Fields        []field
	MayRun        bool
}

// showTool shows a tool, with a form to try it.
func showTool(v *visit) error {
	t, err := v.newClient().Tool(v.r.Context(), v.r.PathValue("path"))
	if err != nil {
		return ownError(err)
	}
	d := toolData{ToolDetail: t, Input: newTree(t.InputSchema), Output: newTree(t.OutputSchema),
		MayRun: v.mayUse("POST /executions")}
	d.Lines, _ = colourProgram(t.Signature, "typescript")
	d.Fields = formFields(t.InputSchema)
	if t.Observed != nil {
		d.Seen = newTree(t.Observed.Schema)
	}
	v.renderPage(http.StatusOK, "tool.html", d)
	return nil
}

// formFields returns the arguments of a tool, in the order of its schema.
func formFields(schema json.RawMessage) (out []field) {
	var top struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(schema, &top) != nil {
		return nil
	}
	for name, p := range top.Properties {
		f := field{Name: name, Description: p.Description, Required: slices.Contains(top.Required, name), Kind: "json"}
		switch p.Type {
		case "string":
			f.Kind = "text"
		case "number", "integer":
			f.Kind = "number"
		case "boolean":
			f.Kind, f.Choices = "choice", []string{"true", "false"}
		}
		if len(p.Enum) > 0 && len(p.Enum) <= 200 && f.Kind == "text" {
			f.Choices, f.Kind = nil, "choice"
			for _, e := range p.Enum {
				f.Choices = append(f.Choices, fmt.Sprint(e))
			}
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b field) int {
		if a.Required != b.Required {
			return map[bool]int{true: -1, false: 1}[a.Required]
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out[:min(len(out), shownFields)]
}

// tryTool runs a program that calls one tool with the arguments of a form. So the call has the same
// rules, limits and record as an agent's.
func tryTool(v *visit) error {
	c, path := v.newClient(), v.r.PathValue("path")
	t, err := c.Tool(v.r.Context(), path)
	if err != nil {
		return ownError(err)
	}
	args, err := formArguments(formFields(t.InputSchema), v.r.PostForm)
	if err != nil {
		return err
	}
	name, err := tool.Marshal(t.Path)
	if err != nil {
		return err
	}
	quoted, err := tool.Marshal(string(args)) // a literal could set a prototype
	if err != nil {
		return err
	}
	return startProgram(v, api.RunRequest{
		Code: fmt.Sprintf("return await callTool(%s, JSON.parse(%s));\n", name, quoted)})
}

// formArguments returns the arguments that a form contains. Empty fields are left out. The field
// "arguments", if it is not empty, replaces all others.
func formArguments(fields []field, f url.Values) (json.RawMessage, error) {
	if text := strings.TrimSpace(f.Get("arguments")); text != "" {
		if !json.Valid([]byte(text)) || text[0] != '{' {
			return nil, tool.Errorf(tool.Invalid, "the arguments must be a JSON object: nothing was called")
		}
		return json.RawMessage(text), nil
	}
	args := map[string]json.RawMessage{}
	for _, a := range fields {
		text := f.Get("arg." + a.Name)
		if text == "" {
			continue
		}
		raw := json.RawMessage(text)
		if a.Kind == "text" || a.Kind == "choice" && text != "true" && text != "false" {
			var err error
			if raw, err = tool.Marshal(text); err != nil {
				return nil, err
			}
		}
		if !json.Valid(raw) {
			return nil, tool.Errorf(tool.Invalid, "the argument %q is not valid JSON: nothing was called",
				tool.VisibleLine(a.Name))
		}
		args[a.Name] = raw
	}
	return tool.Marshal(args)
}

type playground struct {
	Code, Language, Session, After string
	Languages, Names               []string
	Problem                        string
	Execution                      string // whose recorded answers the program can be tried against; empty: none
	Reads                          bool
	Hidden                         []hiddenCharacter // in the program
	Trial                          *trialData
}

// showPlayground shows a form to write a program, with the program of an earlier execution if one
// is named.
func showPlayground(v *visit) error {
	d := playground{Language: "typescript"}
	if id := v.r.URL.Query().Get("execution"); id != "" {
		x, err := v.newClient().Journal(v.r.Context(), id)
		if err != nil {
			return ownError(err)
		}
		d.Code, d.Language, d.Session, d.Execution = x.Program, x.Language, x.Session, id
		if x.Ended == nil || x.Lost != "" {
			d.Execution = "" // it can't be replayed
		}
	}
	return renderPlayground(v, &d)
}

// renderPlayground shows the form.
func renderPlayground(v *visit, d *playground) error {
	d.Languages, d.Hidden = []string{"typescript", "python", "bash"}, findHidden(d.Code)
	tools, err := v.newClient().Tools(v.r.Context())
	d.Problem = problemOf(err)
	for _, t := range tools[:min(len(tools), shownTools)] {
		d.Names = append(d.Names, t.Path)
	}
	v.renderPage(http.StatusOK, "playground.html", d)
	return nil
}

// runPlayground runs the program of the form.
func runPlayground(v *visit) error {
	f := v.r.PostForm
	code := strings.ReplaceAll(f.Get("code"), "\r\n", "\n") // browsers send CRLF
	if strings.TrimSpace(code) == "" {
		return tool.Errorf(tool.Invalid, "the program is empty")
	}
	if len(code) > maxCode {
		return tool.Errorf(tool.Limit, "the program is larger than %d KiB: use biplane run", maxCode>>10)
	}
	r := api.RunRequest{Code: code, Language: f.Get("language"), Session: f.Get("session"), After: f.Get("after")}
	if f.Get("action") == "try" {
		return tryProgram(v, &playground{Code: code, Language: r.Language, Session: r.Session, After: r.After,
			Execution: f.Get("execution"), Reads: f.Get("reads") == "true"})
	}
	if f.Get("plan") == "true" {
		r.Mode = "plan"
	}
	return startProgram(v, r)
}

// startProgram runs a program, and leads to the page of its execution.
func startProgram(v *visit, r api.RunRequest) error {
	r.NoWait = true
	x, err := v.newClient().Run(v.r.Context(), r)
	if err != nil {
		return ownError(err)
	}
	http.Redirect(v.w, v.r, "/executions/"+url.PathEscape(x.ID), http.StatusSeeOther)
	return nil
}

// A diffLine is a line of a unified diff.
type diffLine struct{ Class, Text string }

// splitDiff splits a unified diff into lines.
func splitDiff(text string) (out []diffLine) {
	for line := range bytes.Lines([]byte(tool.Visible([]byte(text)))) {
		class := ""
		switch line[0] {
		case '+':
			class = "added"
		case '-':
			class = "removed"
		}
		out = append(out, diffLine{class, strings.TrimSuffix(string(line), "\n")})
	}
	return out
}

// parseNumber returns the number in a query, or fallback if it is empty or invalid.
func parseNumber(text string, fallback int) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n
	}
	return fallback
}
