package audittest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Memory is an audit.Store in memory, for tests.
type Memory struct {
	mu          sync.Mutex
	leaves      []audit.Leaf
	hashes      []tlog.Hash // by stored index
	records     map[string]*audit.Pair
	order       []string
	checkpoints []string
	kept        map[string]memoryKept
	closed      bool
}

type memoryKept struct {
	data []byte
	time time.Time
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{records: map[string]*audit.Pair{}, kept: map[string]memoryKept{}}
}

// NewLog returns a Log with a new Memory.
func NewLog() *audit.Log { return audit.New(audit.Config{Store: NewMemory()}) }

// Append adds a leaf.
func (m *Memory) Append(ctx context.Context, a *audit.Addition) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.records[a.Record]
	switch {
	case m.closed:
		return closedError()
	case a.Part == audit.PartEnded && (p == nil || isEvent(p.Begun)):
		return tool.Errorf(tool.NotFound, "audit record %s has not begun", a.Record)
	case a.Part == audit.PartEnded && p.Ended.Data != nil:
		return tool.Errorf(tool.Conflict, "audit record %s has already ended", a.Record)
	case a.Part != audit.PartEnded && p != nil:
		return tool.Errorf(tool.Conflict, "audit record %s has already begun", a.Record)
	}
	n := int64(len(m.leaves))
	a.Seq = n
	data, err := a.LeafAt(n)
	if err != nil {
		return err
	}
	hashes, err := tlog.StoredHashes(n, data, m.hashReader())
	if err != nil {
		return err
	}
	added := audit.Leaf{Seq: n, Data: data, Hashes: hashes}
	m.leaves, m.hashes = append(m.leaves, added), append(m.hashes, hashes...)
	if a.Part == audit.PartEnded {
		p.Ended, p.Ends = added, true
	} else {
		m.records[a.Record] = &audit.Pair{Record: a.Record, Begun: added}
		m.order = append(m.order, a.Record)
	}
	for _, k := range a.Keep {
		m.kept[k.Digest] = memoryKept{slices.Clone(k.Data), a.Time}
	}
	return nil
}

func decodeLeaf(l audit.Leaf) (c leaf, err error) {
	err = json.Unmarshal(l.Data, &c)
	return c, err
}

// isEvent reports whether a leaf records an event, not a call.
func isEvent(l audit.Leaf) bool {
	c, err := decodeLeaf(l)
	return err == nil && c.Part == audit.PartEvent
}

// Checkpoint adds a checkpoint.
func (m *Memory) Checkpoint(ctx context.Context, sign func(proof.Head) (string, error)) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return closedError()
	}
	h, err := m.computeHead()
	if err != nil {
		return err
	}
	text, err := sign(h)
	if err == nil {
		m.checkpoints = append(m.checkpoints, text)
	}
	return err
}

func (m *Memory) computeHead() (proof.Head, error) {
	root, err := tlog.TreeHash(int64(len(m.leaves)), m.hashReader())
	return proof.Head{Size: int64(len(m.leaves)), Root: root}, err
}

func (m *Memory) hashReader() tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, 0, len(indexes))
		for _, i := range indexes {
			if i < 0 || i >= int64(len(m.hashes)) {
				return nil, fmt.Errorf("no hash %d", i)
			}
			out = append(out, m.hashes[i])
		}
		return out, nil
	})
}

// View calls f with a View of the Memory. Nothing is added while f runs.
func (m *Memory) View(ctx context.Context, f func(audit.View) error) error {
	if err := ctx.Err(); err != nil {
		return tool.AsError(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return closedError()
	}
	return f(memoryView{m})
}

// ViewWhole is View.
func (m *Memory) ViewWhole(ctx context.Context, _ interface{ PauseWork(context.Context) },
	f func(audit.View) error) error {
	return m.View(ctx, f)
}

// Prune deletes data kept before a time.
func (m *Memory) Prune(_ context.Context, before time.Time) (n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, closedError()
	}
	for digest, k := range m.kept {
		if k.time.Before(before) {
			delete(m.kept, digest)
			n++
		}
	}
	return n, nil
}

// Close closes the Memory.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

type memoryView struct{ m *Memory }

func (v memoryView) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	return v.m.hashReader().ReadHashes(indexes)
}

func (v memoryView) Head() (proof.Head, error) { return v.m.computeHead() }

func (v memoryView) SealedHead() (*proof.Head, error) {
	h, err := v.m.computeHead()
	return &h, err
}

func (v memoryView) WitnessHead() (*proof.Head, error) { return nil, nil }

func (v memoryView) Records(q audit.Query) ([]audit.Pair, error) {
	var out []audit.Pair
	ids := slices.Sorted(slices.Values(v.m.order))
	if q.After == "" {
		slices.Reverse(ids)
	}
	for _, id := range ids {
		if q.Before != "" && id >= q.Before || id <= q.After {
			continue
		}
		p := *v.m.records[id]
		if !q.MatchesPair(&p) {
			continue
		}
		if out = append(out, p); len(out) == q.Max() {
			break
		}
	}
	return out, nil
}

func (v memoryView) Newest(kinds ...audit.Kind) (out []audit.Leaf, err error) {
	left := slices.Clone(kinds)
	for _, l := range slices.Backward(v.m.leaves) {
		c, err := decodeLeaf(l)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(left, audit.Kind(c.Kind)); i >= 0 && c.Part == audit.PartEvent {
			out, left = append(out, l), slices.Delete(left, i, i+1)
		}
	}
	return out, nil
}

func (v memoryView) Leaves(from int64, f func(audit.Leaf) error) error {
	for _, l := range v.m.leaves[min(max(from, 0), int64(len(v.m.leaves))):] {
		if err := f(l); err != nil {
			return err
		}
	}
	return nil
}

func (v memoryView) Checkpoints(f func(string) error) error {
	for _, text := range v.m.checkpoints {
		if err := f(text); err != nil {
			return err
		}
	}
	return nil
}

func (v memoryView) CheckChain() error { return nil }

func (v memoryView) FirstExecution() (string, time.Time, error) { return "", time.Time{}, nil }

func (v memoryView) ListSegments() ([]segment.Stored, error) { return nil, nil }

func (v memoryView) LoadKept(_ int64, digest string) ([]byte, error) {
	return slices.Clone(v.m.kept[digest].data), nil
}

func (v memoryView) AllKept(f func(string, []byte, error) error) error {
	for digest, k := range v.m.kept {
		if err := f(digest, k.data, nil); err != nil {
			return err
		}
	}
	return nil
}

func (v memoryView) HasKept(wanted []retention.Key) ([]bool, error) {
	out := make([]bool, len(wanted))
	for i, k := range wanted {
		_, out[i] = v.m.kept[k.Digest]
	}
	return out, nil
}

func (v memoryView) CountOutdated(before time.Time) (n int64, err error) {
	for _, k := range v.m.kept {
		if k.time.Before(before) {
			n++
		}
	}
	return n, nil
}

func (v memoryView) CheckIntegrity() error { return nil }

func closedError() error {
	return tool.Errorf(tool.Unavailable, "the audit record is closed: biplane is shutting down")
}
