package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// lockName is the name of the lock file beside the configuration.
const lockName = "biplane.lock"

// Definitions configures what happens to tools by their definitions. In the configuration of an
// upstream, empty rules are those of the whole configuration.
type Definitions struct {
	Lock     string // absolute path of the lock file; empty: definitions are not pinned
	Changed  string // a tool whose definition differs from the pinned one: "warn", "quarantine"
	New      string // a tool without a pin: "accept", "warn", "quarantine"
	Findings string // a tool with findings that no person has accepted: "off", "warn", "quarantine"
}

// DefinitionRules returns the rules for the tools of an upstream.
func (c *Config) DefinitionRules(upstream string) Definitions {
	out := c.Definitions
	for _, s := range c.ListSources() {
		if s.Name == upstream {
			out.Changed = cmp.Or(s.Definitions.Changed, out.Changed)
			out.New = cmp.Or(s.Definitions.New, out.New)
			out.Findings = cmp.Or(s.Definitions.Findings, out.Findings)
		}
	}
	out.Changed = cmp.Or(out.Changed, "quarantine")
	out.New = cmp.Or(out.New, "accept")
	out.Findings = cmp.Or(out.Findings, "warn")
	return out
}

// readDefinitions reads the rules. Only those of the whole configuration can name the lock file.
func (r *reader) readDefinitions(n *node, what string, d *Definitions) {
	known := key{
		"changed":  func(n *node) { d.Changed = r.oneOf(n, what+".changed", "warn", "quarantine") },
		"new":      func(n *node) { d.New = r.oneOf(n, what+".new", "accept", "warn", "quarantine") },
		"findings": func(n *node) { d.Findings = r.oneOf(n, what+".findings", "off", "warn", "quarantine") },
	}
	if what == "definitions" {
		d.Lock = filepath.Join(r.dir, lockName)
		known["lock"] = func(n *node) {
			text := r.readText(n, what+".lock")
			if text == "" {
				r.addProblem(n, "%s.lock is empty: name a file, or remove it for %s", what, lockName)
			}
			d.Lock = r.resolvePath(text)
		}
	}
	r.readObject(n, what, known)
}

// findLock chooses the lock file of a configuration that doesn't name one: there is one if an
// upstream has rules, or if the file exists.
func (c *Config) findLock() {
	if c.Definitions.Lock != "" || c.File == "" {
		return
	}
	path := filepath.Join(filepath.Dir(c.File), lockName)
	_, err := os.Stat(path)
	needed := err == nil || !errors.Is(err, fs.ErrNotExist)
	for _, s := range c.ListSources() {
		needed = needed || s.Definitions != Definitions{}
	}
	if needed {
		c.Definitions.Lock = path
	}
}

// ShownDefinitions is the printable form of Definitions.
type ShownDefinitions struct {
	Lock     string `json:"lock,omitempty"`
	Changed  string `json:"changed"`
	New      string `json:"new"`
	Findings string `json:"findings"`
}

// showDefinitions returns the printable form of the rules for all upstreams.
func (c *Config) showDefinitions() ShownDefinitions {
	return ShownDefinitions(c.DefinitionRules(""))
}
