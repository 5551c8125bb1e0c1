package tool

import "context"

type peopleKey struct{}

// ForPeople returns a context for a call whose result people read, not a model, as at the HTTP API
// and the command line. They see personal data.
func ForPeople(ctx context.Context) context.Context {
	return context.WithValue(ctx, peopleKey{}, true)
}

// IsForPeople reports whether people read the result of a call.
func IsForPeople(ctx context.Context) bool { return ctx.Value(peopleKey{}) != nil }
