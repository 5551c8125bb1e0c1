package identity

import (
	"strings"
)

// claims are the verified claims of a token.
type claims map[string]any

// value returns the claim name. If there is none, name is a path of claims, separated by dots.
// Names of claims may contain dots themselves ("https://example.com/groups").
func (c claims) value(name string) any {
	if v, ok := c[name]; ok {
		return v
	}
	var v any = map[string]any(c)
	for part := range strings.SplitSeq(name, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[part]
	}
	return v
}

func (c claims) text(name string) string {
	s, _ := c.value(name).(string)
	return s
}

// texts returns a list of strings. A single string counts as a list. ok is false if the claim is
// neither.
func (c claims) texts(name string) ([]string, bool) {
	switch v := c.value(name).(type) {
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

// elsewhere reports whether a claim was too large for the token, which then says where to fetch it
// (OpenID Connect Core 1.0, section 5.6.2).
func (c claims) elsewhere(name string) bool {
	names, _ := c["_claim_names"].(map[string]any)
	return names[name] != nil
}

// scopes returns the scopes of the token (RFC 8693, section 4.2). Some issuers name the claim scp.
func (c claims) scopes() []string {
	out := []string{}
	for _, name := range []string{"scope", "scp"} {
		all, _ := c.texts(name)
		for _, s := range all {
			out = append(out, strings.Fields(s)...)
		}
	}
	return set(out)
}

// chain returns the actors that act for the subject, the current one first (RFC 8693, section 4.1).
// ok is false if the claim is malformed.
func (c claims) chain() (actors []string, ok bool) {
	next, there := c["act"]
	for there {
		m, isMap := next.(map[string]any)
		if !isMap || len(actors) == mostActors {
			return nil, false
		}
		act := claims(m)
		who := or(act.text("sub"), act.text("client_id"))
		if who == "" || len(who) > idBytes {
			return nil, false
		}
		actors = append(actors, who)
		next, there = act["act"]
	}
	return actors, true
}

// machine reports whether the token belongs to a program that acts for no user: the client got it
// with its own credentials.
func (c claims) machine(agent string) bool {
	sub := c.text("sub")
	return sub != "" && (sub == agent || sub == agent+"@clients") || c.text("idtyp") == "app" || c.text("gty") == "client-credentials"
}

// first returns the claim named, if that is not empty. Otherwise it returns the first of the usual
// claims that is present.
func first(c claims, named string, usual ...string) string {
	if named != "" {
		return c.text(named)
	}
	for _, n := range usual {
		if s := c.text(n); s != "" {
			return s
		}
	}
	return ""
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
