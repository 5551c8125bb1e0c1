package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
)

// TestPeople reads the sign-in of people, and what is wrong with it.
func TestPeople(t *testing.T) {
	s, err := parseFile("/etc/b/biplane.yaml", `
auth:
  keys: false
  resource: https://biplane.example.com/mcp
  sign_in:
    issuer: https://login.example.com
    client_id: biplane
    client_secret: ${secret:OIDC_CLIENT}
    algorithms: [RS256]
    claims: { groups: realm_access.roles }
    roles: { viewer: ["group:devs"] }
    lifetime: 1h
`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	want := &config.PeopleProvider{Issuer: identity.Issuer{Issuer: "https://login.example.com",
		Algorithms: []string{"RS256"}, Claims: identity.Claims{Groups: "realm_access.roles"},
		Roles: map[string][]string{"viewer": {"group:devs"}}},
		ClientID: "biplane", SecretName: "OIDC_CLIENT", Scopes: []string{"profile", "email"}, Lifetime: time.Hour}
	if !reflect.DeepEqual(s.Auth.Provider, want) {
		t.Errorf("auth.sign_in is %+v, want %+v", s.Auth.Provider, want)
	}
	if got := s.Auth.Shown(); got.String() != "people of https://login.example.com" ||
		got.SignIn != "https://login.example.com" {
		t.Errorf("it is shown as %q, %+v", got, got)
	}
	const signIn = "auth: {resource: 'https://a/mcp', sign_in: {issuer: 'https://a', client_id: b, %s}}"
	for part, want := range map[string]string{
		"client_secret: plain":            "",
		"client_secret: ''":               "is empty",
		"client_secret: 'x${secret:A}'":   "either a text or one ${secret:NAME}",
		"client_secret: '${secret:a b}'":  "can't be a secret's name",
		"scopes: ['a b']":                 "invalid scope",
		"lifetime: 1000h":                 "must be from 1m to 168h, not 1000h",
		"algorithms: [none]":              `"none" is not supported`,
		"audience: x":                     "has no key",
		"roles: {admin: [ops]}":           "write group:NAME",
		"roles: {user: ['agent:x']}":      "matches no one",
		"jwks_uri: 'http://a.example/k'":  "must begin with https",
		"issuer: 'http://login.example/'": "issuer",
	} {
		_, err := parseFile("/etc/b/biplane.yaml", strings.Replace(signIn, "%s", part, 1))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", part, err, want)
		}
	}
	const both = "auth: {resource: 'https://a/mcp', issuers: [{issuer: 'https://a', claims: {id: ID}}], " +
		"sign_in: {issuer: 'https://a', client_id: b}}"
	if _, err := parseFile("/etc/b/biplane.yaml", strings.Replace(both, "ID", "sub", 1)); err != nil {
		t.Errorf("the default claim, written out: %v", err)
	}
	for text, want := range map[string]string{
		strings.Replace(both, "ID", "oid", 1):                                        "must have the same claims.id",
		"auth: {sign_in: {issuer: 'https://a', client_id: b}}":                       "requires auth.resource",
		"auth: {resource: 'https://a/mcp', sign_in: {client_id: b}}":                 "needs an issuer",
		"auth: {resource: 'https://a/mcp', sign_in: {issuer: 'https://a'}}":          "needs a client_id",
		"auth: {resource: 'https://a/mcp', sign_in: x}":                              "must be a map",
		"auth: {resource: 'https://a/mcp', sign_in: {issuer: 'ftp://a', scopes: 1}}": "must begin with https",
	} {
		if _, err := parseFile("/etc/b/biplane.yaml", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
