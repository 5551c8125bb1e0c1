package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/control/audit/sink"
)

// Audit configures the audit record.
type Audit struct {
	Origin    string // the log's name; if empty, its existing name or a random one
	Retention retention.Policy

	Checkpoints Checkpoints
}

func (r *fileReader) readAudit(n *node) {
	s := &r.c.Audit
	const day = 24 * time.Hour
	keep := func(what string, to *retention.Keep) func(*node) {
		return func(n *node) {
			*to = retention.Keep(r.oneOf(n, what, string(retention.KeepFull), string(retention.KeepRedacted),
				string(retention.KeepDigest), string(retention.KeepNone)))
		}
	}
	r.readObject(n, "audit", key{
		"origin": func(n *node) {
			if s.Origin = r.readText(n, "audit.origin"); s.Origin != "" {
				if err := proof.CheckOrigin(s.Origin); err != nil {
					r.addProblem(n, "audit.origin: %s", err)
				}
			}
		},
		"arguments":   keep("audit.arguments", &s.Retention.Arguments),
		"results":     keep("audit.results", &s.Retention.Results),
		"keep":        func(n *node) { s.Retention.For = r.readDays(n, "audit.keep", time.Hour, 36500*day) },
		"checkpoints": func(n *node) { r.readCheckpoints(n) },
		"secrets":     func(n *node) { s.Retention.Secrets = r.readTexts(n, "audit.secrets") },
	})
}

// Checkpoints configures how often the record is signed and where checkpoints are sent. Empty or
// nil destinations are not used.
type Checkpoints struct {
	Every   time.Duration // 0: sink.DefaultEvery
	File    string        // absolute
	Webhook string
	Git     *sink.Git // without Work
	S3      *sink.S3
}

// ShownAudit is the printable form of an Audit.
type ShownAudit struct {
	Arguments   string   `json:"arguments"`
	Results     string   `json:"results"`
	Keep        string   `json:"keep"`
	Secrets     []string `json:"secrets,omitempty"`
	Origin      string   `json:"origin,omitempty"`
	Every       string   `json:"checkpoints_every"`
	Checkpoints []string `json:"checkpoints"` // kind and place of each
}

// Shown returns the printable form.
func (s *Audit) Shown() ShownAudit {
	keep := func(k, otherwise retention.Keep) string {
		if k == "" {
			return string(otherwise)
		}
		return string(k)
	}
	out := ShownAudit{
		Arguments: keep(s.Retention.Arguments, retention.KeepRedacted),
		Results:   keep(s.Retention.Results, retention.KeepDigest), Secrets: s.Retention.Secrets,
		Origin: s.Origin, Keep: formatSpan(s.Retention.For, retention.DefaultSpan),
		Every: formatSpan(s.Checkpoints.Every,
			sink.DefaultEvery), Checkpoints: []string{},
	}
	for _, k := range s.Checkpoints.Sinks("") {
		out.Checkpoints = append(out.Checkpoints, k.Name())
	}
	return out
}

// formatSpan formats a duration as in a configuration. If it is not positive, the default is used.
func formatSpan(d, otherwise time.Duration) string {
	if d <= 0 {
		d = otherwise
	}
	return text.Setting(d)
}

// Sinks returns the sinks. work is a folder for their working data.
func (s *Checkpoints) Sinks(work string) (out []sink.Sink) {
	if s.File != "" {
		out = append(out, &sink.File{Path: s.File})
	}
	if s.Webhook != "" {
		out = append(out, &sink.Webhook{URL: s.Webhook})
	}
	if s.Git != nil {
		g := *s.Git
		g.Work = filepath.Join(work, "checkpoints.git")
		out = append(out, &g)
	}
	if s.S3 != nil {
		out = append(out, s.S3)
	}
	return out
}

const auditDay = 24 * time.Hour

func (r *fileReader) readCheckpoints(n *node) {
	s := &r.c.Audit.Checkpoints
	const what = "audit.checkpoints"
	r.readObject(n, what, key{
		"every":   func(n *node) { s.Every = r.readDays(n, what+".every", time.Second, 30*auditDay) },
		"file":    func(n *node) { s.File = r.readDir(n, what+".file") },
		"webhook": func(n *node) { s.Webhook = r.readAddress(n, what+".webhook") },
		"git": func(n *node) {
			s.Git = &sink.Git{}
			r.readObject(n, what+".git", key{
				"repository": func(n *node) { s.Git.Repository = r.readRepository(n, what+".git.repository") },
				"branch":     func(n *node) { s.Git.Branch = r.readText(n, what+".git.branch") },
			})
			if s.Git.Repository == "" {
				r.addProblem(n, "%s.git needs a repository: a folder, or an address", what)
			}
			if strings.HasPrefix(s.Git.Branch, "-") || strings.ContainsAny(s.Git.Branch, " ~^:?*[\\") {
				r.addProblem(n, "%s.git.branch: invalid branch name %q", what, clipText(s.Git.Branch))
			}
		},
		"s3": func(n *node) { s.S3 = &sink.S3{}; r.readS3(n, s.S3, what+".s3") },
	})
}

func (r *fileReader) readS3(n *node, s *sink.S3, what string) {
	r.readObject(n, what, key{
		"endpoint":         func(n *node) { s.Endpoint = r.readAddress(n, what+".endpoint") },
		"bucket":           func(n *node) { s.Bucket = r.readText(n, what+".bucket") },
		"prefix":           func(n *node) { s.Prefix = r.readText(n, what+".prefix") },
		"region":           func(n *node) { s.Region = r.readText(n, what+".region") },
		"access_key":       func(n *node) { s.AccessKey = r.readText(n, what+".access_key") },
		"secret_key":       func(n *node) { s.SecretKey = r.readText(n, what+".secret_key") },
		"session_token":    func(n *node) { s.Token = r.readText(n, what+".session_token") },
		"object_lock_days": func(n *node) { s.LockDays = r.readCount(n, what+".object_lock_days", 1, 36500) },
	})
	for _, f := range []struct{ name, value string }{{"bucket", s.Bucket}, {"access_key", s.AccessKey},
		{"secret_key", s.SecretKey}} {
		if f.value == "" && n.kind == mapNode {
			r.addProblem(n, "%s needs %s", what, f.name)
		}
	}
	if strings.Contains(s.Bucket, "/") {
		r.addProblem(n, "%s.bucket: invalid bucket name %q: a path within the bucket belongs in prefix", what,
			clipText(s.Bucket))
	}
}

// readAddress reads the URL of a web service.
func (r *reader) readAddress(n *node, what string) string {
	text := r.readText(n, what)
	u, err := url.Parse(text)
	switch {
	case text == "":
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		r.addProblem(n, "%s must be an address like https://host/path", what)
	case u.Scheme == "http" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()):
		r.addWarning(n, "%s is not https: data sent there could be read and changed in transit", what)
	}
	return text
}

// readRepository reads a git repository: a URL, or a folder relative to the configuration.
func (r *fileReader) readRepository(n *node, what string) string {
	text := r.readText(n, what)
	switch {
	case strings.HasPrefix(text, "-"), strings.Contains(text, "::"):
		r.addProblem(n, "%s %q is neither a folder nor an address", what, clipText(text))
	case text == "", strings.Contains(text, "://"), filepath.IsAbs(text), strings.Contains(text, ":") &&
		!strings.HasPrefix(text, "."):
	default:
		text = filepath.Join(r.dir, text)
	}
	return text
}
