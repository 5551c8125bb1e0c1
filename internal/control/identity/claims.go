package identity

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
)

// claims are the verified claims of a token.
type claims jsonvalue.Object

// claimValue returns the claim name. If there is none, name is a path of claims, separated by dots.
// Names of claims may contain dots themselves ("https://example.com/groups").
func (c claims) claimValue(name string) any {
	if v, ok := c[name]; ok {
		return v
	}
	return jsonvalue.Object(c).ValueAt(strings.Split(name, ".")...)
}

func (c claims) textClaim(name string) string {
	s, _ := c.claimValue(name).(string)
	return s
}

// mayUseEmail reports whether the token doesn't say that its e-mail address is unverified. Some
// issuers write email_verified as a string.
func (c claims) mayUseEmail() bool {
	switch v := c["email_verified"].(type) {
	case nil:
		return true
	case bool:
		return v
	case string:
		return v == "true"
	}
	return false
}

// textList returns a list of strings. A single string counts as a list. ok is false if the claim is
// neither.
func (c claims) textList(name string) ([]string, bool) {
	switch v := c.claimValue(name).(type) {
	case nil:
		return nil, true
	case string:
		return []string{v}, len(v) <= idBytes
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if !ok || len(s) > idBytes {
				return nil, false
			}
			out = append(out, s)
		}
		return out, true
	}
	return nil, false
}

// isDistributed reports whether a claim was too large for the token, which then says where to fetch
// it (OpenID Connect Core 1.0, section 5.6.2).
func (c claims) isDistributed(name string) bool {
	return jsonvalue.Object(c).ObjectAt("_claim_names")[name] != nil
}

// tokenScopes returns the scopes of the token (RFC 8693, section 4.2). Some issuers name the claim
// scp.
func (c claims) tokenScopes() []string {
	out := []string{}
	for _, name := range []string{"scope", "scp"} {
		all, _ := c.textList(name)
		for _, s := range all {
			out = append(out, strings.Fields(s)...)
		}
	}
	return sortedSet(out)
}

// actorChain returns the actors that act for the subject, the current one first (RFC 8693, section
// 4.1). ok is false if the claim is malformed.
func (c claims) actorChain() (actors []string, ok bool) {
	next, there := c["act"]
	for there {
		o, isObject := jsonvalue.AsObject(next)
		if !isObject || len(actors) == mostActors {
			return nil, false
		}
		act := claims(o)
		who := orDefault(act.textClaim("sub"), act.textClaim("client_id"))
		if who == "" || len(who) > idBytes {
			return nil, false
		}
		actors = append(actors, who)
		next, there = act["act"]
	}
	return actors, true
}

// isMachine reports whether the token belongs to a program that acts for no user: the client got it
// with its own credentials.
func (c claims) isMachine(agent string) bool {
	sub := c.textClaim("sub")
	return sub != "" && (sub == agent || sub == agent+"@clients") || c.textClaim("idtyp") == "app" ||
		c.textClaim("gty") == "client-credentials"
}

// firstClaim returns the claim named, if that is not empty. Otherwise it returns the first of the
// usual claims that is present.
func firstClaim(c claims, named string, usual ...string) string {
	if named != "" {
		return c.textClaim(named)
	}
	for _, n := range usual {
		if s := c.textClaim(n); s != "" {
			return s
		}
	}
	return ""
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
