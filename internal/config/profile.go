package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/control/policy"
)

// maxProfiles is the maximum number of profiles.
const maxProfiles = 100

// profileName matches the names of profiles, which are elements of paths.
var profileName = lazily.Regexp(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Endpoints configures what agents see.
type Endpoints struct {
	Mode     string    // "code", "direct" or "auto"
	Profiles []Profile // in the order of the file
}

// A Profile is a separate endpoint for some of the tools.
type Profile struct {
	Name         string
	Tools        []policy.Rule
	Mode         string // "code", "direct" or "auto"; as for agents without a profile by default
	Instructions string // for agents; empty: the default ones
	Unprefixed   bool   // in mode direct, omit the upstream's name from unique tool names
}

// readProfiles reads the profiles.
func readProfiles(r *reader, n *node) (all []Profile) {
	r.eachEntry(n, "profiles", func(k, v *node) {
		p, what := Profile{Name: k.text}, "profiles."+k.text
		switch {
		case !profileName.Get().MatchString(k.text):
			r.addProblem(k, "profiles has the invalid name %q: use a-z, 0-9, '_' and '-', at most 63 characters",
				clipText(k.text))
		case k.text == "stdio":
			r.addProblem(k, "profiles can't have the name \"stdio\": the path /mcp/stdio is in use")
		}
		r.readObject(v, what, key{
			"tools":        func(n *node) { p.Tools = readProfileTools(r, n, what+".tools") },
			"mode":         func(n *node) { p.Mode = r.oneOf(n, what+".mode", "code", "direct", "auto") },
			"instructions": func(n *node) { p.Instructions = r.readText(n, what+".instructions") },
			"unprefixed":   func(n *node) { p.Unprefixed = r.readBool(n, what+".unprefixed") },
		})
		if len(p.Tools) == 0 {
			r.addProblem(k, "%s needs tools: a list of patterns like github.*", what)
		}
		if len(p.Instructions) > 16<<10 {
			r.addProblem(v, "%s.instructions are longer than 16 KiB", what)
		}
		all = append(all, p)
	})
	if len(all) > maxProfiles {
		r.addProblem(n, "at most %d profiles", maxProfiles)
	}
	return all
}

// readProfileTools reads the patterns of a profile's tools. A pattern without a dot is the name of
// an upstream.
func readProfileTools(r *reader, n *node, what string) (rules []policy.Rule) {
	for i, s := range r.readTexts(n, what) {
		checkToolPattern(r, n.list[i], what, s)
		if !strings.ContainsAny(s, ".*") {
			s += ".*"
		}
		rules = append(rules, policy.Rule{Pattern: s})
	}
	return rules
}

// ShownProfile is the printable form of a Profile.
type ShownProfile struct {
	Tools        []string `json:"tools"`
	Mode         string   `json:"mode"`
	Instructions string   `json:"instructions,omitempty"`
	Unprefixed   bool     `json:"unprefixed,omitempty"`
}

// showProfiles returns the printable form of the profiles by name.
func (c *Endpoints) showProfiles() map[string]ShownProfile {
	out := map[string]ShownProfile{}
	for _, p := range c.Profiles {
		shown := ShownProfile{Tools: []string{}, Mode: c.ModeOf(p), Instructions: p.Instructions,
			Unprefixed: p.Unprefixed}
		for _, rule := range p.Tools {
			shown.Tools = append(shown.Tools, rule.Pattern)
		}
		out[p.Name] = shown
	}
	return out
}

// ModeOf returns the mode of a profile: "code", "direct" or "auto".
func (c *Endpoints) ModeOf(p Profile) string {
	return cmp.Or(p.Mode, c.Mode)
}

// HasProfile reports whether there is a profile with a name.
func (c *Endpoints) HasProfile(name string) bool {
	return slices.ContainsFunc(c.Profiles, func(p Profile) bool { return p.Name == name })
}
