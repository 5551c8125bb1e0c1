package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Purposes for personal data: values are sealed for the first, and looked up by a keyed digest for
// the second.
const (
	valuePurpose = "privacy-value"
	valueMAC     = "privacy-digest"
)

// Privacy stores the vaults of personal data. It implements privacy.Store.
type Privacy struct {
	s   *Store
	key *secret.Key
}

// Privacy returns the vaults of personal data, which key seals.
func (s *Store) Privacy(key *secret.Key) *Privacy { return &Privacy{s, key} }

const (
	findValue   = `SELECT n FROM privacy_value WHERE owner = ? AND session = ? AND mac = ?`
	insertValue = `INSERT OR IGNORE INTO privacy_value (owner, session, kind, n, mac, sealed) VALUES (?, ?, ?, ?, ?, ?)`
	saveNumber  = `INSERT INTO privacy_number (owner, kind, last) VALUES (?, ?, ?) ON CONFLICT (owner, kind) DO ` +
		`UPDATE SET last = max(last, excluded.last)`
	newVault   = `INSERT OR IGNORE INTO privacy_vault (owner, session, used) VALUES (?, ?, ?)`
	copyValues = `INSERT OR IGNORE INTO privacy_value (owner, session, kind, n, mac, sealed) SELECT owner, ?3, kind,` +
		` n, mac, sealed FROM privacy_value WHERE owner = ?1 AND session = ?2`
	endValues   = `DELETE FROM privacy_value WHERE owner = ? AND session = ?`
	endVault    = `DELETE FROM privacy_vault WHERE owner = ? AND session = ?`
	unusedVault = `used < ? AND (session = '' OR NOT EXISTS (SELECT 1 FROM session WHERE session.owner = v.owner AND ` +
		`session.name = v.session))`
)

// entryDigest returns the keyed digest by which an entry is looked up.
func (k *Privacy) entryDigest(owner string, e *privacy.Entry) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(len(owner)))
	mac := k.key.MAC(valueMAC, append(append(b, owner...), e.Key()...))
	return mac[:]
}

func valueBind(owner string, t privacy.Token) [][]byte {
	return [][]byte{[]byte(owner), []byte(t.Kind), binary.BigEndian.AppendUint64(nil, uint64(t.N))}
}

// sealValue seals an entry's value.
func (k *Privacy) sealValue(owner string, e *privacy.Entry) []byte {
	form := "t"
	if e.Literal {
		form = "l"
	}
	return k.key.Seal(valuePurpose, []byte(form+e.Value), valueBind(owner, e.Token)...)
}

func (k *Privacy) openValue(owner string, t privacy.Token, sealed []byte) (*privacy.Entry, error) {
	plain, err := k.key.Unseal(valuePurpose, sealed, valueBind(owner, t)...)
	if err != nil || len(plain) == 0 {
		return nil, tool.Errorf(tool.Conflict, "the value of %s was changed, or can't be read with this data "+
			"folder's key: restore the folder from a backup: %w", t,
			errors.Join(err, errors.New("a value of personal data")))
	}
	return &privacy.Entry{Token: t, Value: string(plain[1:]), Literal: plain[0] == 'l'}, nil
}

// Number assigns tokens to entries. See privacy.Store.
func (k *Privacy) Number(ctx context.Context, of tool.Scope, most int, all []*privacy.Entry) error {
	var fresh []*privacy.Entry
	macs := map[*privacy.Entry][]byte{}
	for _, e := range all {
		mac := k.entryDigest(of.Owner, e)
		err := k.s.read.QueryRowContext(ctx, findValue, of.Owner, of.Session, mac).Scan(&e.N)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			e.N, macs[e] = 0, mac
			fresh = append(fresh, e)
		case err != nil:
			return fault.TranslateRead(ctx, err)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	given := make([]int64, len(fresh)) // numbers assigned in the transaction; entries are updated after it
	err := k.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		var room int
		if err := w.conn.QueryRowContext(ctx, `SELECT count(*) FROM privacy_value WHERE owner = ? AND session = ?`,
			of.Owner, of.Session).Scan(&room); err != nil {
			return err
		}
		room = most - room
		for i, e := range fresh {
			err := w.conn.QueryRowContext(ctx, findValue, of.Owner, of.Session, macs[e]).Scan(&given[i])
			if err == nil || !errors.Is(err, sql.ErrNoRows) || room <= 0 {
				if err != nil && !errors.Is(err, sql.ErrNoRows) {
					return err
				}
				continue
			}
			room--
			if given[i], err = k.addEntry(ctx, w, of, *e, macs[e]); err != nil {
				return err
			}
		}
		return w.execStep(ctx, step{newVault, []any{of.Owner, of.Session, time.Now().UnixMicro()}})
	})
	if err != nil {
		return err
	}
	for i, e := range fresh {
		e.N = given[i]
	}
	return nil
}

// addEntry adds an entry with the owner's next number for its kind, and returns that number.
func (k *Privacy) addEntry(ctx context.Context, w *writer, of tool.Scope, e privacy.Entry, mac []byte) (int64,
	error) {
	var last int64
	err := w.conn.QueryRowContext(ctx, `SELECT last FROM privacy_number WHERE owner = ? AND kind = ?`, of.Owner,
		e.Kind).Scan(&last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	e.N = last + 1
	return e.N, k.putEntry(ctx, w, of, &e, mac)
}

func (k *Privacy) putEntry(ctx context.Context, w *writer, of tool.Scope, e *privacy.Entry, mac []byte) error {
	if err := w.execStep(ctx,
		step{insertValue,
			[]any{of.Owner, of.Session, string(e.Kind), e.N, mac, k.sealValue(of.Owner, e)}}); err != nil {
		return err
	}
	return w.execStep(ctx, step{saveNumber, []any{of.Owner, string(e.Kind), e.N}})
}

// Find returns the entries that tokens stand for. Unknown tokens are skipped.
func (k *Privacy) Find(ctx context.Context, of tool.Scope, tokens []privacy.Token) (out []privacy.Entry, _ error) {
	for _, t := range tokens {
		var sealed []byte
		err := k.s.read.QueryRowContext(ctx,
			`SELECT sealed FROM privacy_value WHERE owner = ? AND session = ? AND kind = ? AND n = ?`, of.Owner,
			of.Session, string(t.Kind), t.N).Scan(&sealed)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			continue
		case err != nil:
			return nil, fault.TranslateRead(ctx, err)
		}
		e, err := k.openValue(of.Owner, t, sealed)
		if err != nil {
			return nil, err
		}
		out = append(out, *e)
	}
	return out, nil
}

// All returns the entries of a kind; an empty kind means all of them.
func (k *Privacy) All(ctx context.Context, of tool.Scope, kind privacy.Kind) ([]privacy.Entry, error) {
	rows, err := k.s.read.QueryContext(ctx,
		`SELECT kind, n, sealed FROM privacy_value WHERE owner = ?1 AND session = ?2 AND (?3 = '' OR kind = ?3)`,
		of.Owner, of.Session, string(kind))
	return collectRows(ctx, rows, err, func(scan func(...any) error) (*privacy.Entry, error) {
		var t privacy.Token
		var sealed []byte
		if err := scan(&t.Kind, &t.N, &sealed); err != nil {
			return nil, err
		}
		return k.openValue(of.Owner, t, sealed)
	})
}

// Put adds entries with their existing tokens.
func (k *Privacy) Put(ctx context.Context, of tool.Scope, all []privacy.Entry) error {
	return k.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		for i := range all {
			if err := k.putEntry(ctx, w, of, &all[i], k.entryDigest(of.Owner, &all[i])); err != nil {
				return err
			}
		}
		return w.execStep(ctx, step{newVault, []any{of.Owner, of.Session, time.Now().UnixMicro()}})
	})
}

// Copy copies the entries of a vault to another vault of the same owner.
func (k *Privacy) Copy(ctx context.Context, from, to tool.Scope) error {
	if from.Owner != to.Owner {
		return tool.Errorf(tool.Internal, "a vault of personal data can only be copied to one with the same owner")
	}
	return k.s.writer.execAll(ctx, true, []step{
		{copyValues, []any{from.Owner, from.Session, to.Session}},
		{newVault, []any{to.Owner, to.Session, time.Now().UnixMicro()}},
	})
}

// Touch records that a vault is in use. A power failure may undo it.
func (k *Privacy) Touch(ctx context.Context, of tool.Scope, at time.Time) error {
	return k.s.writer.execStatement(ctx, false,
		`UPDATE privacy_vault SET used = max(used, ?) WHERE owner = ? AND session = ?`, at.UnixMicro(),
		of.Owner, of.Session)
}

// Expire deletes the vaults that were not used since a time and belong to no existing session. It
// returns the number of values deleted.
func (k *Privacy) Expire(ctx context.Context, before time.Time) (n int, err error) {
	err = k.s.writer.runInTransaction(ctx, false, func(ctx context.Context, w *writer) error {
		res, err := w.runStatement(ctx, `DELETE FROM privacy_value WHERE EXISTS (SELECT 1 FROM privacy_vault v WHERE `+
			`v.owner = privacy_value.owner AND v.session = privacy_value.session AND `+unusedVault+`)`,
			before.UnixMicro())
		if err != nil {
			return err
		}
		gone, err := res.RowsAffected()
		if err != nil {
			return err
		}
		n = int(gone)
		return w.execStep(ctx, step{`DELETE FROM privacy_vault AS v WHERE ` + unusedVault, []any{before.UnixMicro()}})
	})
	return n, err
}
