package store

import (
	"context"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/shape"
	"github.com/biplane-dev/biplane/internal/store/fault"
)

// shapePurpose is the purpose for which observations are sealed.
const shapePurpose = "tool-shape"

// maxSealedShape is the maximum size of a row that is read, in bytes.
const maxSealedShape = 256 << 10

// Shapes stores what was observed of tools' results, sealed. It implements shape.Store.
type Shapes struct {
	s   *Store
	key *secret.Key
}

// OpenShapes returns the stored observations, which key seals.
func (s *Store) OpenShapes(key *secret.Key) *Shapes { return &Shapes{s, key} }

// shapeBinding returns the data that the sealed part of a row is bound to.
func shapeBinding(k shape.Key, used int64) [][]byte {
	return [][]byte{[]byte(k.Upstream), []byte(k.Tool), []byte(strconv.FormatInt(used, 10))}
}

// LoadShapes returns no more than most rows, the most recently used first. Rows that were changed
// without the key are skipped, and logged.
func (h *Shapes) LoadShapes(ctx context.Context, most int) ([]shape.Row, error) {
	rows, err := h.s.read.QueryContext(ctx, `SELECT upstream, tool, used, sealed FROM tool_shape
		WHERE length(sealed) <= ? ORDER BY used DESC, upstream, tool LIMIT ?`, maxSealedShape, most)
	if err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	defer rows.Close()
	var out []shape.Row
	for rows.Next() {
		var r shape.Row
		var used int64
		var sealed []byte
		if err := rows.Scan(&r.Upstream, &r.Tool, &used, &sealed); err != nil {
			return nil, fault.TranslateRead(ctx, err)
		}
		if r.Data, err = h.key.Unseal(shapePurpose, sealed, shapeBinding(r.Key, used)...); err != nil {
			h.s.log.Warn("an observed type of results was changed without the key: it is observed again", "upstream",
				r.Upstream, "tool", r.Tool)
			continue
		}
		r.Used = time.Unix(used, 0).UTC()
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fault.TranslateRead(ctx, err)
	}
	return out, nil
}

// SaveShapes stores rows, and replaces those with the same keys. They survive the death of the
// process, but may be lost in a power failure.
func (h *Shapes) SaveShapes(ctx context.Context, rows []shape.Row) error {
	steps := make([]step, len(rows))
	for i, r := range rows {
		used := r.Used.Unix()
		sealed := h.key.Seal(shapePurpose, r.Data, shapeBinding(r.Key, used)...)
		steps[i] = step{`INSERT INTO tool_shape (upstream, tool, used, sealed) VALUES (?, ?, ?, ?)
			ON CONFLICT (upstream, tool) DO UPDATE SET used = excluded.used, sealed = excluded.sealed`,
			[]any{r.Upstream, r.Tool, used, sealed}}
	}
	return h.s.writer.execAll(ctx, false, steps)
}

// DropShapes deletes the rows with these keys.
func (h *Shapes) DropShapes(ctx context.Context, keys []shape.Key) error {
	steps := make([]step, len(keys))
	for i, k := range keys {
		steps[i] = step{`DELETE FROM tool_shape WHERE upstream = ? AND tool = ?`, []any{k.Upstream, k.Tool}}
	}
	return h.s.writer.execAll(ctx, false, steps)
}
