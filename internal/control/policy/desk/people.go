package desk

import (
	"slices"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
)

// people answers which principals policies can name.
type people struct {
	signIn SignIn
	keys   []identity.Key
	local  string // id of the local user
}

var _ policy.People = people{}

// hasKey reports whether fits is true for an accepted API key.
func (p people) hasKey(fits func(*identity.Key) bool) bool {
	return p.signIn.Keys && slices.ContainsFunc(p.keys, func(k identity.Key) bool {
		return k.Revoked.IsZero() && fits(&k)
	})
}

// Decides implements policy.People.
func (p people) Decides(group string) bool {
	return p.signIn.Issuers || p.hasKey(func(k *identity.Key) bool {
		return slices.Contains(k.Roles, identity.Admin) ||
			slices.Contains(k.Roles, identity.Approver) && slices.Contains(k.Groups, group)
	})
}

// IsGroup implements policy.People.
func (p people) IsGroup(name string) bool {
	return p.signIn.Issuers || p.hasKey(func(k *identity.Key) bool { return slices.Contains(k.Groups, name) })
}

// IsUser implements policy.People.
func (p people) IsUser(id string) bool {
	return id == p.local || p.signIn.Issuers || p.hasKey(func(k *identity.Key) bool { return k.Principal().ID == id })
}
