package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/privacy"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// PrivacySettings say whether models see personal data.
type PrivacySettings struct {
	Tokenize bool           // they see tokens
	Fields   []string       // paths of fields that are personal, as in @redact
	Kinds    []privacy.Kind // that are recognised; nil: all
	Binaries bool           // images, audio and other files that are no text are shown
	Idle     time.Duration  // tokens outside of sessions are forgotten when unused for so long; 0: 30 days
}

// What privacy may be besides off.
const tokenize = "tokenize"

func (r *reader) privacy(n *node, s *PrivacySettings) {
	if n.kind != mapNode {
		s.Tokenize = r.oneOf(n, "privacy", "off", tokenize) == tokenize
		return
	}
	moded := false
	r.object(n, "privacy", key{
		"mode": func(n *node) {
			moded, s.Tokenize = true, r.oneOf(n, "privacy.mode", "off", tokenize) == tokenize
		},
		"fields": func(n *node) {
			s.Fields = r.texts(n, "privacy.fields")
			for i, f := range s.Fields {
				if !tool.IsPath(f) {
					r.wrong(n.list[i], "privacy.fields: %q is no path of fields, like customer.name, items.*.owner or **.passport", clip(f))
				}
			}
		},
		"kinds": func(n *node) {
			s.Kinds = []privacy.Kind{}
			for i, k := range r.texts(n, "privacy.kinds") {
				if wrong := wrongKind(k, privacy.Kinds()); wrong != "" {
					r.wrong(n.list[i], "privacy.kinds: %s", wrong)
				}
				s.Kinds = append(s.Kinds, privacy.Kind(k))
			}
		},
		"binaries": func(n *node) { s.Binaries = r.oneOf(n, "privacy.binaries", "withhold", "pass") == "pass" },
		"idle":     func(n *node) { s.Idle = r.days(n, "privacy.idle", time.Hour, 3650*24*time.Hour) },
	})
	if !moded {
		r.wrong(n, "privacy has no mode: write mode: tokenize")
	}
}

// wrongKind says what is wrong with a name that is to be one of some kinds of personal data; empty: nothing.
func wrongKind(name string, kinds []privacy.Kind) string {
	if slices.Contains(kinds, privacy.Kind(name)) {
		return ""
	}
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return fmt.Sprintf("%q is none of %s", clip(name), strings.Join(names, ", "))
}

// newPrivacy makes what keeps personal data from models; nil where the configuration doesn't ask for it.
func (d *Daemon) newPrivacy(key *secret.Key) *privacy.Guard {
	s := d.cfg.Settings.Privacy
	if !s.Tokenize {
		return nil
	}
	return privacy.New(privacy.Config{Store: d.store.Privacy(key), Fields: s.Fields, Kinds: s.Kinds, Binaries: s.Binaries, Idle: s.Idle, Log: d.log})
}
