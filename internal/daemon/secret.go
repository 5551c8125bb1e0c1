package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/base/secret/origin"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A secretSource is a place that secrets are read from.
type secretSource interface {
	// ReadSecrets returns the values of the named secrets that it has.
	ReadSecrets(ctx context.Context, names []string) (map[string]string, error)
}

// secrets are the values of ${secret:NAME} in the configuration.
type secrets struct {
	config  *config.Config
	stored  *store.Secrets
	events  eventRecorder
	mask    *mask.Masker
	sources []secretSource
	where   []string // what to do to add a secret to each source, with %s for the name

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a stored secret changes
}

// newSecrets returns the secrets of a configuration. It reads none.
func newSecrets(c *config.Config, stored *store.Secrets, m *mask.Masker, e eventRecorder) *secrets {
	s := &secrets{config: c, stored: stored, events: e, mask: m, changed: make(chan struct{})}
	from := c.Secrets.Sources
	if len(from) == 0 {
		from = []config.SecretSource{{Kind: "folder"}}
	}
	for _, f := range from {
		switch f.Kind {
		case "env":
			s.addSource("set the environment variable %s of this process", environSource{c})
		case "keyring":
			s.addSource("add %s to the system's keyring, for service biplane", origin.NewKeyring())
		case "file":
			s.addSource("add %s to "+strings.ReplaceAll(f.Path, "%", "%%"), origin.File{Path: f.Path})
		case "vault":
			s.addSource("add %s to "+strings.ReplaceAll(f.Vault.Path, "%", "%%")+" in Vault", origin.Vault{
				Address: f.Vault.Address, Path: f.Vault.Path, Token: f.Vault.Token, Namespace: f.Vault.Namespace,
				Timeout: f.Vault.Timeout})
		default:
			s.addSource("run `biplane secrets set %s`", ownedSecrets{stored, ""})
		}
	}
	return s
}

func (s *secrets) addSource(where string, from secretSource) {
	s.where, s.sources = append(s.where, where), append(s.sources, from)
}

// environSource reads environment variables.
type environSource struct{ config *config.Config }

// ReadSecrets implements secretSource.
func (e environSource) ReadSecrets(_ context.Context, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		if v, ok := e.config.Secrets.LookupVariable(name); ok && v != "" {
			out[name] = v
		}
	}
	return out, nil
}

// ownedSecrets reads the secrets of one owner from the data folder.
type ownedSecrets struct {
	stored *store.Secrets
	owner  string
}

// ReadSecrets implements secretSource.
func (o ownedSecrets) ReadSecrets(ctx context.Context, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		value, found, err := o.stored.LoadSecret(ctx, o.owner, name)
		if err != nil {
			return nil, err
		}
		if found {
			out[name] = value
		}
	}
	return out, nil
}

// ResolveNames returns the values of the named secrets, and masks them from now on. The first
// source that has a secret wins. A secret that no source has is an error of kind tool.NotFound.
func (s *secrets) ResolveNames(ctx context.Context, upstream string, names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, from := range s.sources {
		var left []string
		for _, name := range names {
			if _, ok := out[name]; !ok {
				left = append(left, name)
			}
		}
		if len(left) == 0 {
			break
		}
		found, err := from.ReadSecrets(ctx, left)
		if err != nil {
			return nil, tool.Errorf(tool.Unavailable, "secret %s can't be read: %w", strings.Join(left, ", "), err)
		}
		maps.Copy(out, found)
	}
	for _, name := range names {
		value, ok := out[name]
		if !ok {
			var how []string
			for _, w := range s.where {
				how = append(how, fmt.Sprintf(w, name))
			}
			return nil, tool.Errorf(tool.NotFound, "secret %s is not set: %s", name, strings.Join(how, ", or "))
		}
		if err := checkSecret(name, value); err != nil {
			return nil, err
		}
	}
	s.mask.Hold("secrets of "+upstream, slices.Sorted(maps.Values(out))...)
	return out, nil
}

// ResolveOwn returns the values of the named secrets of one principal, and masks them from now on.
// Only the data folder has such secrets. A missing one is an error that says how to set it.
func (s *secrets) ResolveOwn(ctx context.Context, owner, upstream string, names []string) (map[string]string,
	error) {
	out, err := ownedSecrets{s.stored, owner}.ReadSecrets(ctx, names)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	for _, name := range names {
		if value, ok := out[name]; !ok {
			return nil, newUnsent(tool.Unavailable, "upstream %s uses each principal's own credentials, and secret "+
				"%s is not set for %s: run `biplane secrets set %[2]s --for %[3]s`, or PUT %[4]s/me/secrets/%[2]s",
				upstream, name, owner, api.Prefix)
		} else if err := checkSecret(name, value); err != nil {
			return nil, tool.NotSent(err)
		}
	}
	s.mask.Hold(holderOf(owner, upstream), slices.Sorted(maps.Values(out))...)
	return out, nil
}

func holderOf(owner, upstream string) string { return "secrets of " + upstream + " for " + owner }

// forgetValues keeps masking the values of a principal's secrets only until newer values displace
// them.
func (s *secrets) forgetValues(owner, upstream string, values map[string]string) {
	s.mask.AddRecent(slices.Collect(maps.Values(values))...)
	s.mask.Hold(holderOf(owner, upstream))
}

// checkSecret checks the size of a secret. Values of a few bytes can't be masked: they occur in
// other texts, too.
func checkSecret(name, value string) error {
	switch {
	case len(value) < mask.MinValue:
		return tool.Errorf(tool.Invalid, "secret %s has fewer than %d bytes, too few to keep it out of logs and "+
			"answers: use a longer one", name, mask.MinValue)
	case len(value) > origin.MaxValue:
		return tool.Errorf(tool.Invalid, "secret %s has more than %d bytes", name, origin.MaxValue)
	case strings.Contains(value, "\x00"):
		return tool.Errorf(tool.Invalid, "secret %s contains a NUL character", name)
	}
	return nil
}

// awaitChange returns a channel that is closed when a stored secret changes.
func (s *secrets) awaitChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *secrets) notifyChange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// ownerFrom returns the ID of an owner: "me" is the calling principal.
func ownerFrom(ctx context.Context, owner string) (string, error) {
	switch {
	case owner == api.SecretOfCaller:
		p, _ := identity.PrincipalFrom(ctx)
		if p.ID == "" {
			return "", tool.Errorf(tool.Denied, "the calling principal is unknown")
		}
		return p.ID, nil
	case owner != "" && !strings.ContainsAny(owner, ":#") || len(owner) > 500 ||
		strings.ContainsFunc(owner, unicode.IsControl):
		return "", tool.Errorf(tool.Invalid, "owner %.100q is not a principal: write me, key:NAME or ISSUER#SUBJECT",
			owner)
	}
	return owner, nil
}

// ListSecrets implements httpapi.SecretKeeper. It also lists the secrets that the configuration
// refers to and that the data folder doesn't have.
func (s *secrets) ListSecrets(ctx context.Context, owner string) ([]api.Secret, error) {
	owner, err := ownerFrom(ctx, owner)
	if err != nil {
		return nil, err
	}
	all, err := s.stored.ListSecrets(ctx, owner)
	if err != nil {
		return nil, err
	}
	uses := s.config.SecretUses(owner != "")
	out := []api.Secret{}
	for _, one := range all {
		changed := one.Changed
		out = append(out, api.Secret{Name: one.Name, Owner: owner, State: api.SecretSet, Changed: &changed,
			Uses: uses[one.Name]})
		delete(uses, one.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		state := api.SecretMissing
		if owner != "" {
			out = append(out, api.Secret{Name: name, Owner: owner, State: state, Uses: uses[name]})
			continue
		}
		if values, err := s.readElsewhere(ctx, name); err != nil {
			state = api.SecretUnknown
		} else if len(values) > 0 {
			state = api.SecretElsewhere
		}
		out = append(out, api.Secret{Name: name, State: state, Uses: uses[name]})
	}
	return out, nil
}

// readElsewhere reads a secret from the first source that has it, whatever its value.
func (s *secrets) readElsewhere(ctx context.Context, name string) (map[string]string, error) {
	for _, from := range s.sources {
		if found, err := from.ReadSecrets(ctx, []string{name}); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// SetSecret implements httpapi.SecretKeeper.
func (s *secrets) SetSecret(ctx context.Context, owner, name, value string) (*api.Secret, error) {
	if !config.IsSecretName(name) {
		return nil, tool.Errorf(tool.Invalid, "secret name %.100q: use letters, digits, _, - and ., 100 characters "+
			"at most", name)
	}
	if err := checkSecret(name, value); err != nil {
		return nil, err
	}
	owner, err := ownerFrom(ctx, owner)
	if err != nil {
		return nil, err
	}
	err = s.recordChange(ctx, "set", owner, name, func() error {
		return s.stored.SaveSecret(ctx, owner, name, value)
	})
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	return &api.Secret{Name: name, Owner: owner, State: api.SecretSet, Changed: &now,
		Uses: s.config.SecretUses(owner != "")[name]}, nil
}

// RemoveSecret implements httpapi.SecretKeeper.
func (s *secrets) RemoveSecret(ctx context.Context, owner, name string) error {
	owner, err := ownerFrom(ctx, owner)
	if err != nil {
		return err
	}
	return s.recordChange(ctx, "remove", owner, name, func() error {
		found, err := s.stored.RemoveSecret(ctx, owner, name)
		if err == nil && !found {
			err = tool.Errorf(tool.NotFound, "no secret %.100q: `biplane secrets list` lists them", name)
		}
		return err
	})
}

// recordChange records a change without the value, then makes it. If the change fails, another
// record says so.
func (s *secrets) recordChange(ctx context.Context, action, owner, name string, change func() error) error {
	p, _ := identity.PrincipalFrom(ctx)
	e := audit.Event{Kind: audit.KindKey, Principal: p, Subject: audit.Subject{Name: name},
		Detail: map[string]string{"action": action + " secret", "owner": owner}}
	maps.DeleteFunc(e.Detail, func(_, v string) bool { return v == "" })
	if err := s.events.event(ctx, e); err != nil {
		return tool.Errorf(tool.Internal, "secret %s was not changed: the change can't be recorded: %w", name, err)
	}
	err := change()
	if err != nil {
		return errors.Join(err, s.events.event(ctx, withError(e, err)))
	}
	s.notifyChange()
	return nil
}
