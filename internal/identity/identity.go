// Package identity says on whose behalf a request is made, and whether its maker may make it.
//
// What comes over stdio, and over the unix socket that only its owner can open, is the local user's. Over the network an
// Authenticator asks for a credential: an API key of Keys, or an access token of an Issuer, for which it is a resource server
// of OAuth 2.1 as the MCP specification has it (RFC 6750, RFC 8707, RFC 9068, RFC 9728). What it finds out is a
// tool.Principal; what it refuses is a Refusal, and recorded. All that strangers can make it do is bounded: the size of a
// token, how often an issuer is asked for its keys, how many records there are of what was refused.
package identity

import (
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The roles of people, and what each lets them do. A role doesn't hold another but for Admin, which holds all.
const (
	Viewer   = "viewer"   // sees upstreams, tools and figures; calls nothing
	Auditor  = "auditor"  // reads everything, of everybody, and changes nothing
	Approver = "approver" // decides on calls that wait for a person
	User     = "user"     // calls tools and runs programs, over MCP and over the HTTP API, and keeps sessions
	Admin    = "admin"    // everything
)

// Roles are all roles.
func Roles() []string { return []string{Viewer, Auditor, Approver, User, Admin} }

// Has reports whether p has one of roles.
func Has(p tool.Principal, roles ...string) bool {
	return slices.Contains(p.Roles, Admin) || slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(p.Roles, r) })
}

// Local gives the Principal of the user who runs this process, who may do everything: "local:<login name>", or
// "local:uid-<number>" where the system knows no name.
func Local() tool.Principal {
	name := "uid-" + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	id := "local:" + name
	return tool.Principal{ID: id, Name: name, Person: id, Roles: []string{Admin}}
}
