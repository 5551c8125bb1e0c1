package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
)

// lostHints is an id in the list of tool_hint that stands for lost rows: while it is there, an
// upstream without a row doesn't count as new.
const lostHints = "\x00lost"

// Hints stores the hints about the tools of upstreams.
type Hints struct{ g *grants }

// Hints returns the stored hints about tools, which key authenticates.
func (s *Store) Hints(key *secret.Key) *Hints { return &Hints{s.grants(key)} }

func (g *grants) hintDigest(upstream string, sights []byte) []byte {
	return g.rowDigest(hintGrants, upstream, digestOf(sights))
}

// Load returns the hints that Save stored for an upstream, or nil if the upstream is new. It
// returns an error of kind tool.Conflict if the row was changed, added or removed without the key.
func (h *Hints) Load(ctx context.Context, upstream string) (sights []byte, err error) {
	err = h.g.readWithDigests(ctx, func(q record.Querier) error {
		sights = nil
		if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT sights FROM tool_hint WHERE upstream = ?`, upstream),
			&sights); err != nil {
			return err
		}
		known := h.g.hasID(hintGrants, upstream) || h.g.hasID(hintGrants, lostHints)
		if len(sights) == 0 && known || len(sights) > 0 &&
			!h.g.matchesDigest(hintGrants, upstream, h.g.hintDigest(upstream, sights)) {
			return errChanged
		}
		return nil
	})
	if isChanged(err) {
		return nil, h.g.s.reportTampering(hintGrants, upstream,
			"the stored hints of the tools of %s do not match their seal: run `biplane tools accept --upstream %[1]s`",
			upstream)
	}
	return sights, err
}

// StoredHints returns the hints stored in a data folder, by upstream, or nil if there is no
// database. It neither locks the folder nor authenticates the hints, so its result may only be used
// to show names to users.
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
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tool_hint')`).Scan(
		&there); err != nil || !there {
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
	return fault.TranslateRead(ctx, err)
}

// Save stores the hints about the tools of an upstream.
func (h *Hints) Save(ctx context.Context, upstream string, sights []byte) error {
	return h.g.changeRows(ctx, true, func(ctx context.Context, w *writer) error {
		_, err := w.runStatement(ctx, `INSERT INTO tool_hint (upstream, sights) VALUES (?, ?) ON CONFLICT (upstream) `+
			`DO UPDATE SET sights = excluded.sights`, upstream, sights)
		if err == nil {
			h.g.setDigest(hintGrants, upstream, h.g.hintDigest(upstream, sights))
		}
		return err
	})
}
