// Package privacy hides personal data from models. It recognizes e-mail addresses, phone numbers,
// payment cards, IBANs, national ids, and fields that the configuration or a tool's JSON Schema
// names. It replaces them by tokens like [EMAIL_3] in everything that a model can see. In the
// arguments of calls whose tools may receive the data, it replaces the tokens by their values.
//
// Recognition is one pass over the text, in linear time, by form, check digits and nearby words. It
// needs no I/O. Tokens belong to a vault. There is one for each session of a principal, and one for
// everything the principal does outside of sessions. A token is stored before it is shown, and its
// value never changes. Its number is used once per principal, across all vaults. Two spellings of
// one value (an address in another case, a card with other spaces) have the same token, which
// stands for the bytes seen first.
package privacy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Guard.
type Config struct {
	Store  Store
	Fields []string // paths of fields whose values are personal, as in @redact: customer.name, **.ssn
	Kinds  []Kind   // kinds to recognize; nil: all
	// Binaries shows images, audio and binary files to models. Otherwise they are replaced by a
	// notice.
	Binaries bool
	// Values is the maximum number of values per vault; default 100,000. Further values are
	// replaced by a token without a number, which can't be reversed.
	Values int
	// Idle is the time after which an unused vault outside of sessions is deleted; default 30 days.
	Idle  time.Duration
	Clock *wallclock.Clock // nil: the system's
	Log   *slog.Logger
}

// A Guard replaces personal data by tokens, and tokens by their values. A nil Guard does neither.
// It is safe for concurrent use.
type Guard struct {
	cfg   Config
	paths tool.Paths
	off   map[Kind]bool

	mu      sync.Mutex // guards the fields below
	touched map[tool.Scope]time.Time
	words   *queue.Cache[tool.Scope, *lexicon]
}

// New returns a Guard.
func New(cfg Config) *Guard {
	if cfg.Values <= 0 {
		cfg.Values = 100_000
	}
	if cfg.Idle <= 0 {
		cfg.Idle = 30 * 24 * time.Hour
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	g := &Guard{cfg: cfg, paths: tool.ParsePaths(cfg.Fields), off: map[Kind]bool{}, touched: map[tool.Scope]time.Time{},
		words: queue.NewCache[tool.Scope, *lexicon](maxLexicons, 0)}
	for _, k := range Kinds() {
		g.off[k] = cfg.Kinds != nil && !slices.Contains(cfg.Kinds, k)
	}
	return g
}

// Fork copies the tokens of a principal's session from to its session to.
func (g *Guard) Fork(ctx context.Context, owner, from, to string) error {
	if g == nil {
		return nil
	}
	source, copied := tool.Scope{Owner: owner, Session: from}, tool.Scope{Owner: owner, Session: to}
	defer g.forgetVault(copied)
	return g.cfg.Store.Copy(ctx, source, copied)
}

// touchVault records from time to time that a vault is in use.
func (g *Guard) touchVault(ctx context.Context, of tool.Scope) {
	now := g.cfg.Clock.Now()
	g.mu.Lock()
	due := now.Sub(g.touched[of]) > g.cfg.Idle/100
	if due {
		if len(g.touched) > maxScopes {
			clear(g.touched)
		}
		g.touched[of] = now
	}
	g.mu.Unlock()
	if !due {
		return
	}
	if err := g.cfg.Store.Touch(ctx, of, now); err != nil {
		g.cfg.Log.Warn("last use of a vault not stored", "err", err)
	}
}

// maxScopes is the number of vaults whose last use is remembered.
const maxScopes = 1000

// forgetVault removes a vault from the caches.
func (g *Guard) forgetVault(of tool.Scope) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.words.Remove(of)
	delete(g.touched, of)
}

// sweepEvery is the interval of checks for unused vaults.
const sweepEvery = time.Hour

// Run deletes unused vaults until ctx ends: those outside of sessions, and those of sessions that
// no longer exist.
func (g *Guard) Run(ctx context.Context) {
	if g == nil {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		n, err := g.cfg.Store.Expire(ctx, g.cfg.Clock.Now().Add(-g.cfg.Idle))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.cfg.Log.Warn("unused personal data not deleted", "err", err)
		case n > 0:
			g.mu.Lock()
			g.words.Clear()
			g.mu.Unlock()
			g.cfg.Log.Info("deleted unused personal data", "values", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
