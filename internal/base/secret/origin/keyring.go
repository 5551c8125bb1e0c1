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
	from keys
}

// keys are the entries of a keyring.
type keys interface {
	// getKey returns a secret, or keyring.ErrNotFound.
	getKey(name string) (string, error)
}

// systemKeys are the keys of the system's keyring.
type systemKeys struct{}

func (systemKeys) getKey(name string) (string, error) { return keyring.Get(keyringService, name) }

// NewKeyring returns the keyring of the user who runs this process.
func NewKeyring() Keyring { return Keyring{make(chan struct{}, 1), keyringTime, systemKeys{}} }

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
		defer close(done)
		defer func() { <-k.turn }()
		found, err = k.readNames(names)
	}()
	select {
	case <-done:
		return found, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readNames reads secrets, one after the other. The library panics if the bus ends while the
// keyring asks for a password.
func (k Keyring) readNames(names []string) (_ map[string]string, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the system's keyring can't be read: it ended meanwhile")
		}
	}()
	out := map[string]string{}
	for _, name := range names {
		value, err := k.from.getKey(name)
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
