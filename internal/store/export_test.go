package store

import "context"

// Exec runs a statement as someone who holds the database file could.
func (s *Store) Exec(ctx context.Context, query string) error {
	return s.writer.do(ctx, true, query)
}
