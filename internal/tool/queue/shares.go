package queue

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// spare is the divisor that determines the size of the reserve.
const spare = 8

// Shares divides a resource among principals: requests under way, sessions, bytes held.
//
// A single principal may hold all of Size. In addition, an eighth of it is kept as a reserve, so
// that another principal always finds room. Under contention, a principal may hold at most eight
// times what is still free. The principals that hold most are thus refused first, and two that want
// everything end up with equal shares. This is the dynamic threshold of shared-memory switches
// (Choudhury and Hahne, 1998). It needs no list of principals, and nothing under way is revoked.
type Shares struct {
	what  string // the counted items: "calls"
	state string // their state while they count: "under way"
	size  int64
	total int64 // size plus the reserve

	mu   sync.Mutex
	used int64
	held map[string]int64 // by principal; no value is zero
}

// NewShares returns Shares of size. For error texts, what names the counted items, "calls", and
// state their state while they count, "under way".
func NewShares(what, state string, size int64) *Shares {
	return newShares(what, state, size, (size+spare-1)/spare)
}

func newShares(what, state string, size, reserve int64) *Shares {
	return &Shares{what: what, state: state, size: size, total: size + reserve, held: map[string]int64{}}
}

// Size returns the maximum that a single principal may hold.
func (s *Shares) Size() int64 { return s.size }

// Load returns the amount held in total, and the number of principals that hold it.
func (s *Shares) Load() (used int64, holders int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.held)
}

// Held returns the amount that a principal holds.
func (s *Shares) Held(who string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[who]
}

// More returns the principals that hold more than who, in descending order, and then who. This is
// the order in which they make room for who.
func (s *Shares) More(who string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for p, n := range s.held {
		if n > s.held[who] {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(s.held[b], s.held[a]), cmp.Compare(a, b)) })
	return append(all, who)
}

// Acquire reserves n more for a principal, until Release. The error's kind is Limit if the
// principal's own share is used up, and Unavailable if the total is.
func (s *Shares) Acquire(who string, n int64) error {
	if n <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fits(who, n) {
		s.used += n
		s.held[who] += n
		return nil
	}
	return s.over(s.held[who])
}

// over returns the error of a principal that can't hold more. s.mu is held.
func (s *Shares) over(mine int64) error {
	e := &tool.Error{Kind: tool.Unavailable, Unsent: true, RetryAfter: time.Second}
	if mine > 0 && mine*int64(len(s.held)) >= s.used || mine >= s.size { // at least the average of all principals
		e.Kind = tool.Limit
		e.Msg = fmt.Sprintf("%d %s are %s for you, which is your share of the gateway's %d: wait for some of yours to end", mine, s.what, s.state, s.size)
		return e
	}
	e.Msg = fmt.Sprintf("%d %s are %s, which is the gateway's limit for all together (%d are yours): try again", s.used,
		s.what, s.state, mine)
	return e
}

// fits reports whether a principal may hold n more. s.mu is held.
func (s *Shares) fits(who string, n int64) bool {
	free := s.total - s.used - n
	mine := s.held[who] + n
	return free >= 0 && mine <= s.size && (mine <= spare*free || s.held[who] == 0 || s.total == s.size)
}

// Add reserves n more for a principal, regardless of the limit. It is for items that already have a
// place, for example after a restart.
func (s *Shares) Add(who string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
	s.held[who] += n
}

// Release releases n of what a principal holds.
func (s *Shares) Release(who string, n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[who] < n {
		panic(fmt.Sprintf("queue: %s gives back %d of %d %s", who, n, s.held[who], s.what))
	}
	s.used -= n
	if s.held[who] -= n; s.held[who] == 0 {
		delete(s.held, who)
	}
}

// ReadAll reads r to its end. The bytes read count as held until release is called, also after an
// error.
func (s *Shares) ReadAll(who string, r io.Reader) (b []byte, release func(), err error) {
	c := &counted{r: r, s: s, who: who}
	b, err = io.ReadAll(c)
	return b, c.release, err
}

// A counted is a reader that reserves a share for the bytes it reads.
type counted struct {
	r   io.Reader
	s   *Shares
	who string
	n   int64
}

// Read reads from r and reserves the bytes.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if over := c.s.Acquire(c.who, int64(n)); over != nil {
		return 0, over
	}
	c.n += int64(n)
	return n, err
}

func (c *counted) release() {
	c.s.Release(c.who, c.n)
	c.n = 0
}
