package record

import (
	"errors"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// errEnough ends a query once enough is found.
var errEnough = errors.New("enough was found")

// Newest returns the newest event of each kind. It runs at each start, so it is a single pass over
// the leaves that are in no span yet, which usually suffices. A search would take two passes for
// each kind.
func (v *View) Newest(kinds ...audit.Kind) ([]audit.Leaf, error) {
	first := int64(0)
	err := v.eachRow(`SELECT coalesce(max(first) + 256, 0) FROM audit_span`,
		func(scan func(...any) error) error { return scan(&first) })
	if err != nil {
		return nil, v.translateError(err)
	}
	n := newest{v: v, left: slices.Clone(kinds)}
	args := []any{first}
	for _, k := range kinds {
		args = append(args, `"kind":"`+string(k)+`"`)
	}
	// 5 is packedEvent. Events of older versions are not packed. Their text may match elsewhere in
	// a leaf, so each match is parsed.
	has := strings.Repeat(" OR instr(leaf, ?)", len(kinds))
	query := `SELECT seq, hashes, leaf, packed FROM audit_leaf WHERE seq >= ? AND (substr(packed, 1, 1) = x'05'` + has +
		`) ORDER BY seq DESC`
	if err := n.checkLeaves(query, args...); err != nil {
		return nil, err
	}
	err = n.searchSpans()
	return n.found, err
}

// A newest is a search for the newest leaf of each of several kinds.
type newest struct {
	v     *View
	left  []audit.Kind // kinds not found yet
	found []audit.Leaf
}

// checkLeaves checks leaves, the newest first.
func (n *newest) checkLeaves(query string, args ...any) error {
	err := n.v.eachRow(query, func(scan func(...any) error) error {
		if len(n.left) == 0 {
			return errEnough
		}
		var r leafRow
		if err := scan(&r.seq, &r.hashes, &r.leaf, &r.packed); err != nil {
			return n.v.translateError(err)
		}
		l := n.v.readLeaf(&r)
		var kind audit.Kind
		event := false
		walkMembers(l.Data, func(name, value []byte) {
			switch string(name) {
			case "kind":
				kind = audit.Kind(value)
			case "part":
				event = string(value) == audit.PartEvent
			}
		})
		if i := slices.Index(n.left, kind); event && i >= 0 {
			l.Data = slices.Clone(l.Data)
			n.found, n.left = append(n.found, l), slices.Delete(n.left, i, i+1)
		}
		return nil
	}, args...)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// searchSpans searches the spans for the kinds that are left, and then the runs.
func (n *newest) searchSpans() error {
	if len(n.left) == 0 {
		return nil
	}
	from := int64(0)
	err := n.v.eachRow(`SELECT coalesce(max(first) + 65536, 0) FROM audit_run`,
		func(scan func(...any) error) error { return scan(&from) })
	if err != nil {
		return n.v.translateError(err)
	}
	rows, err := loadSpans(n.v.ctx, n.v.tx, from, all)
	if err != nil {
		return n.v.translateError(err)
	}
	for _, r := range slices.Backward(rows) {
		for _, k := range slices.Clone(n.left) {
			for _, i := range slices.Backward(findMarks(r.marks, kindMarks(k))) {
				if err := n.checkLeaf(k, r.first+int64(i)); err != nil {
					return err
				}
			}
		}
	}
	for first := from - runLeaves; first >= 0 && len(n.left) > 0; first -= runLeaves {
		if err := n.searchRun(first); err != nil {
			return err
		}
	}
	return nil
}

func kindMarks(k audit.Kind) []uint32 { return []uint32{markOf("kind", string(k))} }

// checkLeaf checks a leaf if kind k is still left.
func (n *newest) checkLeaf(k audit.Kind, seq int64) error {
	if !slices.Contains(n.left, k) {
		return nil
	}
	return n.checkLeaves(`SELECT seq, hashes, leaf, packed FROM audit_leaf WHERE seq = ?`, seq)
}

// searchRun searches a run for the kinds that are left.
func (n *newest) searchRun(first int64) error {
	for _, k := range slices.Clone(n.left) {
		s := &search{v: n.v, marks: kindMarks(k)}
		sets, err := s.loadPostings([]int64{first})
		if err != nil {
			return err
		}
		var all []int64
		sets[0].eachSpan(func(span int64, at []byte) {
			for _, d := range at {
				all = append(all, first+span*spanLeaves+int64(d))
			}
		})
		for _, seq := range slices.Backward(all) {
			if !slices.Contains(n.left, k) {
				break
			}
			if err := n.checkLeaf(k, seq); err != nil {
				return err
			}
		}
	}
	return nil
}
