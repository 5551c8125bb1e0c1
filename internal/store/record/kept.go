package record

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// alone is the minimum size, in bytes, of data that has its own row and is stored only once,
	// however often it is recorded.
	alone = 4 << 10
	// packBytes is the size, in bytes, above which a pack is written before the transaction ends.
	packBytes = 64 << 10
	// tailItems is the maximum size, in bytes, of a pack that stays in the tail at the end of a
	// transaction, and tailBytes the maximum when it is encoded. Each transaction encodes it again,
	// and two or three of its rows fit in a page.
	tailItems = 4 << 10
	tailBytes = 1 << 10
	// packTime limits the age difference within a pack, because retention deletes it as a whole.
	packTime = time.Minute
)

// A pack is the data kept for some leaves, encoded. A small pack is in the tail, where it grows
// from transaction to transaction. A larger one has its own row.
type pack struct {
	key   *secret.Key
	first int64
	since time.Time // of the first
	time  time.Time // of the newest
	data  []byte    // its items: see appendItem
	known bool      // data holds the tail's pack, or the tail has none
	dirty bool      // the current transaction changes the tail's pack
}

func (p *pack) reset() { p.key, p.data = nil, p.data[:0] }

// discard forgets everything: the tail has the committed state.
func (p *pack) discard() { *p = pack{data: p.data[:0]} }

// isFull reports whether the data of a leaf belongs in a new pack.
func (p *pack) isFull(x *Leaf) bool {
	return !p.known || len(p.data) > 0 && (len(p.data) >= packBytes || p.key != x.Key ||
		x.Add.Time.Sub(p.since).Abs() > packTime)
}

// tailColumns returns the pack as the tail stores it.
func (p *pack) tailColumns() (first, time, kept any) {
	if len(p.data) == 0 {
		return 0, 0, []byte{}
	}
	return p.first, p.time.UnixMicro(), p.key.Seal(keptPurpose, encodeItems(p.data), packBind(p.first))
}

// keepAll stores the data to be kept for a leaf that was added.
func (e *Edge) keepAll(ctx context.Context, tx Tx, x *Leaf) error {
	if len(x.Add.Keep) > 0 && e.pack.isFull(x) {
		if err := e.flushPack(ctx, tx); err != nil {
			return err
		}
	}
	for _, k := range x.Add.Keep {
		if len(k.Data) >= alone {
			if err := e.StoreKept(ctx, tx, k.Digest, x.Add.Time, SealInto(nil, x.Key, k)); err != nil {
				return err
			}
			continue
		}
		if len(e.pack.data) == 0 {
			e.pack.key, e.pack.first, e.pack.since, e.pack.time = x.Key, x.Add.Seq, x.Add.Time, x.Add.Time
		}
		if x.Add.Time.After(e.pack.time) {
			e.pack.time = x.Add.Time
		}
		e.pack.data = appendItem(e.pack.data, x.Key, k)
		e.pack.dirty = true
	}
	return nil
}

// moveTail moves the tail's pack to its own row. The pack is from another process, or from before
// an error.
const moveTail = `INSERT OR REPLACE INTO audit_kept (first, time, data) SELECT kept_first, kept_time, kept FROM tail ` +
	`WHERE length(kept) > 0`

// flushPack moves the pack to its own row, and leaves the tail's pack empty.
func (e *Edge) flushPack(ctx context.Context, tx Tx) (err error) {
	p := &e.pack
	switch {
	case !p.known:
		_, err = tx.Statement(ctx, moveTail)
	case len(p.data) == 0:
		return nil
	default:
		first, time, kept := p.tailColumns()
		_, err = tx.Statement(ctx, `INSERT OR REPLACE INTO audit_kept (first, time, data) VALUES (?, ?, ?)`,
			first, time, kept)
	}
	p.reset()
	p.known, p.dirty = true, true
	return err
}

// settlePack moves the pack to its own row if it is too large for the tail.
func (e *Edge) settlePack(ctx context.Context, tx Tx) error {
	n := len(e.pack.data)
	if n <= tailBytes || n <= tailItems && len(encodeItems(e.pack.data)) <= tailBytes {
		return nil
	}
	return e.flushPack(ctx, tx)
}

func packBind(first int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(first)) }

const (
	// Data that is recorded again is kept as long as its newest record. Its time is updated at most
	// once a day.
	keepPayload = `INSERT INTO audit_payload (head, digest, time, data) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS
		(SELECT 1 FROM audit_payload WHERE head = ?1 AND digest = ?2)`
	touchPayload = `UPDATE audit_payload SET time = ?3 WHERE head = ?1 AND digest = ?2 AND time < ?3 - 86400000000`
)

// SealInto appends data to be kept, sealed as in its own row.
func SealInto(b []byte, key *secret.Key, k retention.Kept) []byte {
	return key.AppendSeal(b, payloadPurpose, k.Data, []byte(k.Digest))
}

// StoreKept stores data that SealInto sealed.
func (e *Edge) StoreKept(ctx context.Context, tx Tx, digest string, at time.Time, sealed []byte) error {
	head := headOf(digest)
	res, err := tx.Statement(ctx, keepPayload, head, digest, at.UnixMicro(), sealed)
	if err != nil {
		return err
	}
	if n, _ := res.RowsAffected(); n == 0 {
		_, err = tx.Statement(ctx, touchPayload, head, digest, at.UnixMicro())
	}
	return err
}

// headOf returns the number by which a digest (a name, a colon and hexadecimal digits) is indexed.
// It need not be unique.
func headOf(digest string) int64 {
	_, hex, _ := strings.Cut(digest, ":")
	n, _ := strconv.ParseUint(hex[:min(len(hex), 16)], 16, 64)
	return int64(n)
}

// PruneKept deletes some of the data kept before a time, and returns the number of rows deleted.
func (e *Edge) PruneKept(ctx context.Context, tx Tx, before time.Time) (rows int64, err error) {
	if err := e.flushPack(ctx, tx); err != nil {
		return 0, err
	}
	for _, query := range []string{
		`DELETE FROM audit_payload WHERE id IN (SELECT id FROM audit_payload WHERE time < ? ORDER BY time LIMIT 500)`,
		`DELETE FROM audit_kept WHERE first IN (SELECT first FROM audit_kept WHERE time < ? ORDER BY first LIMIT 500)`,
	} {
		res, err := tx.Statement(ctx, query, before.UnixMicro())
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

// packs selects all packs, including the tail's.
const packs = `(SELECT first, time, data FROM audit_kept UNION ALL SELECT kept_first, kept_time, kept FROM tail ` +
	`WHERE length(kept) > 0)`

// LoadKept returns the data kept under a digest of a leaf, or nil if there is none.
func (v *View) LoadKept(seq int64, digest string) (out []byte, err error) {
	var first int64
	var sealed []byte
	err = v.tx.QueryRowContext(v.ctx, `SELECT first, data FROM `+packs+` WHERE first <= ? ORDER BY first DESC LIMIT 1`,
		seq).Scan(&first, &sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, v.translateError(err)
	}
	if err == nil {
		err := v.openPack(first, sealed, func(d string, data []byte) error {
			if d == digest {
				out = data
			}
			return nil
		})
		if out != nil || err != nil {
			return out, err
		}
	}
	err = v.tx.QueryRowContext(v.ctx, `SELECT data FROM audit_payload WHERE head = ? AND digest = ?`, headOf(digest),
		digest).Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, v.translateError(err)
	}
	return v.openAlone(digest, sealed)
}

// openPack unseals a pack, and calls f with each item and its digest.
func (v *View) openPack(first int64, sealed []byte, f func(digest string, data []byte) error) error {
	return v.openItems(first, sealed, func(digest string, data []byte) error {
		if digest == "" {
			digest = retention.Digest(v.key, data)
		}
		return f(digest, data)
	})
}

// openItems is like openPack, for items whose digest is empty if it is not stored.
func (v *View) openItems(first int64, sealed []byte, f func(digest string, data []byte) error) error {
	data, err := v.key.Unseal(keptPurpose, sealed, packBind(first))
	if err == nil {
		err = eachItem(data, f)
	}
	if errors.Is(err, secret.ErrUnseal) {
		return tool.Errorf(tool.Conflict, "the data kept for leaf %d was changed, or sealed with another key: %w",
			first, err)
	}
	return err
}

func (v *View) openAlone(digest string, sealed []byte) ([]byte, error) {
	data, err := v.key.Unseal(payloadPurpose, sealed, []byte(digest))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "the data kept under %s was changed, or sealed with another key: %w",
			digest, err)
	}
	return data, nil
}

// HasKept reports which of the wanted data is still kept, in the pack of its leaf or in its own
// row. wanted must be sorted by leaf, as packs are.
func (v *View) HasKept(wanted []retention.Key) ([]bool, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	// from the pack of the first leaf on, or the one before it if it is in the tail
	const wantedPacks = `SELECT first, data FROM ` + packs + ` WHERE first >= coalesce((SELECT max(first) FROM ` +
		`audit_kept WHERE first <= ?1), 0) AND first <= ?2 ORDER BY first`
	out, in, all, i := make([]bool, len(wanted)), map[string]bool{}, false, 0
	before := func(next int64) {
		for ; i < len(wanted) && wanted[i].Seq < next; i++ {
			out[i] = all || in[wanted[i].Digest]
		}
	}
	err := v.eachRow(wantedPacks, func(scan func(...any) error) error {
		var first int64
		var sealed sql.RawBytes
		if err := scan(&first, &sealed); err != nil {
			return v.translateError(err)
		}
		before(first)
		clear(in)
		all = v.openPack(first, sealed, func(digest string, _ []byte) error { in[digest] = true; return nil }) != nil
		return nil
	}, wanted[0].Seq, wanted[len(wanted)-1].Seq)
	if err != nil {
		return nil, err
	}
	before(math.MaxInt64)
	const alone = `SELECT EXISTS (SELECT 1 FROM audit_payload WHERE head = ? AND digest = ?)`
	for i, k := range wanted {
		if out[i] {
			continue
		}
		if err := v.tx.QueryRowContext(v.ctx, alone, headOf(k.Digest), k.Digest).Scan(&out[i]); err != nil {
			return nil, v.translateError(err)
		}
	}
	return out, nil
}

// CountOutdated returns the number of rows that Prune would delete.
func (v *View) CountOutdated(before time.Time) (rows int64, err error) {
	const query = `SELECT (SELECT count(*) FROM audit_payload WHERE time < ?1) + (SELECT count(*) FROM ` + packs +
		` WHERE time < ?1)`
	if err := v.tx.QueryRowContext(v.ctx, query, before.UnixMicro()).Scan(&rows); err != nil {
		return 0, v.translateError(err)
	}
	return rows, nil
}

// AllKept calls f with all data that is kept.
func (v *View) AllKept(f func(digest string, data []byte, err error) error) error {
	err := v.eachRow(`SELECT digest, data FROM audit_payload`, func(scan func(...any) error) error {
		var digest string
		var sealed sql.RawBytes
		if err := scan(&digest, &sealed); err != nil {
			return v.translateError(err)
		}
		data, err := v.openAlone(digest, sealed)
		v.pauseWork()
		return f(digest, data, err)
	})
	if err != nil {
		return err
	}
	return v.eachRow(`SELECT first, data FROM `+packs, func(scan func(...any) error) error {
		var first int64
		var sealed sql.RawBytes
		if err := scan(&first, &sealed); err != nil {
			return v.translateError(err)
		}
		var own error
		err := v.openItems(first, sealed, func(digest string, data []byte) error {
			own = f(digest, data, nil)
			return own
		})
		v.pauseWork()
		if err != nil && own == nil {
			return f("", nil, err)
		}
		return own
	})
}
