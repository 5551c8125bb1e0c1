package record

import (
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/audit"
)

// Newest gives the event of each of the kinds that was recorded last. Each start asks, so that it is one pass over the leaves that are in no span yet,
// where it mostly ends: a search would make two for each kind.
func (v *View) Newest(kinds ...audit.Kind) ([]audit.Leaf, error) {
	first := int64(0)
	err := v.rows(`SELECT coalesce(max(first) + 256, 0) FROM audit_span`, func(scan func(...any) error) error { return scan(&first) })
	if err != nil {
		return nil, v.fail(err)
	}
	n := newest{v: v, left: slices.Clone(kinds)}
	args := []any{first}
	for _, k := range kinds {
		args = append(args, `"kind":"`+string(k)+`"`)
	}
	// What has the words may have them elsewhere, and is looked at.
	has := strings.Repeat(" OR instr(leaf, ?)", len(kinds))[len(" OR "):]
	if err := n.look(`SELECT seq, leaf FROM audit_leaf WHERE seq >= ? AND (`+has+`) ORDER BY seq DESC`, args...); err != nil {
		return nil, err
	}
	err = n.spans()
	return n.found, err
}

// A newest is a search for the newest leaf of each of some kinds.
type newest struct {
	v     *View
	left  []audit.Kind // of which there is none yet
	found []audit.Leaf
}

// look looks at leaves, the newest first.
func (n *newest) look(query string, args ...any) error {
	err := n.v.rows(query, func(scan func(...any) error) error {
		if len(n.left) == 0 {
			return errEnough
		}
		l := audit.Leaf{}
		var data sql.RawBytes
		if err := scan(&l.Seq, &data); err != nil {
			return n.v.fail(err)
		}
		var kind audit.Kind
		event := false
		members(data, func(name, value []byte) {
			switch string(name) {
			case "kind":
				kind = audit.Kind(value)
			case "part":
				event = string(value) == audit.PartEvent
			}
		})
		if i := slices.Index(n.left, kind); event && i >= 0 {
			l.Data = slices.Clone(data)
			n.found, n.left = append(n.found, l), slices.Delete(n.left, i, i+1)
		}
		return nil
	}, args...)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// spans looks in the spans for the kinds that are left.
func (n *newest) spans() error {
	if len(n.left) == 0 {
		return nil
	}
	err := n.v.rows(`SELECT first, marks FROM audit_span ORDER BY first DESC`, func(scan func(...any) error) error {
		var first int64
		var marks []byte
		if err := scan(&first, &marks); err != nil {
			return n.v.fail(err)
		}
		for _, k := range slices.Clone(n.left) {
			for _, i := range slices.Backward(find(marks, []uint32{markOf("kind", string(k))})) {
				if err := n.look(`SELECT seq, leaf FROM audit_leaf WHERE seq = ?`, first+int64(i)); err != nil {
					return err
				}
				if !slices.Contains(n.left, k) {
					break
				}
			}
		}
		if len(n.left) == 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
