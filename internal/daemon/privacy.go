package daemon

import (
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/privacy"
)

// newPrivacy returns the Guard that hides personal data from models; nil if that is not configured.
func (d *Daemon) newPrivacy(key *secret.Key) *privacy.Guard {
	s := d.cfg.Settings.Privacy
	if !s.Tokenize {
		return nil
	}
	return privacy.New(privacy.Config{Store: d.store.Privacy(key), Fields: s.Fields, Kinds: s.Kinds,
		Binaries: s.Binaries, Idle: s.Idle, Log: d.log})
}
