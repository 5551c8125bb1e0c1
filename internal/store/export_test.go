package store

import "context"

// Exec runs a statement as someone who holds the database file could.
func (s *Store) Exec(ctx context.Context, query string) error {
	return s.writer.do(ctx, true, query)
}

// Pragma sets something of the writer's connection.
func (s *Store) Pragma(ctx context.Context, set string) error {
	_, err := s.writer.conn.ExecContext(ctx, "PRAGMA "+set)
	return err
}

// Leaves says how many leaves of the record are written, what is queued not counted.
func (s *Store) Leaves(ctx context.Context) (n int) {
	_ = s.read.QueryRowContext(ctx, `SELECT count(*) FROM audit_leaf`).Scan(&n)
	return n
}

// Members gives the members of an object that are strings, as spans read them; nil where it is none.
func Members(data []byte) map[string]string {
	out := map[string]string{}
	if !members(data, func(name, value []byte) { out[string(name)] = string(value) }) {
		return nil
	}
	return out
}
