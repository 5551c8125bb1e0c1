package audit

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
)

// newSigner returns a Signer with a random name and key.
func newSigner() *proof.Signer {
	s, err := proof.NewSigner(proof.NewOrigin(), proof.NewSeed())
	if err != nil {
		panic(err) // both were generated here
	}
	return s
}

// Origin returns the name of the log.
func (l *Log) Origin() string { return l.signer.Origin() }

// Public returns the key that verifies the log's checkpoints: a verifier key of C2SP signed-note.
func (l *Log) Public() string { return l.signer.Public() }

// Checkpoint signs the log's current head. The checkpoint, and everything that it covers, is on the
// disk when it returns.
func (l *Log) Checkpoint(ctx context.Context) (*proof.Checkpoint, error) {
	var c *proof.Checkpoint
	err := l.store.Checkpoint(ctx, func(h proof.Head) (string, error) {
		text, err := l.signer.SignHead(h)
		c = &proof.Checkpoint{Origin: l.signer.Origin(), Head: h, Text: text}
		return text, err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Checkpoints calls f with each stored checkpoint that has a valid signature, oldest first. Verify
// reports the others.
func (l *Log) Checkpoints(ctx context.Context, f func(*proof.Checkpoint) error) error {
	return l.store.View(ctx, func(v View) error {
		return v.Checkpoints(func(text string) error {
			c, err := proof.ParseCheckpoint(text, l.signer.Public())
			if err != nil {
				return nil
			}
			return f(c)
		})
	})
}

// Head returns the log's current size and root, unsigned.
func (l *Log) Head(ctx context.Context) (h proof.Head, err error) {
	err = l.store.View(ctx, func(v View) (err error) { h, err = v.Head(); return err })
	return h, err
}

// Seal makes a checkpoint unless the newest stored one covers all leaves.
func (l *Log) Seal(ctx context.Context) error {
	var size, covered int64
	err := l.store.View(ctx, func(v View) error {
		h, err := v.Head()
		if err != nil {
			return err
		}
		size = h.Size
		newest := ""
		if err := v.Checkpoints(func(text string) error { newest = text; return nil }); err != nil || newest == "" {
			return err
		}
		if c, err := proof.ParseCheckpoint(newest, l.signer.Public()); err == nil {
			covered = c.Size
		}
		return nil
	})
	if err != nil || size == covered {
		return err
	}
	_, err = l.Checkpoint(ctx)
	return err
}
