package audit

import (
	"context"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Prove returns the proof that a record is in the log, as text that can be checked with only the
// log's public key. For each leaf of the record it has a C2SP tlog-proof with the leaf as extra
// data. It makes a new checkpoint, unless at is the text of an earlier one, which must cover the
// record's first half. Later leaves are not in such a proof.
func (l *Log) Prove(ctx context.Context, id, at string) (string, error) {
	c, err := l.checkpointAt(ctx, at)
	if err != nil {
		return "", err
	}
	leaves, err := l.Leaves(ctx, id)
	if err != nil {
		return "", err
	}
	var out []string
	err = l.store.View(ctx, func(v View) error {
		for _, leaf := range leaves {
			if leaf.Seq >= c.Size {
				continue
			}
			text, err := proof.WriteInclusion(v, c, leaf.Seq, leaf.Data)
			if err != nil {
				return err
			}
			out = append(out, text)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(out) == 0 {
		return "", tool.Errorf(tool.Conflict,
			"record %s is younger than the checkpoint of %d leaves: prove it with a later one", id, c.Size)
	}
	return strings.Join(out, "\n"), nil
}

func (l *Log) checkpointAt(ctx context.Context, at string) (*proof.Checkpoint, error) {
	if at == "" {
		return l.Checkpoint(ctx)
	}
	return proof.ParseCheckpoint(at, l.signer.Public())
}

// ProveConsistency returns the proof that the log of an older checkpoint is a prefix of this one,
// as it is at a new checkpoint.
func (l *Log) ProveConsistency(ctx context.Context, older string) (text string, err error) {
	old, err := proof.ParseCheckpoint(older, l.signer.Public())
	if err != nil {
		return "", err
	}
	c, err := l.Checkpoint(ctx)
	if err != nil {
		return "", err
	}
	err = l.store.View(ctx, func(v View) (err error) { text, err = proof.WriteConsistency(v, old, c); return err })
	return text, err
}
