package oauth

import "strings"

// Limits of challenges and scopes.
const (
	maxChallenge = 16 << 10 // bytes of all WWW-Authenticate headers
	maxScopes    = 100
	maxScope     = 256 // bytes of one
)

// A challenge is the reason that a server sent with a refusal (RFC 6750 section 3, RFC 9728 section
// 5.1).
type challenge struct {
	metadata string   // resource_metadata
	scopes   []string // scope
	code     string   // error
}

// parseChallenge parses the Bearer challenge of WWW-Authenticate headers (RFC 9110 section 11.6.1).
// It skips invalid parts: a sign-in may still work if the server sent another scheme or an invalid
// challenge.
func parseChallenge(headers []string) (c challenge) {
	room := maxChallenge
	for _, h := range headers {
		if room -= len(h); room < 0 {
			return c
		}
		bearer := false
		for p := (params{rest: h}); ; {
			scheme, name, value, ok := p.nextParam()
			if !ok {
				break
			}
			if scheme != "" {
				bearer = strings.EqualFold(scheme, "Bearer")
				continue
			}
			if !bearer {
				continue
			}
			switch strings.ToLower(name) {
			case "resource_metadata":
				c.metadata = value
			case "scope":
				c.scopes = cleanScopes(strings.Fields(value))
			case "error":
				c.code = value
			}
		}
	}
	return c
}

// A params parses a header of challenges: schemes, each followed by parameters or one token68.
type params struct{ rest string }

// nextParam returns the next scheme or parameter. ok is false at the end.
func (p *params) nextParam() (scheme, name, value string, ok bool) {
	for {
		p.rest = strings.TrimLeft(p.rest, " \t,")
		if p.rest == "" {
			return "", "", "", false
		}
		n := 0
		for n < len(p.rest) && isTokenChar(p.rest[n]) {
			n++
		}
		if n == 0 { // not in the grammar
			p.rest = p.rest[1:]
			continue
		}
		word := p.rest[:n]
		after := strings.TrimLeft(p.rest[n:], " \t")
		if !strings.HasPrefix(after, "=") {
			p.rest = p.rest[n:]
			return word, "", "", true
		}
		p.rest = strings.TrimLeft(after[1:], " \t")
		return "", word, p.parseValue(), true
	}
}

// parseValue parses a token or a quoted string.
func (p *params) parseValue() string {
	if !strings.HasPrefix(p.rest, `"`) {
		n := strings.IndexAny(p.rest, ", \t")
		if n < 0 {
			n = len(p.rest)
		}
		v := p.rest[:n]
		p.rest = p.rest[n:]
		return v
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch ch := p.rest[i]; {
		case ch == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		case ch == '"':
			p.rest = p.rest[i+1:]
			return b.String()
		default:
			b.WriteByte(ch)
		}
	}
	p.rest = ""
	return "" // unterminated
}

func isTokenChar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
		strings.IndexByte("!#$%&'*+-.^_`|~/", c) >= 0
}

// cleanScopes removes invalid scopes (RFC 6749 section 3.3), duplicates, and scopes beyond the
// limits.
func cleanScopes(in []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range in {
		bad := strings.ContainsFunc(s, func(r rune) bool { return r <= 0x20 || r > 0x7e || r == '"' || r == '\\' })
		if s == "" || bad || seen[s] || len(s) > maxScope || len(out) == maxScopes {
			continue
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}
