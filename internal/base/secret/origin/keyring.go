package origin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
)

// keyringService is the service under which secrets are in the keyring. Their names are the user
// names.
const keyringService = "biplane"

// keyringTime is how long a read waits. A locked keyring asks its user for a password.
const keyringTime = 10 * time.Second

// A Keyring is the keyring of the operating system: the Secret Service on Linux, the keychain on
// macOS, the credential manager on Windows.
type Keyring struct {
	turn chan struct{} // capacity 1: a read can't be interrupted, so the next one waits for it
	wait time.Duration
}

// NewKeyring returns the keyring of the user who runs this process.
func NewKeyring() Keyring { return Keyring{make(chan struct{}, 1), keyringTime} }

// ReadSecrets returns the values of the named secrets that the keyring has.
func (k Keyring) ReadSecrets(ctx context.Context, names []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, k.wait, fmt.Errorf(
		"the system's keyring did not answer within %s: it may be locked, unlock it", k.wait))
	defer cancel()
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var found map[string]string
	var err error
	done := make(chan struct{})
	go func() {
		found, err = readKeyring(names)
		<-k.turn
		close(done)
	}()
	select {
	case <-done:
		return found, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readKeyring reads secrets, one after the other.
func readKeyring(names []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range names {
		value, err := keyring.Get(keyringService, name)
		if errors.Is(err, keyring.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the system's keyring can't be read: %w", err)
		}
		out[name] = value
	}
	return out, nil
}
