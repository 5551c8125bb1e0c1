package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
)

// lostHints is in the list of tool_hint in place of rows that were lost: an upstream without a row
// is not a new one then.
const lostHints = "\x00lost"

// Hints keeps what is believed of the tools of upstreams.
type Hints struct{ g *grants }

// Hints returns what is believed of tools, which key authenticates.
func (s *Store) Hints(key *secret.Key) *Hints { return &Hints{s.grants(key)} }

func (g *grants) hintDigest(upstream string, sights []byte) []byte {
	return g.digest(hintGrants, upstream, digestOf(sights))
}

// Load returns what Save stored for an upstream, nil if it is new. A row that was changed, added or
// removed without the key is an error of kind tool.Conflict.
func (h *Hints) Load(ctx context.Context, upstream string) (sights []byte, err error) {
	err = h.g.checked(ctx, func(q record.Querier) error {
		sights = nil
		if err := fault.One(q.QueryRowContext(ctx, `SELECT sights FROM tool_hint WHERE upstream = ?`, upstream), &sights); err != nil {
			return err
		}
		known := h.g.has(hintGrants, upstream) || h.g.has(hintGrants, lostHints)
		if len(sights) == 0 && known || len(sights) > 0 && !h.g.agrees(hintGrants, upstream, h.g.hintDigest(upstream, sights)) {
			return errChanged
		}
		return nil
	})
	if isChanged(err) {
		return nil, h.g.s.changed(hintGrants, upstream, "what was known of the tools of %s is not what was stored: run `biplane tools accept --upstream %[1]s`", upstream)
	}
	return sights, err
}

// StoredHints returns what a data folder has of the tools of upstreams, by upstream; nil if there
// is no database. It neither owns the folder nor checks who stored it, so it is good for nothing
// but to tell people of names.
func StoredHints(ctx context.Context, folder string) (map[string][]byte, error) {
	path := filepath.Join(folder, File)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := openReadOnly(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var there bool
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tool_hint')`).Scan(&there); err != nil || !there {
		return nil, readingHints(ctx, err)
	}
	rows, err := db.QueryContext(ctx, `SELECT upstream, sights FROM tool_hint`)
	if err != nil {
		return nil, readingHints(ctx, err)
	}
	defer rows.Close()
	out := map[string][]byte{}
	for rows.Next() {
		var upstream string
		var sights []byte
		if err := rows.Scan(&upstream, &sights); err != nil {
			return nil, readingHints(ctx, err)
		}
		out[upstream] = sights
	}
	return out, readingHints(ctx, rows.Err())
}

func readingHints(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return fault.Reading(ctx, err)
}

// Save stores what is believed of the tools of an upstream.
func (h *Hints) Save(ctx context.Context, upstream string, sights []byte) error {
	return h.g.change(ctx, true, func(ctx context.Context, w *writer) error {
		_, err := w.statement(ctx, `INSERT INTO tool_hint (upstream, sights) VALUES (?, ?) ON CONFLICT (upstream) DO UPDATE SET sights = excluded.sights`, upstream, sights)
		if err == nil {
			h.g.set(hintGrants, upstream, h.g.hintDigest(upstream, sights))
		}
		return err
	})
}
