package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/identity/identitytest"
	"github.com/biplane-dev/biplane/internal/tool"
)

const resource = "https://biplane.example.com/mcp"

var (
	toMCP = identity.Need{Scope: identity.ScopeMCP, Roles: []string{identity.User}}
	toAPI = identity.Need{Scope: identity.ScopeAPI,
		Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}}
)

// memory is a KeyStore.
type memory struct {
	mu   sync.Mutex
	keys map[string]identity.Key
	fail error
	used int
}

func (m *memory) Keys(context.Context) ([]identity.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []identity.Key
	for _, k := range m.keys {
		out = append(out, k)
	}
	return out, nil
}

func (m *memory) SaveKey(_ context.Context, k *identity.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.keys[k.Name] = *k
	return nil
}

func (m *memory) UsedKey(_ context.Context, name string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[name]
	k.Used = at
	m.keys[name] = k
	m.used++
	return m.fail
}

// A rig is an Authenticator with an issuer and keys. It keeps all recorded events.
type rig struct {
	*identity.Authenticator
	issuer  *identitytest.Issuer
	keys    *identity.Keys
	store   *memory
	clock   *wallclock.Clock
	revoked []string

	mu     sync.Mutex
	events []identity.Event
}

func newRig(t *testing.T, change func(*identity.AuthenticatorConfig)) *rig {
	t.Helper()
	r := &rig{clock: wallclock.At(time.Now().Truncate(time.Second)), store: &memory{keys: map[string]identity.Key{}}}
	var err error
	if r.issuer, err = identitytest.NewIssuer(); err != nil {
		t.Fatalf("identitytest.NewIssuer: %v", err)
	}
	t.Cleanup(r.issuer.Close)
	r.keys, err = identity.OpenKeys(t.Context(), identity.KeysConfig{Store: r.store, Clock: r.clock,
		Revoked: func(p string) { r.revoked = append(r.revoked, p) }})
	if err != nil {
		t.Fatalf("identity.OpenKeys: %v", err)
	}
	c := identity.AuthenticatorConfig{
		Keys: r.keys, Issuers: []identity.Issuer{{Issuer: r.issuer.URL}}, Resource: resource, Clock: r.clock,
		Recorder: r,
	}
	if change != nil {
		change(&c)
	}
	r.Authenticator = identity.New(c)
	return r
}

// RecordSignIn implements identity.SignInRecorder.
func (r *rig) RecordSignIn(ev identity.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ev)
}

// take returns the events recorded since the last call.
func (r *rig) take() []identity.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	evs := r.events
	r.events = nil
	return evs
}

// token returns a token that is valid except for change.
func (r *rig) token(t *testing.T, change, header map[string]any) string {
	t.Helper()
	text, err := r.issuer.SignToken(r.issuer.ValidClaims("ann", resource, r.clock.Now(), change), header)
	if err != nil {
		t.Fatalf("SignToken: %v", err)
	}
	return text
}

// ask authenticates a request with a token.
func (r *rig) ask(token string, n identity.Need) (tool.Principal, *identity.Refusal) {
	req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return r.askFor(req, n)
}

func (r *rig) askFor(req *http.Request, n identity.Need) (tool.Principal, *identity.Refusal) {
	p, err := r.Authenticate(req, n)
	var no *identity.Refusal
	if err != nil && !errors.As(err, &no) {
		panic(err)
	}
	return p, no
}

// refused checks that a request is refused for a reason, and that the refusal is recorded.
func (r *rig) refused(t *testing.T, token string, n identity.Need, reason string) *identity.Refusal {
	t.Helper()
	r.take()
	p, no := r.ask(token, n)
	if no == nil {
		t.Fatalf("taken as %+v, want a refusal: %s", p, reason)
	}
	evs := r.take()
	if no.Reason != reason || len(evs) != 1 || evs[0].Reason != reason || evs[0].Accepted || evs[0].Path != "/mcp" ||
		evs[0].Remote == "" {
		t.Errorf("refused for %q (%v), recorded as %+v; want %q", no.Reason, no, evs, reason)
	}
	if p.ID != "" || tool.AsError(no).Kind != tool.Denied && tool.AsError(no).Kind != tool.Unavailable {
		t.Errorf("p = %+v, no = %v, want p.ID == \"\" && (tool.AsError(no).Kind == tool.Denied || "+
			"tool.AsError(no).Kind == tool.Unavailable)", p, no)
	}
	if len(token) > 60 {
		for _, ev := range evs {
			if strings.Contains(ev.Detail+ev.Claimed, token[len(token)-20:]) {
				t.Errorf("the record holds a credential: %+v", ev)
			}
		}
	}
	return no
}

// accepted checks that a request is accepted.
func (r *rig) accepted(t *testing.T, token string, n identity.Need) tool.Principal {
	t.Helper()
	p, no := r.ask(token, n)
	if no != nil {
		t.Fatalf("refused: %s: %v", no.Reason, no)
	}
	return p
}
