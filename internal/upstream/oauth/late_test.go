package oauth_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
)

// After a cancellation or sign-out during the exchange of the code, the user is not signed in.
func TestGivenUp(t *testing.T) {
	r := newRig(t)
	c := r.open(t, oauth.Config{})
	f, err := c.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	r.token = func(q url.Values) (int, any) { close(entered); <-leave; return r.issue(q) }
	var wg sync.WaitGroup
	wg.Go(func() { browse(t, f.URL) })
	<-entered
	f.Close() // it doesn't wait for the server
	if err := f.Wait(t.Context()); err == nil {
		t.Error("signed in")
	}
	close(leave)
	wg.Wait()
	if in, _, err := c.SignedIn(t.Context()); in || err != nil {
		t.Errorf("signed in: %v, %v", in, err)
	}
	r.token = nil
	late, err := c.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	late.Close()
	u, err := url.Parse(late.URL)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	wants(t, late.Paste(late.Redirect+"?code=x&state="+u.Query().Get("state")), tool.Conflict, "canceled")
}

// After a sign-out during a renewal the user is signed out, and the new tokens are revoked as well.
func TestForgottenMeanwhile(t *testing.T) {
	r, s := newRig(t), newStore(t)
	r.life = 5
	c := r.open(t, oauth.Config{Store: s})
	if err := signIn(t, c); err != nil {
		t.Fatalf("signIn: %v", err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	given := make(chan any, 1)
	r.token = func(q url.Values) (int, any) {
		close(entered)
		<-leave
		status, v := r.issue(q)
		given <- v
		return status, v
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := c.Token(t.Context(), false); got != "" || err != nil {
			t.Errorf("after signing out: %q, %v", got, err)
		}
	})
	<-entered
	if _, err := c.Forget(t.Context()); err != nil {
		t.Fatalf("Forget: %v", err)
	}
	close(leave)
	wg.Wait()
	if form, v := r.last("token_type_hint"), (<-given).(map[string]any); form.Get("token") != v["access_token"] ||
		r.count("POST /revoke") != 4 {
		t.Errorf("%d revoked, last %v", r.count("POST /revoke"), form)
	}
	if got := token(t, c, true); got != "" {
		t.Errorf("token %q", got)
	}
}

// A lateStore is a store with delayed answers.
type lateStore struct {
	oauth.Store
	loaded, leave chan struct{} // nil: not delayed
}

func (s *lateStore) Load(ctx context.Context, upstream, resource string) ([]byte, string, error) {
	text, revision, err := s.Store.Load(ctx, upstream, resource)
	if s.loaded != nil {
		loaded, leave := s.loaded, s.leave
		s.loaded = nil
		close(loaded)
		<-leave
	}
	return text, revision, err
}

// A state read before a sign-out is not used after it.
func TestReadTooEarly(t *testing.T) {
	r := newRig(t)
	s := &lateStore{Store: newStore(t)}
	c := r.open(t, oauth.Config{Store: s})
	mustSignIn(t, c)
	loaded := make(chan struct{})
	s.loaded, s.leave = loaded, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := c.SignedIn(t.Context()); err != nil {
			t.Errorf("SignedIn: %v", err)
		}
	})
	<-loaded
	if _, err := c.Forget(t.Context()); err != nil {
		t.Fatalf("Forget: %v", err)
	}
	close(s.leave)
	wg.Wait()
	if got := token(t, c, false); got != "" {
		t.Errorf("token %q", got)
	}
}

// However short tokens live, and however often they are requested, the authorization server is
// asked rarely.
func TestNoStorm(t *testing.T) {
	r := newRig(t)
	r.life = 1
	c := r.open(t, oauth.Config{})
	if err := signIn(t, c); err != nil {
		t.Fatalf("signIn: %v", err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got, err := c.Token(t.Context(), false); got == "" || err != nil {
				t.Errorf(`got = %q, err = %v, want got != "" && err == nil`, got, err)
			}
		})
	}
	wg.Wait()
	if n, most := r.count("POST /token"), 2+int(time.Since(begin)/(5*time.Second)); n > most {
		t.Errorf("%d token requests, %d at most", n, most)
	}
}

// After a failure, no caller contacts the authorization server for a while.
func TestNoStormWhileAway(t *testing.T) {
	r := newRig(t)
	c := r.open(t, oauth.Config{})
	held := mustSignIn(t, c)
	r.token = func(url.Values) (int, any) { return 503, "away" }
	c.RecordRefusal(held, http.StatusUnauthorized, nil)
	begin := time.Now()
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got, err := c.Token(t.Context(), true); got != "" ||
				err != nil && !strings.Contains(err.Error(), "can't be renewed now") {
				t.Errorf("got = %q, err = %v, want got == \"\" && (err == nil || "+
					"strings.Contains(err.Error(), \"can't be renewed now\"))", got, err)
			}
		})
	}
	wg.Wait()
	if n, most := r.count("POST /token"), 2+int(time.Since(begin)/(5*time.Second)); n > most {
		t.Errorf("%d token requests, %d at most", n, most)
	}
}

// A token that was renewed because it was about to expire, and is refused soon after, is renewed
// once more. One that was renewed because it was refused is not.
func TestRefusedAfterRenewal(t *testing.T) {
	r := newRig(t)
	r.life = 5
	c := r.open(t, oauth.Config{})
	if err := signIn(t, c); err != nil {
		t.Fatalf("signIn: %v", err)
	}
	r.life = 3600
	renewed := token(t, c, false)
	c.RecordRefusal(renewed, http.StatusUnauthorized, nil)
	second := token(t, c, true)
	if second == "" || second == renewed {
		t.Fatalf("after a refusal: %q", second)
	}
	c.RecordRefusal(second, http.StatusUnauthorized, nil)
	if got := token(t, c, true); got != "" || r.count("POST /token") != 3 {
		t.Errorf("after the second refusal: %q, %d token requests", got, r.count("POST /token"))
	}
}

// A process that was killed during a renewal doesn't delay one that knows it is dead.
func TestKilledWhileRenewing(t *testing.T) {
	r, s := newRig(t), newStore(t)
	r.life = 25 // renewed at once, but valid until the end of the test
	if err := signIn(t, r.open(t, oauth.Config{Store: s})); err != nil {
		t.Fatalf("signIn: %v", err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	r.token = func(url.Values) (int, any) { close(entered); <-leave; return 503, "too late" }
	killed := r.open(t, oauth.Config{Store: s})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := killed.Token(t.Context(), false); err != nil { // it returns the token that is about to expire
			t.Errorf("Token: %v", err)
		}
	})
	<-entered
	r.mu.Lock()
	r.life, r.token = 3600, nil
	r.mu.Unlock()
	got := token(t, r.open(t, oauth.Config{Store: s, Alone: true}), false)
	close(leave)
	wg.Wait()
	if got == "" || got != token(t, r.open(t, oauth.Config{Store: s}), false) {
		t.Errorf("token %q", got)
	}
}
