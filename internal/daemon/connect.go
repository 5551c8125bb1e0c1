package daemon

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth/signin"
)

// signIns is signin.Attempts with the types of the API. It implements httpapi.SignIns.
type signIns struct{ *signin.Attempts }

var stages = [...]string{signin.NotNeeded: api.SignInNotNeeded, signin.Waiting: api.SignInWaiting,
	signin.Done: api.SignInDone, signin.Failed: api.SignInFailed}

func wireSignIn(s *signin.State, err error) (*api.SignIn, error) {
	if err != nil {
		return nil, err
	}
	return &api.SignIn{ID: s.ID, Upstream: s.Upstream, URL: s.URL, Redirect: s.Redirect, How: s.How,
		State: stages[s.Stage], Error: Explain(s.Err)}, nil
}

// requestFrom returns the request of a caller about a sign-in.
func requestFrom(ctx context.Context, t api.SignInTarget) (signin.Request, error) {
	who, _ := identity.PrincipalFrom(ctx)
	r := signin.Request{Who: who, Upstream: t.Upstream, Own: t.Own, Named: t.Owner != "" && !t.Own}
	if t.Owner == "" || t.Own {
		t.Owner = api.SecretOfCaller
	}
	var err error
	r.Owner, err = ownerFrom(ctx, t.Owner)
	return r, err
}

// Begin implements httpapi.SignIns.
func (s signIns) Begin(ctx context.Context, t api.SignInTarget, port int) (*api.SignIn, error) {
	r, err := requestFrom(ctx, t)
	if err != nil {
		return nil, err
	}
	if r.Port = port; port < 0 || port > 65535 {
		return nil, tool.Errorf(tool.Invalid, "port %d is not a port", port)
	}
	return wireSignIn(s.Attempts.Begin(ctx, r))
}

// Await implements httpapi.SignIns.
func (s signIns) Await(ctx context.Context, t api.SignInTarget, id string) (*api.SignIn, error) {
	r, err := requestFrom(ctx, t)
	if err != nil {
		return nil, err
	}
	return wireSignIn(s.Attempts.Await(ctx, r, id))
}

// Paste implements httpapi.SignIns.
func (s signIns) Paste(ctx context.Context, t api.SignInTarget, id, redirect string) (*api.SignIn, error) {
	r, err := requestFrom(ctx, t)
	if err != nil {
		return nil, err
	}
	return wireSignIn(s.Attempts.Paste(ctx, r, id, redirect))
}

// End implements httpapi.SignIns.
func (s signIns) End(ctx context.Context, t api.SignInTarget, id string) (*api.SignOut, error) {
	r, err := requestFrom(ctx, t)
	if err != nil {
		return nil, err
	}
	name, revoked, err := s.Attempts.End(ctx, r, id)
	if name == "" {
		return nil, err
	}
	return &api.SignOut{Upstream: name, Revoked: revoked}, err
}

// signInPages is signin.Attempts for the pages of browsers. It implements console.SignIns.
type signInPages struct {
	*signin.Attempts
	places places
}

func ownRequest(p tool.Principal, upstream string) signin.Request {
	return signin.Request{Who: p, Owner: p.ID, Upstream: upstream, Own: true}
}

// DescribeSignIn implements console.SignIns.
func (s signInPages) DescribeSignIn(ctx context.Context, p tool.Principal, upstream string) (*console.SignIn, error) {
	name, in, err := s.IsSignedIn(ctx, ownRequest(p, upstream))
	if err != nil {
		return nil, err
	}
	return &console.SignIn{Upstream: name, SignedIn: in}, nil
}

// BeginSignIn implements console.SignIns.
func (s signInPages) BeginSignIn(ctx context.Context, p tool.Principal, upstream, browser string) (*console.SignIn,
	error) {
	r := ownRequest(p, upstream)
	base := s.places.publicURL()
	if base == "" {
		return nil, tool.Errorf(tool.Unavailable, "the address of this page for browsers is unknown: set "+
			"auth.resource in the configuration, or use biplane connect")
	}
	r.Redirect, r.Browser = base+"/connected", browser
	in, err := s.Begin(ctx, r)
	if err != nil {
		return nil, err
	}
	return &console.SignIn{Upstream: in.Upstream, SignedIn: in.Stage == signin.NotNeeded, URL: in.URL}, nil
}

// CompleteSignIn implements console.SignIns.
func (s signInPages) CompleteSignIn(ctx context.Context, p tool.Principal, browser string,
	response url.Values) (string, error) {
	return s.Attempts.CompleteSignIn(ctx, p.ID, browser, response)
}

// EndSignIn implements console.SignIns.
func (s signInPages) EndSignIn(ctx context.Context, p tool.Principal, upstream string) error {
	_, _, err := s.End(ctx, ownRequest(p, upstream), "")
	return err
}

// FindUpstream implements signin.Upstreams.
func (u *upstreams) FindUpstream(name, owner string) (*signin.Upstream, error) {
	var names []string
	for _, info := range u.catalog.View().Upstreams() {
		if info.Namespace == name && info.Name != name &&
			!slices.ContainsFunc(u.listSources(), func(c *source) bool { return c.up.Name() == name }) {
			name = info.Name
		}
	}
	for _, c := range u.listSources() {
		if c.up.Name() == name {
			return c.findSignIn(owner)
		}
		names = append(names, c.up.Name())
	}
	if len(names) == 0 {
		return nil, tool.Errorf(tool.NotFound, "no upstream %q: the configuration has none", name)
	}
	return nil, tool.Errorf(tool.NotFound, "no upstream %q: the configuration has %s", name, strings.Join(names, ", "))
}

// findSignIn returns the upstream as owner uses it.
func (s *source) findSignIn(owner string) (*signin.Upstream, error) {
	p, ok := s.up.(*personalUpstream)
	switch {
	case !ok:
		return &signin.Upstream{Upstream: s.up, Auth: s.auth.Load(), How: s.how}, nil
	case p.signIns == nil:
		return &signin.Upstream{Upstream: s.up, How: s.how, Owner: owner, Personal: true}, nil
	case owner == "":
		return nil, tool.Errorf(tool.Denied, "upstream %s uses each principal's own sign-in, and it isn't known whose "+
			"is meant", p.name)
	}
	auth, release, err := p.signIns.acquireClient(owner)
	if err != nil {
		return nil, err
	}
	return &signin.Upstream{Upstream: ownConnection{p, owner}, Auth: auth, How: s.how, Owner: owner, Personal: true,
		Use: &clientUse{p, owner, release}}, nil
}

// A clientUse is the use of a principal's client. It implements signin.Use.
type clientUse struct {
	of      *personalUpstream
	owner   string
	release notice
}

// EndUse releases the client.
func (c *clientUse) EndUse() { c.release() }

// SignOut ends the principal's connection. The tools that it listed stay known.
func (c *clientUse) SignOut() { c.of.endOwner(c.owner) }

// describeAPI describes how an API gets its credentials, without their values.
func describeAPI(c config.API) string {
	s, names := c.GetSource(), c.ListCredentials()
	switch {
	case s.Personal && s.SignIn != nil:
		return "with each principal's own sign-in (`biplane connect " + s.Name + "`)"
	case s.Personal:
		return describePersonal(s.Secrets)
	case len(names) > 0:
		return "with the auth and headers of the configuration: " + strings.Join(names, ", ")
	}
	return "not at all: the configuration has neither auth nor headers for it"
}

// describePersonal describes how an upstream gets its credentials from secrets of each principal.
func describePersonal(secrets []string) string {
	return "with each principal's own secrets: " + strings.Join(secrets, ", ") +
		" (`biplane secrets set NAME --for me`)"
}

// describeCredentials describes how a configured server gets its credentials, without their values.
func describeCredentials(c *config.Server) string {
	given := c.Shown()
	if c.Personal && c.SignsIn() {
		return "with each principal's own sign-in (`biplane connect " + c.Name + "`)"
	}
	if c.Personal {
		return describePersonal(c.Secrets)
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
