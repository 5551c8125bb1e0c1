package config

import (
	"time"

	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Privacy configures whether models see personal data.
type Privacy struct {
	Tokenize bool           // models see tokens instead
	Fields   []string       // paths of fields that are personal, as in @redact
	Kinds    []privacy.Kind // to recognize; nil: all
	Binaries bool           // show images, audio and other binary files
	Idle     time.Duration  // unused tokens outside of sessions are deleted after this time; 0: 30 days
}

// tokenize is the value of privacy that turns it on.
const tokenize = "tokenize"

func (r *fileReader) readPrivacy(n *node) {
	s := &r.c.Privacy
	if n.kind != mapNode {
		s.Tokenize = r.oneOf(n, "privacy", "off", tokenize) == tokenize
		return
	}
	moded := false
	r.readObject(n, "privacy", key{
		"mode": func(n *node) {
			moded, s.Tokenize = true, r.oneOf(n, "privacy.mode", "off", tokenize) == tokenize
		},
		"fields": func(n *node) {
			s.Fields = r.readTexts(n, "privacy.fields")
			for i, f := range s.Fields {
				if !tool.IsPath(f) {
					r.addProblem(n.list[i], "privacy.fields: invalid field path %q: write one like customer.name, "+
						"items.*.owner or **.passport", clipText(f))
				}
			}
		},
		"kinds": func(n *node) {
			s.Kinds = []privacy.Kind{}
			for i, k := range r.readTexts(n, "privacy.kinds") {
				if err := privacy.CheckKind(k, privacy.Kinds()); err != nil {
					r.addProblem(n.list[i], "privacy.kinds: %s", err)
				}
				s.Kinds = append(s.Kinds, privacy.Kind(k))
			}
		},
		"binaries": func(n *node) { s.Binaries = r.oneOf(n, "privacy.binaries", "withhold", "pass") == "pass" },
		"idle":     func(n *node) { s.Idle = r.readDays(n, "privacy.idle", time.Hour, 3650*24*time.Hour) },
	})
	if !moded {
		r.addProblem(n, "privacy has no mode: write mode: tokenize")
	}
}
