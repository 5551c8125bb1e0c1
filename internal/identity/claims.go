package identity

import (
	"strings"
)

// claims are those of a token, proven.
type claims map[string]any

// value gives the claim of that name; else the one at the path that the name is, with dots. Names of claims may hold dots
// themselves ("https://example.com/groups").
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

// texts gives a list of texts; a single one counts as a list. It is false for what is neither.
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

// elsewhere says whether a claim is not in the token because it would be too large: it says where to fetch it (OpenID
// Connect Core 1.0, section 5.6.2).
func (c claims) elsewhere(name string) bool {
	names, _ := c["_claim_names"].(map[string]any)
	return names[name] != nil
}

// scopes gives what the token was given out for (RFC 8693, section 4.2); some issuers say scp.
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

// chain gives who acts for the subject, the current actor first (RFC 8693, section 4.1). It is false where it is not of the
// shape that it has there.
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

// machine says whether the token is of a program that acts for nobody: it was given to a client by its own credentials.
func (c claims) machine(agent string) bool {
	sub := c.text("sub")
	return sub != "" && (sub == agent || sub == agent+"@clients") || c.text("idtyp") == "app" || c.text("gty") == "client-credentials"
}

// first gives the claim that is named, or else the first that there is of some.
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
