package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth/signin"
)

// signIns is signin.Attempts with the types of the API. It implements httpapi.SignIns.
type signIns struct{ *signin.Attempts }

var stages = map[signin.Stage]string{signin.NotNeeded: api.SignInNotNeeded, signin.Waiting: api.SignInWaiting,
	signin.Done: api.SignInDone, signin.Failed: api.SignInFailed}

func wireSignIn(s *signin.State, err error) (*api.SignIn, error) {
	if err != nil {
		return nil, err
	}
	return &api.SignIn{ID: s.ID, Upstream: s.Upstream, URL: s.URL, Redirect: s.Redirect, How: s.How,
		State: stages[s.Stage], Error: Explain(s.Err)}, nil
}

// Begin implements httpapi.SignIns.
func (s signIns) Begin(ctx context.Context, upstream string) (*api.SignIn, error) {
	who, _ := identity.PrincipalFrom(ctx)
	return wireSignIn(s.Attempts.Begin(ctx, who, upstream))
}

// Await implements httpapi.SignIns.
func (s signIns) Await(ctx context.Context, upstream, id string) (*api.SignIn, error) {
	return wireSignIn(s.Attempts.Await(ctx, upstream, id))
}

// Paste implements httpapi.SignIns.
func (s signIns) Paste(ctx context.Context, upstream, id, redirect string) (*api.SignIn, error) {
	return wireSignIn(s.Attempts.Paste(ctx, upstream, id, redirect))
}

// End implements httpapi.SignIns.
func (s signIns) End(ctx context.Context, upstream, id string) (*api.SignOut, error) {
	who, _ := identity.PrincipalFrom(ctx)
	name, revoked, err := s.Attempts.End(ctx, who, upstream, id)
	if name == "" {
		return nil, err
	}
	return &api.SignOut{Upstream: name, Revoked: revoked}, err
}

// StartUpstreams implements signin.Upstreams.
func (u *upstreams) StartUpstreams() { u.want() }

// FindUpstream implements signin.Upstreams.
func (u *upstreams) FindUpstream(name string) (*signin.Upstream, error) {
	var names []string
	for _, info := range u.catalog.View().Upstreams() {
		if info.Namespace == name && info.Name != name &&
			!slices.ContainsFunc(u.sources, func(c *source) bool { return c.up.Name() == name }) {
			name = info.Name
		}
	}
	for _, c := range u.sources {
		if c.up.Name() == name {
			return &signin.Upstream{Upstream: c.up, Auth: c.auth.Load(), How: c.how}, nil
		}
		names = append(names, c.up.Name())
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return nil, tool.Errorf(tool.NotFound, "no upstream %s: there is %s", name, strings.Join(names, ", "))
}

// describeCredentials describes how a configured server gets its credentials, without their values.
func describeCredentials(c *config.Server) string {
	given := c.Shown()
	if c.Personal {
		return "with each principal's own secrets: " + strings.Join(c.Secrets, ", ") +
			" (`biplane secrets set NAME --for me`)"
	}
	keys := func(m map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
	switch {
	case c.Type == "stdio" && len(given.Env) == 0:
		return "not at all: the configuration gives its process no env"
	case c.Type == "stdio":
		return "with the env that the configuration gives to its process: " + keys(given.Env)
	case len(given.Headers) == 0:
		return "not at all: it has not asked for it"
	}
	return fmt.Sprintf("with the headers of the configuration: %s", keys(given.Headers))
}
