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

// spare is which part of a bound is kept beside it, as a reserve for those who hold little.
const spare = 8

// Shares divides a bound that all principals share: requests under way, sessions, bytes held.
//
// A principal that is alone may hold all of Size. An eighth of it is kept beside it, so that
// another one always finds room. Under contention, a principal may hold at most eight times what is
// still free: those that hold most are refused first, and two that want everything end with equal
// shares. This is the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998). It
// needs no list of principals, and nothing is taken away from what is under way.
type Shares struct {
	what  string // what is counted: "calls"
	state string // how it is while it counts: "under way"
	size  int64
	total int64 // size and the reserve

	mu   sync.Mutex
	used int64
	held map[string]int64 // by principal; none is zero
}

// NewShares makes a bound of size. Errors say what is bounded, "calls", and how it is while it
// counts, "under way".
func NewShares(what, state string, size int64) *Shares {
	return newShares(what, state, size, (size+spare-1)/spare)
}

func newShares(what, state string, size, reserve int64) *Shares {
	return &Shares{what: what, state: state, size: size, total: size + reserve, held: map[string]int64{}}
}

// Size returns what a principal may hold that is alone.
func (s *Shares) Size() int64 { return s.size }

// Load returns how much is held by all, and how many principals hold it.
func (s *Shares) Load() (used int64, holders int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.held)
}

// Held returns how much a principal holds.
func (s *Shares) Held(who string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[who]
}

// More returns the principals that hold more than who, those with the most first, and then who: in
// this order they make room for who.
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

// Take holds n more for a principal, until Give. An error, of the kind Limit, says whose limit was
// reached.
func (s *Shares) Take(who string, n int64) error {
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

// over is the error of a principal that can't hold more. s.mu is held.
func (s *Shares) over(mine int64) error {
	e := &tool.Error{Kind: tool.Unavailable, Unsent: true, RetryAfter: time.Second}
	if mine > 0 && mine*int64(len(s.held)) >= s.used || mine >= s.size { // no less than the others have on average
		e.Kind = tool.Limit
		e.Msg = fmt.Sprintf("%d %s are %s for you, which is your share of the gateway's %d: wait for some of yours to end", mine, s.what, s.state, s.size)
		return e
	}
	e.Msg = fmt.Sprintf("%d %s are %s, which is the gateway's limit for all together (%d are yours): try again", s.used, s.what, s.state, mine)
	return e
}

// fits reports whether a principal may hold n more. s.mu is held.
func (s *Shares) fits(who string, n int64) bool {
	free := s.total - s.used - n
	mine := s.held[who] + n
	return free >= 0 && mine <= s.size && (mine <= spare*free || s.held[who] == 0 || s.total == s.size)
}

// Add holds n more for a principal, whatever the bound: for what has its place already, as after a
// restart.
func (s *Shares) Add(who string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
	s.held[who] += n
}

// Give returns n of what a principal holds.
func (s *Shares) Give(who string, n int64) {
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

// ReadAll reads r to its end. What was read counts as held until release, also after an error.
func (s *Shares) ReadAll(who string, r io.Reader) (b []byte, release func(), err error) {
	c := &counted{r: r, s: s, who: who}
	b, err = io.ReadAll(c)
	return b, c.release, err
}

// counted takes a share of what it reads.
type counted struct {
	r   io.Reader
	s   *Shares
	who string
	n   int64
}

// Read reads.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if over := c.s.Take(c.who, int64(n)); over != nil {
		return 0, over
	}
	c.n += int64(n)
	return n, err
}

func (c *counted) release() {
	c.s.Give(c.who, c.n)
	c.n = 0
}
