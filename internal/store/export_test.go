package store

import (
	"context"
	"encoding/binary"

	"github.com/biplane-dev/biplane/internal/store/record"
)

// Exec runs a statement as someone with access to the database file could.
func (s *Store) Exec(ctx context.Context, query string) error {
	return s.writer.execStatement(ctx, true, query)
}

// Pragma runs a PRAGMA on the writer's connection.
func (s *Store) Pragma(ctx context.Context, set string) error {
	if err := s.writer.connect(ctx); err != nil {
		return err
	}
	_, err := s.writer.conn.ExecContext(ctx, "PRAGMA "+set)
	return err
}

// seedOf returns the record's name and the seed of its key.
func seedOf(ctx context.Context, a *Audit) (origin string, seed []byte, err error) {
	origin, sealed, err := record.ReadName(ctx, a.s.read)
	if err == nil {
		seed, _, err = record.OpenSeed(a.key, origin, sealed)
	}
	return origin, seed, err
}

// headOf returns the record's name, its sealed head, and the head's plaintext.
func headOf(ctx context.Context, a *Audit) (origin string, head, text []byte, err error) {
	if origin, _, err = seedOf(ctx, a); err != nil {
		return "", nil, nil, err
	}
	if err := a.s.read.QueryRowContext(ctx, `SELECT head FROM tail`).Scan(&head); err != nil {
		return "", nil, nil, err
	}
	text, err = a.key.Unseal("audit-head", head, []byte(origin))
	return origin, head, text, err
}

// Unseal turns the record into one written by a version that sealed no heads.
func Unseal(ctx context.Context, a *Audit) error {
	origin, seed, err := seedOf(ctx, a)
	if err != nil {
		return err
	}
	return a.s.writer.execAll(ctx, true,
		[]step{{`UPDATE audit_log SET seed = ?`, []any{a.key.Seal("audit-seed", seed, []byte(origin))}},
			{`UPDATE tail SET head = NULL`, nil}})
}

// Leaves returns the number of leaves written, not counting queued ones.
func (s *Store) Leaves(ctx context.Context) (n int) {
	_ = s.read.QueryRowContext(ctx, `SELECT count(*) FROM audit_leaf`).Scan(&n)
	return n
}

// NoAhead closes the write-ahead file, as if the disk refused it.
func (s *Store) NoAhead() error { return s.writer.ahead.file.f.Close() }

// Frames returns the number of entries in a write-ahead file.
func Frames(data []byte) int {
	all, _ := parseFrames(data)
	return len(all)
}

// End returns the end of the last valid frame of a write-ahead file.
func End(data []byte) int {
	_, end := parseFrames(data)
	return int(end)
}

// Packs reports whether the tail has kept data, and returns the number of rows that have.
func Packs(ctx context.Context, s *Store) (tail bool, rows int) {
	_ = s.read.QueryRowContext(ctx,
		`SELECT (SELECT length(kept) > 0 FROM tail), (SELECT count(*) FROM audit_kept)`).Scan(&tail, &rows)
	return tail, rows
}

// Waited returns the number of transactions that waited for the disk.
func (s *Store) Waited(ctx context.Context) (n int64) {
	_ = s.read.QueryRowContext(ctx, `SELECT touched FROM execution_disk`).Scan(&n)
	return n
}

// Ungrant turns the folder into one of a version that sealed only the record's head.
func Ungrant(ctx context.Context, a *Audit) error {
	origin, _, text, err := headOf(ctx, a)
	if err != nil {
		return err
	}
	return a.s.writer.execAll(ctx, true, []step{
		{`UPDATE tail SET head = ?, grants = NULL`, []any{a.key.Seal("audit-head", text[:40], []byte(origin))}},
		{`DELETE FROM grant_list`, nil}, {`UPDATE approval SET seal = NULL`, nil},
	})
}

// Unwitness turns the record into one of a version without a witness, which sealed the record's
// key for another purpose.
func Unwitness(ctx context.Context, a *Audit, purpose string) error {
	origin, seed, err := seedOf(ctx, a)
	if err != nil {
		return err
	}
	return a.s.writer.execStatement(ctx, true, `UPDATE audit_log SET seed = ?`,
		a.key.Seal(purpose, seed, []byte(origin)))
}

// Unchain turns the folder into one of a version that sealed the head and the witness without a
// chain of checkpoints.
func Unchain(ctx context.Context, a *Audit) error {
	origin, head, text, err := headOf(ctx, a)
	if err != nil {
		return err
	}
	var granted []byte
	if err := a.s.read.QueryRowContext(ctx, `SELECT grants FROM tail`).Scan(&granted); err != nil {
		return err
	}
	versions, err := a.key.Unseal(versionPurpose, granted, head)
	if err != nil {
		return err
	}
	older := a.key.Seal("audit-head", append(text[:40:40], 1), []byte(origin))
	if err := a.s.writer.execAll(ctx, true,
		[]step{{`UPDATE tail SET head = ?, grants = ?`,
			[]any{older, a.key.Seal(versionPurpose, versions, older)}}}); err != nil {
		return err
	}
	x, err := a.witness.loadNewest()
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, x.count), uint64(x.Size))
	b = append(append(b, x.Root[:]...), x.origin...)
	sealed := a.key.Seal("audit-witness", b)
	slot := binary.BigEndian.AppendUint16(nil, uint16(len(sealed)))
	return a.witness.createFile(append(slot, sealed...))
}

// DisableAhead makes the next durable write wait for the database instead of the write-ahead file.
func (s *Store) DisableAhead() { s.writer.ahead.disable() }

// PackedLeaf returns a leaf as it is stored, or nil if it isn't packed.
func (s *Store) PackedLeaf(ctx context.Context, seq int64) (packed []byte) {
	_ = s.read.QueryRowContext(ctx, `SELECT packed FROM audit_leaf WHERE seq = ?`, seq).Scan(&packed)
	return packed
}

// CheckTable runs SQLite's integrity check on a table, with pauses.
func (a *Audit) CheckTable(ctx context.Context, table string, pause func()) (problems []string, err error) {
	return viewDatabase{db: a.s.read}.CheckTable(ctx, table, pause)
}
