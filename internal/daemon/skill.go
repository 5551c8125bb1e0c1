package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits on the skills in a search result.
const (
	skillHits     = 5
	skillOverview = 20
	skillBytes    = 4_000
)

// withSkills adds to search the skills that the caller can import. Those whose name is in the query
// come before the tools, others after them.
func withSkills(search tool.Caller, skills func(context.Context, tool.Principal) ([]skill.Info, error),
	guard *privacy.Guard) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		res, err := search.Call(ctx, c)
		if err != nil || res.IsError {
			return res, err
		}
		all, err := skills(ctx, c.Principal)
		if err != nil || len(all) == 0 {
			return res, err
		}
		var q struct{ Query, Detail string }
		if len(c.Arguments) > 0 {
			if err := json.Unmarshal(c.Arguments, &q); err != nil {
				return res, nil // search has parsed it already, so it is valid
			}
		}
		if res.Structured != nil { // the search was made by a program, which gets a list
			return withSkillList(res, all, q.Query)
		}
		named, others := skillTexts(all, q.Query, q.Detail != "brief")
		if named+others == "" {
			return res, nil
		}
		hideFromModel(ctx, guard, c, &named, &others)
		var texts []string
		for _, raw := range res.Content {
			var b tool.TextBlock
			if err := json.Unmarshal(raw, &b); err != nil {
				return nil, err
			}
			texts = append(texts, b.Text)
		}
		parts := []string{named, strings.Join(texts, "\n"), others}
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		return tool.Text(false, strings.TrimSpace(strings.Join(parts, "\n\n"))), nil
	})
}

// hideFromModel hides personal data in texts that programs wrote, if the call is from outside.
// Programs see the data itself.
func hideFromModel(ctx context.Context, guard *privacy.Guard, c *tool.Call, texts ...*string) {
	if c.FromProgram().Execution != "" {
		return
	}
	s := guard.Sheet(ctx, tool.Scope{Owner: c.Principal.ID, Session: c.FromProgram().Session})
	for _, t := range texts {
		s.Text(t)
	}
	s.Hide(ctx)
}

// withSkillList adds the skills that match a query to a list of tools for a program, as a note on
// the first tool.
func withSkillList(res *tool.Result, all []skill.Info, query string) (*tool.Result, error) {
	named, others := skillTexts(all, query, false)
	text := strings.TrimSpace(named + "\n" + others)
	var list []catalog.Found
	if err := json.Unmarshal(res.Structured, &list); err != nil || len(list) == 0 || text == "" {
		return res, err
	}
	list[0].Note = strings.TrimSpace(list[0].Note + "\n" + text)
	raw, err := tool.Marshal(struct {
		Content    []json.RawMessage `json:"content"`
		Structured []catalog.Found   `json:"structuredContent"`
	}{append(res.Content, textBlock(text)), list})
	if err != nil {
		return nil, err
	}
	return tool.ParseResult(raw)
}

func textBlock(text string) json.RawMessage {
	raw, err := tool.Marshal(tool.TextBlock{Type: "text", Text: text})
	if err != nil {
		panic(err) // strings always marshal
	}
	return raw
}

// skillTexts describes the skills that match a query. If the query is empty, it lists all names.
// The result named has the skills whose name matches: all words of the name are in the query, or
// vice versa.
func skillTexts(all []skill.Info, query string, full bool) (named, others string) {
	want := splitWords(query)
	if len(want) == 0 {
		return "", skillNames(all)
	}
	score := func(s skill.Info) (n int) {
		have := splitWords(s.Name + " " + s.Description + " " + strings.Join(s.Signatures, " "))
		for _, w := range want {
			if slices.Contains(have, w) {
				n++
			}
		}
		return n
	}
	hits := slices.DeleteFunc(slices.Clone(all), func(s skill.Info) bool { return score(s) == 0 })
	slices.SortStableFunc(hits, func(a, b skill.Info) int { return score(b) - score(a) })
	says := func(s skill.Info) bool {
		base, _, _ := strings.Cut(s.Name, ".")
		name := splitWords(base)
		return len(name) > 0 && (containsAll(name, want) || containsAll(want, name))
	}
	var first, rest []skill.Info
	for _, s := range hits[:min(len(hits), skillHits)] {
		if says(s) {
			first = append(first, s)
		} else {
			rest = append(rest, s)
		}
	}
	return skillLines(first, full), skillLines(rest, full)
}

// containsAll reports whether all of a are in b.
func containsAll(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

func skillLines(hits []skill.Info, full bool) string {
	var b strings.Builder
	for _, s := range hits {
		text := "skill ./skills/" + s.Name
		if s.Description != "" {
			text += " - " + s.Description
		}
		text += "\n"
		if full {
			for _, line := range append([]string{s.Import}, s.Signatures...) {
				if line != "" {
					text += line + "\n"
				}
			}
		}
		if b.Len()+len(text) <= skillBytes {
			b.WriteString(text)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func skillNames(all []skill.Info) string {
	var names []string
	for _, s := range all[:min(len(all), skillOverview)] {
		names = append(names, s.Name)
	}
	more := ""
	if n := len(all) - len(names); n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return "Skills, to import from ./skills: " + strings.Join(names, ", ") + more
}

// common are words that are ignored in queries and descriptions.
var common = []string{"a", "an", "and", "for", "from", "in", "of", "on", "or", "the", "to", "with", "function", "async",
	"const", "string", "number", "def"}

// splitWords returns the words of a text in lower case. It splits camelCase and snake_case.
func splitWords(s string) []string {
	var b strings.Builder
	var before rune
	for _, c := range s {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) || unicode.IsUpper(c) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			b.WriteRune(unicode.ToLower(c))
		}
		before = c
	}
	return slices.DeleteFunc(strings.Fields(b.String()), func(w string) bool { return slices.Contains(common, w) })
}
