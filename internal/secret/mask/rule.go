package mask

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/lazily"
	"github.com/biplane-dev/biplane/internal/secret"
)

// MinUnnamed is the shortest value, in bytes, that is secret though no name says so.
const MinUnnamed = 8

var (
	// namesSecret matches what names of secrets end in, or have as a word.
	namesSecret = lazily.Regexp(`(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|tok|key|credentials?|cookie|jwt|dsn|signature|bearer)s?$|` +
		`(?:^|[_\-. ])(?:pass(?:word|wd|phrase)?|pwd|pw|pin|secret|token|key|auth|authorization|credentials?|creds?|cookie|jwt|pat|dsn)s?(?:$|[_\-. ])|apikey|api_key|secret`)
	// namesPlain matches what names of settings end in that hold no secret, whatever else is in
	// them.
	namesPlain = lazily.Regexp(`(?i)(?:^|[_\-. ])(?:file|path|dir|directory|folder|home|url|uri|endpoint|host|hostname|port|addr|address|domain|type|mode|` +
		`method|limit|size|count|name|user|username|login|email|id|ttl|expiry|timeout|region|zone|locale|lang|language|tz|timezone|env|environment|stage|level|version|enabled|debug|org|organization|project|model|format|accept|agent|host)s?$`)
	// words matches lower-case words and numbers with separators, such as production, eu-central-1
	// or gpt-4o-mini.
	words = lazily.Regexp(`^[a-z]+(?:[-._:/ =,][a-z0-9]+|\d{1,5})*$`)
	// hosts matches names of hosts and addresses of IP, with a port or without.
	hosts = lazily.Regexp(`^(?:localhost|(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}|[0-9.]{7,15}|\[[0-9a-fA-F:]+\])(?::\d{1,5})?$`)
	// packages matches names of packages as registries have them.
	packages = lazily.Regexp(`^(?:@[a-z0-9~-][\w.~-]*/)?[a-z0-9~-][a-z0-9._~-]*@[\w.^~*-]+$|^@[a-z0-9~-][\w.~-]*/[a-z0-9~-][\w.~-]*$`)
	numbers  = lazily.Regexp(`^[-+]?[\d.,:/_-]+(?:ms|[smhdkMGTK]i?[bB]?)?$`)
	// trivial are secret under no name, common only under that of a secret.
	trivial = []string{"true", "false", "none", "null", "enabled", "disabled", "default", "undefined", "required", "optional", "bearer", "oauth2", "anonymous",
		// well-known passwords of test installations
		"password", "changeme", "postgres", "postgresql", "mysecretpassword", "minioadmin", "rabbitmq", "mariadb", "mongodb", "elastic", "administrator", "example", "secret",
		// names of the protocol
		"jsonrpc", "method", "params", "result", "content", "structuredcontent", "message", "description", "inputschema", "outputschema", "properties", "string", "object", "number", "boolean", "integer"}
	common = []string{"production", "development", "staging", "localhost", "information", "warning", "verbose", "application/json", "text/plain", "text/event-stream", "keep-alive"}
)

// IsSecret reports whether the value of a setting, a variable or a header may be secret, when it is
// written in the configuration. Under a name that says so it is secret from MinValue bytes on,
// under another from MinUnnamed bytes on unless it looks ordinary: words, numbers, paths, hosts,
// addresses without credentials, packages.
func IsSecret(name, value string) bool {
	switch {
	case len(value) < MinValue || ordinary(value):
		return false
	case named(name):
		return true
	}
	return len(value) >= MinUnnamed && !words().MatchString(value) && !sentence(value) && (secret.Random(value) || !namesPlain().MatchString(name))
}

// IsSecretVariable reports whether the value of a variable of the environment, to which the
// configuration refers, may be secret. It differs from IsSecret in that words are secret too,
// unless the variable's name says that it holds something else.
func IsSecretVariable(name, value string) bool {
	switch {
	case len(value) < MinValue || ordinary(value):
		return false
	case named(name):
		return true
	case strings.Contains(value, "://"):
		return true
	case namesPlain().MatchString(name):
		return secret.Random(value)
	}
	return len(value) >= MinUnnamed && !slices.Contains(common, strings.ToLower(value))
}

func named(name string) bool {
	return namesSecret().MatchString(name) && !namesPlain().MatchString(name)
}

// ordinary reports whether a value is no secret whatever it is called.
func ordinary(v string) bool {
	switch {
	case slices.Contains(trivial, strings.ToLower(v)):
		return true
	case numbers().MatchString(v):
		return len(v) < MinUnnamed
	case strings.Contains(v, "://"):
		return len(Credentials(v)) == 0 && !mixed(v)
	case v[0] == '/' || v[0] == '~' || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || len(v) > 2 && v[1] == ':' && v[2] == '\\':
		return !slices.ContainsFunc(strings.FieldsFunc(v, func(r rune) bool { return r == '/' || r == '\\' }), secret.Random)
	}
	if _, err := mail.ParseAddress(v); err == nil {
		return true
	}
	return hosts().MatchString(v) || packages().MatchString(v)
}

// mixed reports whether a part of an address has digits and letters of both cases, as no name has.
func mixed(address string) bool {
	return slices.ContainsFunc(strings.Split(address, "/"), func(part string) bool {
		return strings.ContainsAny(part, "0123456789") && strings.ToLower(part) != part && strings.ToUpper(part) != part && !strings.Contains(part, ".")
	})
}

// sentence reports whether a value is several words as people write them.
func sentence(v string) bool {
	all := strings.Fields(v)
	if len(all) < 3 {
		return false
	}
	return !slices.ContainsFunc(all, func(w string) bool {
		return secret.Random(w) || strings.ContainsFunc(w, unicode.IsDigit)
	})
}

// AddNamed adds the values that are secret by IsSecret, by their names, and the credentials that
// addresses hold.
func (m *Masker) AddNamed(values map[string]string) {
	for name, v := range values {
		if IsSecret(name, v) {
			m.Add(v)
		}
		m.AddAddress(v)
	}
}

// AddAddress adds what is secret in an address.
func (m *Masker) AddAddress(address string) { m.Add(Credentials(address)...) }

// Credentials returns what is secret in an address: its password, values of its query with such
// names, and what looks like a key.
func Credentials(address string) (out []string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil
	}
	if password, has := u.User.Password(); has {
		out = append(out, password)
	} else if u.User != nil && secret.Random(u.User.Username()) {
		out = append(out, u.User.Username())
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if IsSecret(name, v) || secret.Random(v) {
				out = append(out, v)
			}
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if secret.Random(part) {
			out = append(out, part)
		}
	}
	if secret.Random(u.Fragment) {
		out = append(out, u.Fragment)
	}
	return out
}

// AddArguments adds what is secret in the arguments of a command: values of flags with such names,
// and addresses.
func (m *Masker) AddArguments(args []string) {
	for i, arg := range args {
		if flag, value, ok := strings.Cut(arg, "="); ok && IsSecret(strings.TrimLeft(flag, "-"), value) && named(strings.TrimLeft(flag, "-")) {
			m.Add(value)
		}
		if name, value, ok := strings.Cut(arg, ": "); ok && named(name) { // a header
			m.Add(value)
		}
		if i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.HasPrefix(arg, "-") && named(strings.TrimLeft(args[i-1], "-")) && IsSecret(args[i-1], arg) {
			m.Add(arg)
		}
		m.AddAddress(arg)
	}
}
