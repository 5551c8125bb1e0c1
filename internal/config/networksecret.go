package config

import (
	"net/http"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/egress"
)

// placeholderNames matches the names of placeholders, which are environment variables of programs.
var placeholderNames = lazily.Regexp(`^[A-Z][A-Z0-9_]{0,63}$`)

// takenNames lists variables that sandboxes use themselves.
var takenNames = []string{"PATH", "HOME", "TMPDIR", "USER", "LANG", "LC_ALL", "TZ", "TERM", "NODE_PATH", "NODE_OPTIONS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV"}

// readNetworkSecrets reads the secrets that are inserted into the requests of programs, or of a
// server in a sandbox.
func readNetworkSecrets(r *reader, n *node, part string) (all []egress.Secret) {
	r.eachEntry(n, part, func(k, v *node) {
		what := part + "." + k.text
		if !placeholderNames.Get().MatchString(k.text) || slices.Contains(takenNames, k.text) ||
			strings.HasPrefix(k.text, "PYTHON") {
			r.addProblem(k, "%s: it is an environment variable of programs: use capital letters, digits and _, and "+
				"a name that has no other meaning", clipText(what))
		}
		s := egress.Secret{Name: k.text, Header: "Authorization"}
		r.readObject(v, what, key{
			"secret": func(n *node) {
				if s.Secret = r.readText(n, what+".secret"); !IsSecretName(s.Secret) {
					r.addProblem(n, "%s.secret must be the name of a secret, such as github_token", what)
				}
			},
			"hosts": func(n *node) { s.Hosts = r.readHosts(n, what+".hosts") },
			"methods": func(n *node) {
				for _, m := range r.readTexts(n, what+".methods") {
					if m != strings.ToUpper(m) || m == "" {
						r.addProblem(n, "%s.methods: write methods in capital letters, such as GET", what)
					}
					s.Methods = append(s.Methods, m)
				}
			},
			"path": func(n *node) {
				if s.Path = r.readText(n, what+".path"); !strings.HasPrefix(s.Path, "/") {
					r.addProblem(n, "%s.path must begin with a slash, such as /repos/", what)
				}
			},
			"header": func(n *node) { s.Header = http.CanonicalHeaderKey(r.readText(n, what+".header")) },
		})
		if v.kind == mapNode && (s.Secret == "" || len(s.Hosts) == 0) {
			r.addProblem(v, "%s needs a secret and hosts, such as { secret: github_token, hosts: [api.github.com] }",
				what)
		}
		all = append(all, s)
	})
	return all
}
