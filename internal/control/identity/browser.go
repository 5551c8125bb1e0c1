package identity

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of sign-ins with a browser.
const (
	attemptLife  = 10 * time.Minute
	attemptBytes = 3 << 10  // of a sealed attempt: browsers keep cookies of 4 KiB
	ticketBytes  = 16 << 10 // of a ticket
)

// The purposes for which a provider's key seals.
const (
	attemptPurpose = "sign-in-attempt"
	ticketPurpose  = "sign-in-ticket"
)

// ticketPrefix begins a ticket: the credential of a browser whose user has signed in. It is sealed
// with a key that only this process has, and never leaves it.
const ticketPrefix = "bpt_"

// idTokenTypes are the media types that an ID token may have. Access tokens are not accepted: some
// providers issue both kinds for the same audience.
var idTokenTypes = []string{"", "jwt"}

// An attempt is a sign-in that has begun. The browser keeps it sealed, so that strangers who begin
// many cost no memory.
type attempt struct {
	State, Nonce, Verifier string
	Next                   string // the page to show afterwards
	Until                  time.Time
}

// ProviderName returns the host of the provider at which people sign in with a browser; empty if
// there is none.
func (a *Authenticator) ProviderName() string {
	if a == nil || a.provider == nil {
		return ""
	}
	u, err := url.Parse(a.provider.cfg.Issuer.Issuer)
	if err != nil {
		return ""
	}
	return u.Host
}

var errNoProvider = &tool.Error{Kind: tool.Invalid, Msg: "sign-in with an identity provider is not configured: set " +
	"auth.sign_in"}

// BeginSignIn begins a sign-in. It returns the address that the browser opens, and the attempt,
// which the browser keeps in a cookie.
func (a *Authenticator) BeginSignIn(ctx context.Context, next string) (address, sealed string, err error) {
	p := a.provider
	if p == nil {
		return "", "", errNoProvider
	}
	m, err := p.loadMetadata(ctx)
	if err != nil {
		a.cfg.Log.Warn("identity provider not usable", "issuer", p.cfg.Issuer.Issuer, "err", err)
		return "", "", tool.Errorf(tool.Unavailable, "the identity provider %s can't be used now: try again later, or "+
			"ask an operator to run biplane doctor", a.ProviderName())
	}
	t := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next,
		Until: p.clock.Now().Add(attemptLife)}
	if sealed, err = p.sealValue(attemptPurpose, t); err != nil {
		return "", "", err
	}
	if len(sealed) > attemptBytes { // the page's address is long
		t.Next = "/"
		if sealed, err = p.sealValue(attemptPurpose, t); err != nil {
			return "", "", err
		}
	}
	address = p.oauthConfig(m, "").AuthCodeURL(t.State, oauth2.S256ChallengeOption(t.Verifier),
		oauth2.SetAuthURLParam("nonce", t.Nonce))
	return address, sealed, nil
}

func (p *provider) sealValue(purpose string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(p.key.Seal(purpose, text)), nil
}

// openValue is the inverse of sealValue. It reports whether this process sealed the text.
func (p *provider) openValue(purpose, sealed string, v any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return false
	}
	text, err := p.key.Unseal(purpose, raw)
	return err == nil && json.Unmarshal(text, v) == nil
}

// FinishSignIn completes the sign-in of a browser that the provider has sent back with r. It
// returns the browser's credential, and the page that the browser came from. The error is a
// *Refusal, and is recorded.
func (a *Authenticator) FinishSignIn(r *http.Request, sealed string) (credential, next string, err error) {
	if a.provider == nil {
		return "", "", errNoProvider
	}
	now := a.cfg.Clock.Now()
	who, next, no := a.provider.finishAttempt(r, sealed, now)
	if no != nil {
		return "", "", a.refuseRequest(Event{Time: now, Method: "browser", Remote: remoteAddress(r), Path: r.URL.Path,
			Claimed: no.claimed}, Need{}, no)
	}
	text, err := a.provider.sealValue(ticketPurpose, who)
	if err != nil {
		return "", "", err
	}
	return ticketPrefix + text, next, nil
}

// finishAttempt returns the person whom the provider names.
func (p *provider) finishAttempt(r *http.Request, sealed string, now time.Time) (who tool.Principal, next string,
	_ *rejection) {
	var t attempt
	q := r.URL.Query()
	switch {
	case len(sealed) > attemptBytes || !p.openValue(attemptPurpose, sealed, &t) || t.State == "":
		return who, "", newRejection(ReasonAttempt, "this browser has not begun to sign in, or Biplane was restarted "+
			"since: sign in again")
	case !now.Before(t.Until):
		return who, "", newRejection(ReasonAttempt, "the sign-in took longer than %v: sign in again", attemptLife)
	case len(q["state"]) != 1 || q.Get("state") != t.State:
		return who, "", newRejection(ReasonAttempt, "the answer belongs to another sign-in: sign in again")
	}
	m, err := p.loadMetadata(r.Context())
	if err != nil {
		return who, "", newRejection(ReasonIssuerDown, "the identity provider can't be reached: try again later")
	}
	if len(q["iss"]) > 1 || q.Has("iss") && q.Get("iss") != m.Issuer || m.SendsIssuer && !q.Has("iss") { // RFC 9207
		return who, "", newRejection(ReasonIssuer, "the answer is not from the identity provider %s: sign in again",
			p.cfg.Issuer.Issuer)
	}
	if q.Has("error") {
		return who, "", newRejection(ReasonAttempt, "the identity provider refuses: %s", truncateText(q.Get("error")))
	}
	if len(q["code"]) != 1 || q.Get("code") == "" {
		return who, "", newRejection(ReasonAttempt, "the identity provider's answer has no code: sign in again")
	}
	id, err := p.exchangeCode(r, m, t.Verifier)
	if err != nil {
		p.issuer.keys.log.Warn("code of a sign-in not exchanged", "issuer", m.Issuer, "err", err)
		if e := (*tool.Error)(nil); errors.As(err, &e) && (e.Kind == tool.Unavailable || e.Kind == tool.Limit) {
			return who, "", newRejection(ReasonIssuerDown, "%s", e.Msg)
		}
		return who, "", newRejection(ReasonAttempt, "the identity provider issued no ID token: sign in again; the "+
			"reason is in Biplane's log")
	}
	who, no := p.verifyPerson(r.Context(), id, t.Nonce, now)
	return who, t.Next, no
}

// verifyPerson verifies an ID token (OpenID Connect Core 1.0, section 3.1.3.7), and returns the
// person that it is about.
func (p *provider) verifyPerson(ctx context.Context, text, nonce string, now time.Time) (who tool.Principal,
	_ *rejection) {
	t, no := parseToken(text)
	if no != nil {
		return who, no
	}
	c, _, no := p.issuer.verifyToken(ctx, t, now)
	if no != nil {
		return who, no
	}
	if no := p.checkID(t, c, nonce); no != nil {
		return who, no
	}
	if who, no = p.issuer.toPrincipal(c); no != nil {
		return who, no
	}
	_, id, _ := strings.Cut(who.ID, "#")
	who.Agent, who.Chain, who.Person = "", nil, who.ID
	who.Scopes, who.Roles = []string{ScopeAPI}, p.issuer.matchRoles(id, who)
	who.Until = now.Add(p.cfg.Lifetime)
	if len(who.Roles) == 0 {
		no := newRejection(ReasonRole, "you have no role in Biplane: an operator assigns roles to groups and people "+
			"with auth.sign_in.roles")
		no.claimed = truncateText(who.ID)
		return tool.Principal{}, no
	}
	if size := len(strings.Join(who.Groups, "")) + 8*len(who.Groups); size > ticketBytes/2 {
		return tool.Principal{}, newRejection(ReasonClaims, "the token names too many groups: configure the provider "+
			"to include only the groups used here")
	}
	return who, nil
}

// checkID checks what only an ID token has: the issuer, the nonce and the authorized party.
func (p *provider) checkID(t *jwt.JSONWebToken, c claims, nonce string) *rejection {
	switch audience, known := c.textList("aud"); {
	case c.textClaim("iss") != p.cfg.Issuer.Issuer:
		return newRejection(ReasonIssuer, "the ID token is from another issuer")
	case c.textClaim("nonce") != nonce:
		return newRejection(ReasonAttempt, "the ID token belongs to another sign-in: sign in again")
	case c["azp"] != nil && c.textClaim("azp") != p.cfg.ClientID,
		(len(audience) > 1 || !known) && c.textClaim("azp") != p.cfg.ClientID:
		return newRejection(ReasonAudience, "the ID token was issued to another client")
	}
	return nil
}

// verifyTicket returns the person of a ticket.
func (p *provider) verifyTicket(text string, now time.Time) (who tool.Principal, no *rejection) {
	if p == nil || len(text) > 2*ticketBytes ||
		!p.openValue(ticketPurpose, strings.TrimPrefix(text, ticketPrefix), &who) ||
		!slices.Contains(who.Scopes, ScopeAPI) {
		return tool.Principal{}, newRejection(ReasonMalformed, "this is neither an API key nor an access token")
	}
	if !now.Before(who.Until) {
		return tool.Principal{}, newRejection(ReasonExpired, "the sign-in has expired: sign in again")
	}
	return who, nil
}
