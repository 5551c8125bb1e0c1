package hosted

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/owned"
)

// lookEach is the time between two looks at the memory of the host while a server is frozen.
const lookEach = 10 * time.Second

// A Memory reclaims the memory of frozen servers as it gets scarce. It is safe for concurrent use.
type Memory struct {
	most int64
	host owned.Host
	kick chan struct{} // a server was frozen

	mu      sync.Mutex
	servers map[*Server]struct{} // that have not ended
}

// NewMemory returns a Memory. Of the limits, it reads how much memory all frozen servers may use. A
// nil host is the one that this process runs on.
func NewMemory(l owned.Limits, host owned.Host) *Memory {
	if host == nil {
		host = owned.ThisHost()
	}
	most := l.CompleteLimits().TotalMemory
	return &Memory{most: most, host: host, kick: make(chan struct{}, 1), servers: map[*Server]struct{}{}}
}

// RunKeeper looks at the memory until ctx is done. While no server is frozen, it sleeps.
func (m *Memory) RunKeeper(ctx context.Context) {
	for {
		var later <-chan time.Time
		if len(m.listFrozen()) > 0 {
			later = time.After(lookEach)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.kick:
		case <-later:
		}
		m.RelieveMemory()
	}
}

// RelieveMemory reclaims memory of frozen servers while it is scarce, and then ends them: their
// files are kept. The one that was unused for longest is first. A server whose files would end with
// it stays.
func (m *Memory) RelieveMemory() {
	used := map[*Server]int64{}
	for _, end := range []bool{false, true} {
		for _, s := range m.listFrozen() {
			if !owned.IsScarce(m.host, m.sumMemory(used), m.most) {
				return
			}
			switch {
			case !end:
				s.shrinkIdle()
			case !s.temporary:
				s.restIdle(fmt.Sprintf("memory was scarce (servers on standby use at most %s, and %s of the host's "+
					"memory stay free)", text.Size(m.most), text.Size(owned.MemoryReserve)))
				<-s.ended // its memory is free
			}
			delete(used, s)
		}
	}
}

// sumMemory returns the memory of the frozen servers. It reads only those missing in used, and adds
// them.
func (m *Memory) sumMemory(used map[*Server]int64) (sum int64) {
	for _, s := range m.listFrozen() {
		if _, ok := used[s]; !ok {
			used[s] = s.machine.UsedMemory()
		}
		sum += used[s]
	}
	return sum
}

// listFrozen returns the frozen servers, the one that was unused for longest first.
func (m *Memory) listFrozen() (out []*Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := map[*Server]time.Time{}
	for s := range m.servers {
		s.mu.Lock()
		if s.frozen && !s.over {
			out, since[s] = append(out, s), s.since
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b *Server) int {
		return cmp.Or(since[a].Compare(since[b]), cmp.Compare(a.host.cfg.Name, b.host.cfg.Name))
	})
	return out
}

// addServer adds a server that has started. A nil Memory has none.
func (m *Memory) addServer(s *Server) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.servers[s] = struct{}{}
	}
}

// removeServer removes a server that has ended.
func (m *Memory) removeServer(s *Server) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.servers, s)
	}
}

// noteFrozen makes RunKeeper look at the memory.
func (m *Memory) noteFrozen() {
	if m == nil {
		return
	}
	select {
	case m.kick <- struct{}{}:
	default:
	}
}
