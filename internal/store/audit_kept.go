package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// alone is from which size on what is kept has a row of its own, and is kept once however often it is recorded, in bytes.
	alone = 4 << 10
	// packBytes is from which size on a pack is written within a transaction, in bytes.
	packBytes = 64 << 10
	// tailBytes is up to which size one stays in the tail at the end of a transaction, in bytes: that is a page then.
	tailBytes = 2 << 10
	// packTime is how far what is in a pack may be apart: retention throws it away as a whole.
	packTime = time.Minute
)

// A pack is what is kept of some leaves, in bytes: for each the length of its digest and of its data (varints), digest and data. While it is
// small the tail has it, and it grows there from transaction to transaction; then it has a row of its own.
type pack struct {
	key   *secret.Key
	first int64
	since time.Time // of the first
	time  time.Time // of the newest
	data  []byte
	known bool // what the tail has is in data, or nothing
	dirty bool // the transaction under way changes what the tail is to have
}

func (p *pack) reset() { p.key, p.data = nil, p.data[:0] }

// lose forgets all: what the tail has is there.
func (p *pack) lose() { *p = pack{data: p.data[:0]} }

func (p *pack) add(k audit.Kept) {
	p.data = binary.AppendUvarint(p.data, uint64(len(k.Digest)))
	p.data = binary.AppendUvarint(p.data, uint64(len(k.Data)))
	p.data = append(append(p.data, k.Digest...), k.Data...)
}

// eachKept gives what is in a pack, and reports whether it is one.
func eachKept(data []byte, f func(digest string, data []byte) error) error {
	for len(data) > 0 {
		n, a := binary.Uvarint(data)
		if a <= 0 {
			return secret.ErrUnseal
		}
		m, b := binary.Uvarint(data[a:])
		if b <= 0 {
			return secret.ErrUnseal
		}
		data = data[a+b:]
		if n > uint64(len(data)) || m > uint64(len(data))-n {
			return secret.ErrUnseal
		}
		if err := f(string(data[:n]), data[n:n+m:n+m]); err != nil {
			return err
		}
		data = data[n+m:]
	}
	return nil
}

// full reports whether what is kept of a leaf belongs into another pack.
func (p *pack) full(x *leaf) bool {
	return !p.known || len(p.data) > 0 && (len(p.data) >= packBytes || p.key != x.a.key || x.add.Time.Sub(p.since).Abs() > packTime)
}

// row gives what the tail has of it.
func (p *pack) row() (first, time, kept any) {
	if len(p.data) == 0 {
		return 0, 0, []byte{}
	}
	return p.first, p.time.UnixMicro(), p.key.Seal(auditKeptPurpose, p.data, packBind(p.first))
}

// keepAll keeps what is to be kept of a leaf that was added.
func (w *writer) keepAll(ctx context.Context, x *leaf) error {
	if len(x.add.Keep) > 0 && w.pack.full(x) {
		if err := w.packed(ctx); err != nil {
			return err
		}
	}
	for _, k := range x.add.Keep {
		if len(k.Data) >= alone {
			sealed := x.a.key.Seal(auditPayloadPurpose, k.Data, []byte(k.Digest))
			if err := w.keep(ctx, k.Digest, x.add.Time, sealed); err != nil {
				return err
			}
			continue
		}
		if len(w.pack.data) == 0 {
			w.pack.key, w.pack.first, w.pack.since, w.pack.time = x.a.key, x.add.Seq, x.add.Time, x.add.Time
		}
		if x.add.Time.After(w.pack.time) {
			w.pack.time = x.add.Time
		}
		w.pack.add(k)
		w.pack.dirty = true
	}
	return nil
}

// moveTail gives what the tail has of another process, or of before an error, a row of its own.
const moveTail = `INSERT OR REPLACE INTO audit_kept (first, time, data) SELECT kept_first, kept_time, kept FROM tail WHERE length(kept) > 0`

// packed gives the pack a row of its own; the tail has nothing of it then.
func (w *writer) packed(ctx context.Context) (err error) {
	p := &w.pack
	switch {
	case !p.known:
		_, err = w.statement(ctx, moveTail)
	case len(p.data) == 0:
		return nil
	default:
		first, time, kept := p.row()
		_, err = w.statement(ctx, `INSERT OR REPLACE INTO audit_kept (first, time, data) VALUES (?, ?, ?)`, first, time, kept)
	}
	p.reset()
	p.known, p.dirty = true, true
	return err
}

// settlePack gives a pack that is too large for the tail a row of its own.
func (w *writer) settlePack(ctx context.Context) error {
	if len(w.pack.data) <= tailBytes {
		return nil
	}
	return w.packed(ctx)
}

func packBind(first int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(first)) }

const (
	// What is recorded again is kept as long as the newest record of it; that is written once a day.
	keepPayload = `INSERT INTO audit_payload (head, digest, time, data) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS
		(SELECT 1 FROM audit_payload WHERE head = ?1 AND digest = ?2)`
	touchPayload = `UPDATE audit_payload SET time = ?3 WHERE head = ?1 AND digest = ?2 AND time < ?3 - 86400000000`
)

// keep keeps sealed bytes in the transaction under way.
func (w *writer) keep(ctx context.Context, digest string, at time.Time, sealed []byte) error {
	head := headOf(digest)
	res, err := w.statement(ctx, keepPayload, head, digest, at.UnixMicro(), sealed)
	if err != nil {
		return err
	}
	if n, _ := res.RowsAffected(); n == 0 {
		_, err = w.statement(ctx, touchPayload, head, digest, at.UnixMicro())
	}
	return err
}

// headOf is the number under which a digest, a name and hexadecimal, is found; it need not be its own alone.
func headOf(digest string) int64 {
	_, hex, _ := strings.Cut(digest, ":")
	n, _ := strconv.ParseUint(hex[:min(len(hex), 16)], 16, 64)
	return int64(n)
}

// Prune throws away what was kept before a time, a bounded number at once, so that calls needn't wait for it.
func (a *Audit) Prune(ctx context.Context, before time.Time) (rows int64, err error) {
	for _, query := range []string{
		`DELETE FROM audit_payload WHERE id IN (SELECT id FROM audit_payload WHERE time < ? ORDER BY time LIMIT 500)`,
		`DELETE FROM audit_kept WHERE first IN (SELECT first FROM audit_kept WHERE time < ? ORDER BY first LIMIT 500)`,
	} {
		for n := int64(1); n > 0; rows += n {
			err := a.s.writer.call(ctx, false, func(ctx context.Context, w *writer) error {
				if err := w.packed(ctx); err != nil {
					return err
				}
				res, err := w.statement(ctx, query, before.UnixMicro())
				if err == nil {
					n, err = res.RowsAffected()
				}
				return err
			})
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, a.s.wipe()
}

// packs is all packs, that of the tail among them.
const packs = `(SELECT first, time, data FROM audit_kept UNION ALL SELECT kept_first, kept_time, kept FROM tail WHERE length(kept) > 0)`

// Kept gives what is kept under a digest of a leaf.
func (v *auditView) Kept(seq int64, digest string) (out []byte, err error) {
	var first int64
	var sealed []byte
	err = v.tx.QueryRowContext(v.ctx, `SELECT first, data FROM `+packs+` WHERE first <= ? ORDER BY first DESC LIMIT 1`, seq).Scan(&first, &sealed)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, v.fail(err)
	}
	if err == nil {
		err := v.open(first, sealed, func(d string, data []byte) error {
			if d == digest {
				out = data
			}
			return nil
		})
		if out != nil || err != nil {
			return out, err
		}
	}
	err = v.tx.QueryRowContext(v.ctx, `SELECT data FROM audit_payload WHERE head = ? AND digest = ?`, headOf(digest), digest).Scan(&sealed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, v.fail(err)
	}
	return v.openAlone(digest, sealed)
}

// open gives what is in a sealed pack.
func (v *auditView) open(first int64, sealed []byte, f func(digest string, data []byte) error) error {
	data, err := v.a.key.Unseal(auditKeptPurpose, sealed, packBind(first))
	if err == nil {
		err = eachKept(data, f)
	}
	if errors.Is(err, secret.ErrUnseal) {
		return tool.Errorf(tool.Conflict, "what is kept of leaf %d was changed, or sealed with another key: %w", first, err)
	}
	return err
}

func (v *auditView) openAlone(digest string, sealed []byte) ([]byte, error) {
	data, err := v.a.key.Unseal(auditPayloadPurpose, sealed, []byte(digest))
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "what is kept under %s was changed, or sealed with another key: %w", digest, err)
	}
	return data, nil
}

// Has says of what was kept which is there: in the pack of its leaf, or by itself. Packs follow each other as their leaves do.
func (v *auditView) Has(wanted []audit.KeptAt) ([]bool, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	const wantedPacks = `SELECT first, data FROM ` + packs + ` WHERE first >= coalesce((SELECT max(first) FROM ` + packs + ` WHERE first <= ?1), ?1) AND first <= ?2 ORDER BY first`
	out, in, all, i := make([]bool, len(wanted)), map[string]bool{}, false, 0
	before := func(next int64) {
		for ; i < len(wanted) && wanted[i].Seq < next; i++ {
			out[i] = all || in[wanted[i].Digest]
		}
	}
	err := v.rows(wantedPacks, func(scan func(...any) error) error {
		var first int64
		var sealed sql.RawBytes
		if err := scan(&first, &sealed); err != nil {
			return v.fail(err)
		}
		before(first)
		clear(in)
		all = v.open(first, sealed, func(digest string, _ []byte) error { in[digest] = true; return nil }) != nil
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
			return nil, v.fail(err)
		}
	}
	return out, nil
}

// Outdated counts what Prune would throw away.
func (v *auditView) Outdated(before time.Time) (rows int64, err error) {
	const query = `SELECT (SELECT count(*) FROM audit_payload WHERE time < ?1) + (SELECT count(*) FROM ` + packs + ` WHERE time < ?1)`
	if err := v.tx.QueryRowContext(v.ctx, query, before.UnixMicro()).Scan(&rows); err != nil {
		return 0, v.fail(err)
	}
	return rows, nil
}

// AllKept calls f with all that is kept.
func (v *auditView) AllKept(f func(digest string, data []byte, err error) error) error {
	err := v.rows(`SELECT digest, data FROM audit_payload`, func(scan func(...any) error) error {
		var digest string
		var sealed sql.RawBytes
		if err := scan(&digest, &sealed); err != nil {
			return v.fail(err)
		}
		data, err := v.openAlone(digest, sealed)
		return f(digest, data, err)
	})
	if err != nil {
		return err
	}
	return v.rows(`SELECT first, data FROM `+packs, func(scan func(...any) error) error {
		var first int64
		var sealed sql.RawBytes
		if err := scan(&first, &sealed); err != nil {
			return v.fail(err)
		}
		var own error
		err := v.open(first, sealed, func(digest string, data []byte) error {
			own = f(digest, data, nil)
			return own
		})
		if err != nil && own == nil {
			return f("", nil, err)
		}
		return own
	})
}
