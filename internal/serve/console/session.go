package console

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of browser sessions.
const (
	maxSessions   = 1000
	sessionLife   = 12 * time.Hour
	sessionIdle   = time.Hour
	maxCredential = 16 << 10
)

// sessions are the signed-in browsers, in memory: a restart signs all out. The cookie holds a
// random name, of which only the digest is stored. The credential is checked with each request, so
// that revoking it ends its sessions at once.
type sessions struct {
	clock *wallclock.Clock

	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

type session struct {
	owner       string // ID of the principal who signed in
	credential  string
	began, used time.Time
}

func (s *session) isOver(now time.Time) bool {
	return now.Sub(s.began) >= sessionLife || now.Sub(s.used) >= sessionIdle
}

func newSessions(clock *wallclock.Clock) *sessions {
	return &sessions{clock: clock, all: map[[sha256.Size]byte]*session{}}
}

// createSession creates a session of owner, and returns its name. If there are too many sessions,
// the least recently used one of the owner with the most sessions ends.
func (t *sessions) createSession(owner, credential string) (name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	count := map[string]int{}
	for k, s := range t.all {
		if s.isOver(now) {
			delete(t.all, k)
		} else {
			count[s.owner]++
		}
	}
	if len(t.all) >= maxSessions {
		var victim [sha256.Size]byte
		for k, s := range t.all {
			v := t.all[victim]
			if v == nil || count[s.owner] > count[v.owner] ||
				count[s.owner] == count[v.owner] && s.used.Before(v.used) {
				victim = k
			}
		}
		delete(t.all, victim)
	}
	name = rand.Text() + rand.Text()
	t.all[sha256.Sum256([]byte(name))] = &session{owner: owner, credential: credential, began: now, used: now}
	return name
}

// credentialOf returns the credential of a session, or "" if there is none.
func (t *sessions) credentialOf(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := sha256.Sum256([]byte(name))
	s := t.all[k]
	if s == nil || s.isOver(t.clock.Now()) {
		delete(t.all, k)
		return ""
	}
	s.used = t.clock.Now()
	return s.credential
}

func (t *sessions) endSession(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, sha256.Sum256([]byte(name)))
}

// cookieName returns the cookie's name. With TLS, its prefix makes browsers bind it to the host
// (RFC 6265bis, section 4.1.3.2).
func (s *Server) cookieName() string {
	if s.cfg.Secure {
		return "__Host-biplane"
	}
	return "biplane"
}

func (s *Server) setCookie(v *visit, value string, maxAge int) {
	http.SetCookie(v.w, &http.Cookie{
		Name: s.cookieName(), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: s.cfg.Secure,
		SameSite: http.SameSiteStrictMode,
	})
}

// authenticate returns the principal of a request, according to the credential of its session.
func (s *Server) authenticate(r *http.Request, a Access, decide bool) (tool.Principal, error) {
	if !a.SignIn {
		return a.Gate.Who(r, decide)
	}
	return a.Gate.Who(withCredential(r, s.credentialOf(r, a)), decide)
}

// credentialOf returns the credential of a request's session; empty if there is none.
func (s *Server) credentialOf(r *http.Request, a Access) string {
	if c, err := r.Cookie(s.cookieName()); err == nil && a.SignIn {
		return s.sessions.credentialOf(c.Value)
	}
	return ""
}

// withCredential returns r with credential and no other; if credential is empty, without any.
func withCredential(r *http.Request, credential string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	return r
}

// toSignIn redirects to the sign-in form. A browser that follows a link from another site doesn't
// send the cookie: it is asked to reload the page from here, once.
func toSignIn(v *visit) error {
	next := v.r.URL.RequestURI()
	if v.r.Method != http.MethodGet {
		next = "/"
	}
	if v.r.Header.Get("Sec-Fetch-Site") == "cross-site" && v.r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		v.w.Header().Set("Refresh", "0; url="+safeNext(next))
		v.renderPage(http.StatusOK, "again.html", safeNext(next))
		return nil
	}
	if v.r.URL.Path == connectedPath { // its code must not pass through other pages
		return errNotHere
	}
	http.Redirect(v.w, v.r, "/sign-in?next="+url.QueryEscape(next), http.StatusSeeOther)
	return nil
}

// safeNext returns the page to show after sign-in. It is always one of our own pages, whatever the
// address contains.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !isOwnPage(u.Path) ||
		strings.Contains(next, "\\") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// isOwnPage reports whether a path is that of a page for people who have signed in.
func isOwnPage(p string) bool {
	if p != path.Clean(p) {
		return false
	}
	parts := strings.Split(p, "/")
	return slices.ContainsFunc(listPages(), func(row page) bool {
		method, pattern, _ := strings.Cut(row.pattern, " ")
		if method != http.MethodGet || row.access == anyone || row.access == streams {
			return false
		}
		own := strings.Split(strings.TrimSuffix(pattern, "{$}"), "/")
		return slices.EqualFunc(parts, own, func(got, want string) bool {
			return got == want || strings.HasPrefix(want, "{") && got != ""
		})
	})
}

type signInData struct {
	Next, Problem string
	Provider      string // name of the identity provider; empty: none
}

func signInForm(v *visit) error {
	if !v.access.SignIn {
		http.Redirect(v.w, v.r, "/", http.StatusSeeOther)
		return nil
	}
	v.renderPage(http.StatusOK, "sign-in.html", signInData{Next: safeNext(v.r.URL.Query().Get("next")),
		Provider: providerName(v)})
	return nil
}

// signIn handles the form with an API key or an access token.
func signIn(v *visit) error {
	next, credential := safeNext(v.r.PostForm.Get("next")), strings.TrimSpace(v.r.PostForm.Get("key"))
	if !v.access.SignIn {
		return tool.Errorf(tool.Invalid, "sign-in is not configured")
	}
	if len(credential) > maxCredential {
		credential = ""
	}
	who, err := v.access.Gate.Who(withCredential(v.r, credential), false)
	if err != nil {
		showRefusal(v, next, err)
		return nil
	}
	beginSession(v, who.ID, credential)
	http.Redirect(v.w, v.r, next, http.StatusSeeOther)
	return nil
}

// showRefusal shows the sign-in form again, with the reason why a sign-in failed.
func showRefusal(v *visit, next string, err error) {
	status := http.StatusInternalServerError
	if no := (*identity.Refusal)(nil); errors.As(err, &no) {
		status = no.Status
	}
	v.renderPage(status, "sign-in.html", signInData{Next: next, Problem: tool.AsError(err).Msg,
		Provider: providerName(v)})
}

// beginSession begins a session of a principal, instead of the browser's previous one.
func beginSession(v *visit, principal, credential string) {
	v.server.endSession(v.r)
	v.server.setCookie(v, v.server.sessions.createSession(principal, credential), int(sessionLife.Seconds()))
}

func signOut(v *visit) error {
	v.server.endSession(v.r)
	v.server.setCookie(v, "", -1)
	http.Redirect(v.w, v.r, "/sign-in", http.StatusSeeOther)
	return nil
}

func (s *Server) endSession(r *http.Request) {
	if c, err := r.Cookie(s.cookieName()); err == nil {
		s.sessions.endSession(c.Value)
	}
}
