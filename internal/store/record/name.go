package record

import (
	"context"
	"database/sql"
	"errors"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ReadName returns the record's name, which is empty if it has none, and the sealed seed of its
// key.
func ReadName(ctx context.Context, q Querier) (origin string, sealed []byte, err error) {
	err = q.QueryRowContext(ctx, `SELECT origin, seed FROM audit_log WHERE id = 1`).Scan(&origin, &sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", nil, fault.TranslateRead(ctx, err)
	}
	return origin, sealed, nil
}

// OpenSeed unseals the seed of a log's key. old means that the log need not have a sealed head.
func OpenSeed(key *secret.Key, origin string, sealed []byte) (seed []byte, old bool, err error) {
	for _, purpose := range []string{witnessedPurpose, namedPurpose} {
		if seed, err = key.Unseal(purpose, sealed, []byte(origin)); err == nil {
			return seed, false, nil
		}
	}
	seed, err = key.Unseal(seedPurpose, sealed, []byte(origin))
	return seed, true, err
}

// RequiresWitness reports whether a record must have a witness, according to the sealed seed of its
// key.
func RequiresWitness(key *secret.Key, origin string, sealed []byte) bool {
	_, err := key.Unseal(witnessedPurpose, sealed, []byte(origin))
	return err == nil
}

// SetName sets the log's name and key, and seals its head, which is required from then on. It
// refuses a log whose head doesn't match its seal.
func (e *Edge) SetName(ctx context.Context, tx Tx, key *secret.Key, origin string, seed []byte) error {
	if err := e.LoadTree(ctx, tx, key); err != nil {
		return err
	}
	query := nameLog
	if e.heading.origin == origin {
		query = renameLog
	}
	_, err := tx.Statement(ctx, query, origin, key.Seal(witnessedPurpose, seed, []byte(origin)))
	if err == nil {
		e.heading.origin, e.unsealed = origin, true
	}
	return err
}

// renameLog reseals the key of an older version's log in the present form.
const renameLog = `UPDATE audit_log SET origin = ?, seed = ? WHERE id = 1`

// nameLog names a log that has no name. A row with an empty name, whose seed seals nothing, is that
// of a record upgraded from an older form that has no key yet.
const nameLog = `INSERT INTO audit_log (id, origin, seed) VALUES (1, ?, ?)
	ON CONFLICT (id) DO UPDATE SET origin = excluded.origin, seed = excluded.seed WHERE origin = ''`

// CheckNameless checks that a log without a name may be given one: it is new, or was upgraded from
// an older form. Otherwise its row was removed, and with a new key no one could distinguish it from
// a rewritten log.
func CheckNameless(ctx context.Context, q Querier, key *secret.Key, sealed []byte) error {
	if sealed != nil {
		if _, err := key.Unseal(seedPurpose, sealed, nil); err == nil {
			return nil
		}
	}
	var some bool
	if err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM execution)`).Scan(&some); err != nil {
		return fault.TranslateRead(ctx, err)
	}
	if some {
		return tool.Errorf(tool.Conflict, "the database has executions, but no record that describes them: the "+
			"record was removed; restore the whole data folder from a backup, or use another folder with --data-dir, "+
			"and keep this one")
	}
	if err := q.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM audit_leaf) OR EXISTS (SELECT 1 FROM audit_checkpoint)`).Scan(&some); err != nil {
		return fault.TranslateRead(ctx, err)
	}
	if some || sealed != nil {
		return tool.Errorf(tool.Conflict, "the record in this data folder has entries, but its name and key are "+
			"missing: the database was changed; restore it from a backup, or use another folder with --data-dir, and "+
			"keep this one")
	}
	return nil
}
