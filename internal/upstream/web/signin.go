package web

import (
	"context"
	"net/http"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A SignIn holds the tokens of people who sign in to an API. An *oauth.Client implements it.
type SignIn interface {
	// Token returns the current access token, or "" if a person has to sign in. If renew is set,
	// the server refused the last token and another one is needed. An error means that the token is
	// temporarily unknown.
	Token(ctx context.Context, renew bool) (string, error)
	// RecordRefusal is called when the server answered a request that carried token with status 401
	// or 403.
	RecordRefusal(token string, status int, h http.Header)
	// Changes returns a channel that receives a value when a user signs in or out.
	Changes() <-chan struct{}
}

// signInTime limits the check of a sign-in, which may renew the token.
const signInTime = 15 * time.Second

// checkSignIn returns the health of a service whose description is loaded.
func (s *Service[T]) checkSignIn(ctx context.Context) tool.Health {
	if s.Config.SignIn == nil {
		return tool.Health{State: tool.Ready}
	}
	ctx, cancel := context.WithTimeout(ctx, signInTime)
	defer cancel()
	token, err := s.Config.SignIn.Token(ctx, false)
	switch {
	case err != nil:
		return tool.Health{State: tool.Degraded, Reason: CleanLine(s.Config.Mask.Text(err.Error()), 500)}
	case token == "":
		return tool.Health{State: tool.NeedsSignIn, Reason: s.signInAdvice()}
	}
	return tool.Health{State: tool.Ready}
}

// UpdateSignIn updates the health after the server accepted or refused a token.
func (s *Service[T]) UpdateSignIn(ctx context.Context) {
	h := s.checkSignIn(ctx)
	if ctx.Err() != nil { // the check says nothing
		return
	}
	s.mu.Lock()
	same := s.loaded == nil || s.snap.Health == h || s.snap.Health.State == tool.Down
	s.mu.Unlock()
	if !same {
		s.setState(func() { s.snap.Health = h })
	}
}

// watchSignIn updates the health when a user signs in or out, until ctx is done.
func (s *Service[T]) watchSignIn(ctx context.Context) {
	var changes <-chan struct{}
	if s.Config.SignIn != nil {
		changes = s.Config.SignIn.Changes()
	}
	for {
		select {
		case <-changes:
			s.UpdateSignIn(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// signInAdvice tells a person how to sign in.
func (s *Service[T]) signInAdvice() string {
	if s.Config.Advice != "" {
		return s.Config.Advice
	}
	return "run biplane connect " + s.Config.Name
}

// RequireToken returns the access token of the person who signed in. Its error says how to sign in.
func (s *Service[T]) RequireToken(ctx context.Context, renew bool) (string, error) {
	if s.Config.SignIn == nil {
		return "", tool.Errorf(tool.Internal, "upstream %q has no sign-in", s.Config.Name)
	}
	token, err := s.Config.SignIn.Token(ctx, renew)
	if err == nil && token == "" {
		s.UpdateSignIn(ctx)
		err = tool.Errorf(tool.Unavailable, "upstream %q needs sign-in: %s", s.Config.Name, s.signInAdvice())
	}
	return token, err
}
