package daemon

import (
	"github.com/biplane-dev/biplane/internal/control/privacy"
)

// newPrivacy returns the Guard that hides personal data from models; nil if that is not configured.
func (d assembly) newPrivacy() *privacy.Guard {
	s := d.cfg.Settings.Privacy
	if !s.Tokenize {
		return nil
	}
	return privacy.New(privacy.Config{Store: d.store.Privacy(d.key), Fields: s.Fields, Kinds: s.Kinds,
		Binaries: s.Binaries, Idle: s.Idle, Log: d.log})
}
