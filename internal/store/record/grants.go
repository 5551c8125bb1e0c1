package record

import (
	"context"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The head records whether the store has sealed the other grants: then headGrants or headChained
// follows the root. Versions that sealed no grants wrote a head without it. So the rows of an older
// version can be distinguished from rows whose seals were removed.
const (
	headSize    = 8 + tlog.HashSize
	headGrants  = 1
	headChained = 2 // as headGrants, followed by the chain of the checkpoints
)

// Grants is the record's knowledge of whether the store has sealed its grants.
type Grants int

// The values of Grants.
const (
	GrantsNew      Grants = iota // there is no record yet
	GrantsUnsealed               // the record was written by a version that sealed nothing
	GrantsSealed                 // the seals must be present
)

// GrantsOf returns the record's knowledge of the store's seals. Any state that no version would
// have written is GrantsSealed. An error of kind Conflict means that the record is sealed with
// another key.
func GrantsOf(ctx context.Context, q Querier, key *secret.Key) (Grants, error) {
	var seed, head []byte
	var origin string
	var some bool
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT origin, seed FROM audit_log WHERE id = 1`), &origin,
		&seed); err != nil {
		return 0, err
	}
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT head FROM tail WHERE id = 1`), &head); err != nil {
		return 0, err
	}
	if seed == nil {
		err := fault.ScanOne(q.QueryRowContext(ctx,
			`SELECT EXISTS (SELECT 1 FROM audit_leaf) OR EXISTS (SELECT 1 FROM audit_checkpoint)`), &some)
		if err != nil || some || head != nil {
			return GrantsSealed, err
		}
		return GrantsNew, nil
	}
	_, old, err := OpenSeed(key, origin, seed)
	if err != nil {
		return 0, tool.Errorf(tool.Conflict,
			"the database was sealed with a key other than this data folder's: restore the right key: %w", err)
	}
	if head == nil {
		if old {
			return GrantsUnsealed, nil
		}
		return GrantsSealed, nil
	}
	text, err := key.Unseal(headPurpose, head, []byte(origin))
	if err == nil && len(text) == headSize {
		return GrantsUnsealed, nil
	}
	return GrantsSealed, nil
}
