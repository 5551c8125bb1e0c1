// Package identity determines who makes a request, and whether they may make it.
//
// Requests over stdio, and over the Unix socket that only its owner can open, belong to the local
// user. Over the network an Authenticator requires a credential: an API key of Keys, or an access
// token of an Issuer, for which it is an OAuth 2.1 resource server as in the MCP specification (RFC
// 6750, RFC 8707, RFC 9068, RFC 9728). The result is a tool.Principal, or a Refusal, which is
// recorded. Everything that strangers can cause is limited: the size of a token, the rate of
// requests for an issuer's keys, and the number of records of refusals.
package identity

import (
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The roles of principals, with their rights. No role includes another, except that Admin includes
// all.
const (
	Viewer   = "viewer"   // sees upstreams, tools and figures; calls nothing
	Auditor  = "auditor"  // reads everything, of all users; changes nothing
	Approver = "approver" // decides on calls that wait for a person
	User     = "user"     // calls tools and runs programs, over MCP and over the HTTP API, and keeps sessions
	Admin    = "admin"    // everything
)

// Roles returns all roles.
func Roles() []string { return []string{Viewer, Auditor, Approver, User, Admin} }

// HasRole reports whether p has one of roles.
func HasRole(p tool.Principal, roles ...string) bool {
	return slices.Contains(p.Roles, Admin) || slices.ContainsFunc(roles, func(r string) bool {
		return slices.Contains(p.Roles, r)
	})
}

// LocalUser returns the Principal of the user who runs this process, who may do everything. Its ID
// is "local:<login name>", or "local:uid-<number>" if the system knows no name.
func LocalUser() tool.Principal {
	name := "uid-" + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	id := "local:" + name
	return tool.Principal{ID: id, Name: name, Person: id, Roles: []string{Admin}}
}
