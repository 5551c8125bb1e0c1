package approval

import (
	"context"
	"sync"
)

// An openSet holds the executions that may have requests in force. It saves a query at the end of
// each execution, since few of them ever make a request.
type openSet struct {
	mu     sync.Mutex
	loaded bool // executions of earlier processes are in the set
	ids    map[string]bool
}

// add adds an execution. It is called before a request of the execution is stored.
func (s *openSet) add(execution string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[execution] = true
}

// remove removes an execution that has ended and has no request in force.
func (s *openSet) remove(execution string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, execution)
}

// has reports whether an execution may have requests in force. The first call reads the requests
// that earlier processes left in the store.
func (s *openSet) has(ctx context.Context, store Store, execution string) (bool, error) {
	s.mu.Lock()
	loaded := s.loaded
	found := s.ids[execution]
	s.mu.Unlock()
	if loaded || found {
		return found, nil
	}
	q := Query{Programs: true, Limit: 1000}
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			s.add(page[i].Execution)
		}
		q.Before = page[len(page)-1].ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
	return s.ids[execution], nil
}
