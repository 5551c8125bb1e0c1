package oauth

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestParseChallenge(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want challenge
	}{
		{nil, challenge{}},
		{[]string{`Bearer`}, challenge{}},
		{[]string{`bearer scope="a b", error=invalid_token`},
			challenge{scopes: []string{"a", "b"}, code: "invalid_token"}},
		{[]string{`Basic realm="Bearer scope=x", Bearer resource_metadata="https://x/y, z"`},
			challenge{metadata: "https://x/y, z"}},
		{[]string{`Negotiate YWJj==`, `BEARER Scope = "a"`}, challenge{scopes: []string{"a"}}},
		{[]string{`Bearer realm="q\"u", scope="a", DPoP scope="b", algs="ES256"`}, challenge{scopes: []string{"a"}}},
		{[]string{`Bearer scope="never ends`}, challenge{}},
		{[]string{`Bearer scope="a a ` + "\x7f" + ` b\\c"`}, challenge{scopes: []string{"a"}}},
		{[]string{`;;;,,= Bearer error=x`}, challenge{code: "x"}},
		{[]string{"Bearer scope=" + strings.Repeat("a", maxChallenge)}, challenge{}},
	} {
		got := parseChallenge(c.in)
		if got.metadata != c.want.metadata || got.code != c.want.code || !slices.Equal(got.scopes, c.want.scopes) {
			t.Errorf("%.80q: got %+v, want %+v", c.in, got, c.want)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Basic realm="x", Bearer resource_metadata="https://x", scope="a b"`)
	f.Add(`Bearer scope="\`)
	f.Fuzz(func(t *testing.T, h string) {
		c := parseChallenge([]string{h})
		if len(c.scopes) > maxScopes || len(c.metadata) > len(h) || slices.Contains(c.scopes, "") {
			t.Fatalf("c = %+v, want len(c.scopes) <= maxScopes && len(c.metadata) <= len(h) && "+
				"!slices.Contains(c.scopes, \"\")", c)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"https://x/y", "http://127.0.0.1", "http://LOCALHOST.:1", "https://[::ffff:127.0.0.1]/",
		"//x", "https:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parseAddress("thing", s, false)
		if err != nil {
			return
		}
		if u.Scheme != "https" || isLoopback(u) || u.User != nil {
			t.Fatalf("%q is let through as %s", s, u)
		}
		if again, err := parseAddress("thing", u.String(), false); err != nil || !sameOrigin(u, again) {
			t.Fatalf("%q becomes %v, %v", s, again, err)
		}
	})
}

func TestCovers(t *testing.T) {
	server := "https://h.example/a/mcp"
	for resource, want := range map[string]bool{
		"https://h.example/a/mcp": true, "https://h.example/a/mcp/": true, "https://H.example:443/a": true,
		"https://h.example": true, "https://h.example/": true,
		"https://h.example/a/mc": false, "https://h.example/b": false, "https://h.example/a/mcp/x": false,
		"http://h.example/a/mcp":       false,
		"https://h.example:8443/a/mcp": false, "https://evil.example/a/mcp": false, "https://h.example.evil/": false,
		"https://h.example/?x": false,
	} {
		r, err := url.Parse(resource)
		if err != nil {
			t.Fatalf("url.Parse: %v", err)
		}
		u, err := url.Parse(server)
		if err != nil {
			t.Fatalf("url.Parse: %v", err)
		}
		if got := coversServer(r, u); got != want {
			t.Errorf("%s covers %s: %v", resource, server, got)
		}
	}
}

func TestWellKnown(t *testing.T) {
	for in, want := range map[string]string{
		"https://h/a/b":   "https://h/.well-known/s/a/b",
		"https://h/a/":    "https://h/.well-known/s/a",
		"https://h":       "https://h/.well-known/s",
		"https://h/?k=v":  "https://h/.well-known/s",
		"https://h/a%2Fb": "https://h/.well-known/s/a%2Fb",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatalf("url.Parse: %v", err)
		}
		if got := wellKnown(u, "s").String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
