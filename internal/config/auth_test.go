package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
)

func TestAuth(t *testing.T) {
	s, err := parseFile("/etc/b/biplane.yaml", `
listen: 0.0.0.0:8420
tls: { cert: cert.pem, key: /k.pem }
auth:
  resource: https://biplane.example.com/mcp
  issuers:
    - issuer: https://login.example.com/realms/a
      audience: [x, y]
      jwks_uri: https://login.example.com/keys
      algorithms: [ES256]
      claims: { id: email, name: nick, groups: realm_access.roles, agent: azp }
      roles: { user: ["group:devs"] }
    - { issuer: https://b.example.com, audience: z }
  roles: { admin: ["group:ops", "user:ann"], viewer: ["agent:dash"] }
  scopes: { mcp: "biplane:mcp", api: "" }
`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	want := &config.Auth{
		Keys: true, Resource: "https://biplane.example.com/mcp",
		Issuers: []identity.Issuer{
			{Issuer: "https://login.example.com/realms/a", Audiences: []string{"x", "y"},
				JWKSURI: "https://login.example.com/keys", Algorithms: []string{"ES256"},
				Claims: identity.Claims{ID: "email", Name: "nick", Groups: "realm_access.roles", Agent: "azp"},
				Roles:  map[string][]string{"user": {"group:devs"}}},
			{Issuer: "https://b.example.com", Audiences: []string{"z"}},
		},
		Roles:  map[string][]string{"admin": {"group:ops", "user:ann"}, "viewer": {"agent:dash"}},
		Scopes: map[string]string{"mcp": "biplane:mcp", "api": ""},
	}
	if !reflect.DeepEqual(s.Auth, want) || s.TLS != (config.TLS{Cert: "/etc/b/cert.pem", Key: "/k.pem"}) {
		t.Errorf("s.Auth = %+v, s.TLS = %+v, want reflect.DeepEqual(s.Auth, want) && s.TLS == "+
			"(config.TLS{Cert: \"/etc/b/cert.pem\", Key: \"/k.pem\"})", s.Auth, s.TLS)
	}
	if s.Auth.String() != "API keys, tokens of 2 issuers" {
		t.Errorf(`s.Auth = %v, want s.Auth.String() == "API keys, tokens of 2 issuers"`, s.Auth)
	}
	for text, want := range map[string]string{
		"auth: {}\nlisten: 0.0.0.0:1\ntls: terminated":     "",
		"auth: {keys: true}\nlisten: 0.0.0.0:1":            "2:9: will not listen on 0.0.0.0:1 without TLS",
		"listen: 0.0.0.0:1\ntls: terminated":               "1:9: will not listen on 0.0.0.0:1 without sign-in",
		"auth: {keys: false}":                              "auth accepts no one",
		"auth: {key: true}":                                `did you mean "keys"`,
		"auth: {issuers: [{issuer: 'https://a'}]}":         "auth.issuers requires auth.resource",
		"auth: {issuers: x}":                               "must be a list",
		"auth: {resource: 'https://a/mcp', issuers: [{}]}": "needs an issuer",
		"auth: {resource: 'https://a/other'}":              "ends in /mcp",
		"auth: {resource: 'ftp://a/mcp'}":                  "must begin with https",
		"auth: {resource: 'http://a.example/mcp'}":         "must begin with https",
		"auth: {roles: {boss: ['group:a']}}":               `auth.roles has no key "boss"`,
		"auth: {roles: {admin: ['ops']}}":                  "write group:NAME",
		"auth: {scopes: {mcp: 'a b'}}":                     "invalid scope",
		"tls: off":                                         "tls is one of terminated",
		"tls: {cert: a}":                                   "both cert and key",
		"trusted_proxies: [10.0.0.0/8, '::1', 192.0.2.7]":  "",
		"trusted_proxies: 10.0.0.0/8":                      "must be a list",
		"trusted_proxies: [10.0.0.1/8]":                    "invalid address range",
		"trusted_proxies: [proxy.example]":                 "invalid address range",
		"trusted_proxies: ['::ffff:10.0.0.1']":             "invalid address range",
		"trusted_proxies: ['fe80::1%eth0']":                "invalid address range",
		"trusted_proxies: [0.0.0.0/0]":                     "is every address",
		"trusted_proxies: ['::/0']":                        "is every address",
	} {
		_, err := parseFile("/etc/b/biplane.yaml", text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	const issuer = "auth: {resource: 'https://a/mcp', issuers: [{issuer: 'https://a', %s}]}"
	for part, want := range map[string]string{
		"algorithms: [HS256]": `"HS256" is not supported`, "algorithms: [none]": `"none" is not supported`,
		"algorithms: []":            "is empty",
		"jwks_uri: 'http://a/keys'": "must begin with https", "audience: []": "is empty", "audience: ''": "is empty",
		"claims: {sub: x}": "has no key",
	} {
		if _, err := parseFile("/etc/b/biplane.yaml", strings.Replace(issuer, "%s", part, 1)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", part, err, want)
		}
	}
}
