package privacy

import (
	"context"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A memory is a Store in memory.
type memory struct {
	mu     sync.Mutex
	vaults map[tool.Scope][]Entry
	used   map[tool.Scope]time.Time
	last   map[string]int64 // last number used, by owner and kind
}

func newMemory() *memory {
	return &memory{vaults: map[tool.Scope][]Entry{}, used: map[tool.Scope]time.Time{}, last: map[string]int64{}}
}

func (m *memory) Number(_ context.Context, of tool.Scope, most int, all []*Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range all {
		e.N = 0
		for _, have := range m.vaults[of] {
			if have.Key() == e.Key() {
				e.N = have.N
			}
		}
		if e.N == 0 && len(m.vaults[of]) < most {
			m.last[of.Owner+" "+string(e.Kind)]++
			e.N = m.last[of.Owner+" "+string(e.Kind)]
			m.vaults[of] = append(m.vaults[of], *e)
		}
	}
	return nil
}

func (m *memory) Find(_ context.Context, of tool.Scope, tokens []Token) (out []Entry, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range tokens {
		for _, e := range m.vaults[of] {
			if e.Token == t {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

func (m *memory) All(_ context.Context, of tool.Scope, kind Kind) (out []Entry, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.vaults[of] {
		if kind == "" || e.Kind == kind {
			out = append(out, e)
		}
	}
	return out, nil
}

func (m *memory) Put(_ context.Context, of tool.Scope, all []Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range all {
		m.last[of.Owner+" "+string(e.Kind)] = max(m.last[of.Owner+" "+string(e.Kind)], e.N)
	}
	m.vaults[of] = append(m.vaults[of], all...)
	return nil
}

func (m *memory) Copy(_ context.Context, from, to tool.Scope) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.vaults[to] = append(m.vaults[to], m.vaults[from]...)
	return nil
}

func (m *memory) Touch(_ context.Context, of tool.Scope, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used[of] = at
	return nil
}

// Expire deletes vaults; it knows no sessions.
func (m *memory) Expire(_ context.Context, before time.Time) (n int, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, at := range m.used {
		if at.Before(before) {
			n += len(m.vaults[of])
			delete(m.vaults, of)
			delete(m.used, of)
		}
	}
	return n, nil
}
