package mask

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/secret"
)

// MinUnnamed is the minimum length, in bytes, of a value that is secret although its name doesn't
// say so.
const MinUnnamed = 8

var (
	// namesSecret matches names of secrets, by their endings or by a word in them.
	namesSecret = lazily.Regexp(
		`(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|tok|key|credentials?|cookie|jwt|dsn|signature|bearer)s?$|` +
			`(?:^|[_\-. ])(?:pass(?:word|wd|phrase)?|pwd|pw|pin|secret|token|key|auth|authorization|credentials?|creds?|cookie|jwt|pat|dsn)s?(?:$|[_\-. ])|apikey|api_key|secret`)
	// namesPlain matches names of settings that contain no secret, by their endings, whatever else
	// they contain.
	namesPlain = lazily.Regexp(
		`(?i)(?:^|[_\-. ])(?:file|path|dir|directory|folder|home|url|uri|endpoint|host|hostname|port|addr|address|domain|type|mode|` +
			`method|limit|size|count|name|user|username|login|email|id|ttl|expiry|timeout|region|zone|locale|lang|language|tz|timezone|env|environment|stage|level|version|enabled|debug|org|organization|project|model|format|accept|agent|host)s?$`)
	// words matches lower-case words and numbers with separators, such as production, eu-central-1
	// or gpt-4o-mini.
	words = lazily.Regexp(`^[a-z]+(?:[-._:/ =,][a-z0-9]+|\d{1,5})*$`)
	// hosts matches host names and IP addresses, with or without a port.
	hosts = lazily.Regexp(`^(?:localhost|(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}|[0-9.]{7,15}|\[[0-9a-fA-F:]+\])(?::\d{1,5})?$`)
	// packages matches names of packages in registries.
	packages = lazily.Regexp(`^(?:@[a-z0-9~-][\w.~-]*/)?[a-z0-9~-][a-z0-9._~-]*@[\w.^~*-]+$|^@[a-z0-9~-][\w.~-]*/[a-z0-9~-][\w.~-]*$`)
	numbers  = lazily.Regexp(`^[-+]?[\d.,:/_-]+(?:ms|[smhdkMGTK]i?[bB]?)?$`)
	// trivial values are not secret under any name; common ones only under the name of a secret.
	trivial = []string{"true", "false", "none", "null", "enabled", "disabled", "default", "undefined", "required",
		"optional", "bearer", "oauth2", "anonymous",
		// well-known passwords of test installations
		"password", "changeme", "postgres", "postgresql", "mysecretpassword", "minioadmin", "rabbitmq", "mariadb",
		"mongodb", "elastic", "administrator", "example", "secret",
		// names used by the protocol
		"jsonrpc", "method", "params", "result", "content", "structuredcontent", "message", "description",
		"inputschema", "outputschema", "properties", "string", "object", "number", "boolean", "integer"}
	common = []string{"production", "development", "staging", "localhost", "information", "warning", "verbose",
		"application/json", "text/plain", "text/event-stream", "keep-alive"}
)

// IsSecret reports whether the value of a setting, a variable or a header in the configuration may
// be secret. If the name sounds like a secret's, a value of at least MinValue bytes is. Otherwise
// it needs MinUnnamed bytes, and must not look ordinary: words, numbers, paths, hosts, addresses
// without credentials, packages.
func IsSecret(name, value string) bool {
	switch {
	case len(value) < MinValue || isOrdinary(value):
		return false
	case isSecretName(name):
		return true
	}
	return len(value) >= MinUnnamed && !words.Get().MatchString(value) && !isSentence(value) &&
		(secret.LooksRandom(value) || !namesPlain.Get().MatchString(name))
}

// IsSecretVariable reports whether the value of an environment variable that the configuration
// refers to may be secret. Unlike in IsSecret, words are secret, too, unless the name sounds
// like another setting's.
func IsSecretVariable(name, value string) bool {
	switch {
	case len(value) < MinValue || isOrdinary(value):
		return false
	case isSecretName(name):
		return true
	case strings.Contains(value, "://"):
		return true
	case namesPlain.Get().MatchString(name):
		return secret.LooksRandom(value)
	}
	return len(value) >= MinUnnamed && !slices.Contains(common, strings.ToLower(value))
}

func isSecretName(name string) bool {
	return namesSecret.Get().MatchString(name) && !namesPlain.Get().MatchString(name)
}

// isOrdinary reports whether a value is not a secret, whatever its name.
func isOrdinary(v string) bool {
	switch {
	case slices.Contains(trivial, strings.ToLower(v)):
		return true
	case numbers.Get().MatchString(v):
		return len(v) < MinUnnamed
	case strings.Contains(v, "://"):
		return len(Credentials(v)) == 0 && !isMixedCase(v)
	case v[0] == '/' || v[0] == '~' || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") ||
		len(v) > 2 && v[1] == ':' && v[2] == '\\':
		return !slices.ContainsFunc(strings.FieldsFunc(v, func(r rune) bool {
			return r == '/' || r == '\\'
		}), secret.LooksRandom)
	}
	if _, err := mail.ParseAddress(v); err == nil {
		return true
	}
	return hosts.Get().MatchString(v) || packages.Get().MatchString(v)
}

// isMixedCase reports whether a part of an address has digits and letters of both cases, as names
// don't.
func isMixedCase(address string) bool {
	return slices.ContainsFunc(strings.Split(address, "/"), func(part string) bool {
		return strings.ContainsAny(part, "0123456789") && strings.ToLower(part) != part &&
			strings.ToUpper(part) != part && !strings.Contains(part, ".")
	})
}

// isSentence reports whether a value is several words of prose.
func isSentence(v string) bool {
	all := strings.Fields(v)
	if len(all) < 3 {
		return false
	}
	return !slices.ContainsFunc(all, func(w string) bool {
		return secret.LooksRandom(w) || strings.ContainsFunc(w, unicode.IsDigit)
	})
}

// AddSecrets adds the values that are secret according to IsSecret, by name, and the credentials in
// addresses.
func (m *Masker) AddSecrets(values map[string]string) {
	for name, v := range values {
		if IsSecret(name, v) {
			m.Add(v)
		}
		m.AddAddress(v)
	}
}

// AddAddress adds the secrets in an address.
func (m *Masker) AddAddress(address string) { m.Add(Credentials(address)...) }

// Credentials returns the secrets in an address: its password, query values with the name of a
// secret, and parts that look like a key.
func Credentials(address string) (out []string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil
	}
	if password, has := u.User.Password(); has {
		out = append(out, password)
	} else if u.User != nil && secret.LooksRandom(u.User.Username()) {
		out = append(out, u.User.Username())
	}
	for name, values := range u.Query() {
		for _, v := range values {
			if IsSecret(name, v) || secret.LooksRandom(v) {
				out = append(out, v)
			}
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if secret.LooksRandom(part) {
			out = append(out, part)
		}
	}
	if secret.LooksRandom(u.Fragment) {
		out = append(out, u.Fragment)
	}
	return out
}

// AddArguments adds the secrets in a command's arguments: the values of flags and headers that are
// named like secrets, and credentials in addresses.
func (m *Masker) AddArguments(args []string) {
	for i, arg := range args {
		if flag, value, ok := strings.Cut(arg, "="); ok && IsSecret(strings.TrimLeft(flag, "-"), value) &&
			isSecretName(strings.TrimLeft(flag, "-")) {
			m.Add(value)
		}
		if name, value, ok := strings.Cut(arg, ": "); ok && isSecretName(name) { // a header
			m.Add(value)
		}
		if i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.HasPrefix(arg, "-") &&
			isSecretName(strings.TrimLeft(args[i-1], "-")) && IsSecret(args[i-1], arg) {
			m.Add(arg)
		}
		m.AddAddress(arg)
	}
}
