// Package privacy keeps personal data from models. What it recognises (e-mail addresses, phone numbers, payment cards, IBANs,
// national ids, and fields that the configuration or a tool's JSON Schema names) is replaced by tokens like [EMAIL_3] in all that a model can see, and
// turned back in the arguments of calls whose tools may have it.
//
// Recognising is one pass over the text, in time linear in it, by form, check digits and the words near; it needs no I/O. Tokens are
// those of a vault: one for each session of a principal, and one for all that the principal does outside of sessions. A token
// is in the store before it goes out, never changes what it stands for, and its number is given once to a principal, whatever the vault.
// Two spellings of one value (an address in another case, a card with other spaces) have one token, which turns back into
// the bytes that were seen first.
package privacy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Scope is whose vault it is: that of a principal's session or, where Session is empty, of all else that the principal does.
type Scope struct{ Owner, Session string }

// Config makes a Guard.
type Config struct {
	Store    Store
	Fields   []string      // paths of fields whose values are personal, as in @redact: customer.name, **.ssn
	Kinds    []Kind        // that are recognised; nil: all
	Binaries bool          // images, audio and files that are no text are shown to models; else they are left out, and that is said
	Values   int           // of one vault at most; default 100,000. What comes after is replaced by a token without a number, which doesn't turn back
	Idle     time.Duration // the vault outside of sessions is thrown away when it was not used for so long; default 30 days
	Now      func() time.Time
	Log      *slog.Logger
}

// A Guard replaces personal data by tokens, and turns tokens back. A nil Guard does neither. It is safe for concurrent use.
type Guard struct {
	cfg   Config
	paths tool.Paths
	off   map[Kind]bool

	mu      sync.Mutex // guards what follows
	touched map[Scope]time.Time
	words   *queue.Cache[Scope, *lexicon]
}

// New makes a Guard.
func New(cfg Config) *Guard {
	if cfg.Values <= 0 {
		cfg.Values = 100_000
	}
	if cfg.Idle <= 0 {
		cfg.Idle = 30 * 24 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	g := &Guard{cfg: cfg, paths: tool.ParsePaths(cfg.Fields), off: map[Kind]bool{}, touched: map[Scope]time.Time{}, words: queue.NewCache[Scope, *lexicon](maxLexicons, 0)}
	for _, k := range Kinds() {
		g.off[k] = cfg.Kinds != nil && !slices.Contains(cfg.Kinds, k)
	}
	return g
}

// Fork gives the session to of a principal the tokens of from.
func (g *Guard) Fork(ctx context.Context, owner, from, to string) error {
	if g == nil {
		return nil
	}
	defer g.forget(Scope{owner, to})
	return g.cfg.Store.Copy(ctx, Scope{owner, from}, Scope{owner, to})
}

// touch notes that a vault is used, now and then.
func (g *Guard) touch(ctx context.Context, of Scope) {
	now := g.cfg.Now()
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
		g.cfg.Log.Warn("note that a vault of personal data is used", "err", err)
	}
}

// maxScopes bounds what is remembered of vaults.
const maxScopes = 1000

// forget forgets what is known of a vault in memory.
func (g *Guard) forget(of Scope) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.words.Remove(of)
	delete(g.touched, of)
}

// sweepEvery is how often vaults are looked at that nobody uses.
const sweepEvery = time.Hour

// Run throws vaults away that nobody uses, until ctx ends: those outside of sessions, and those of sessions that there are not.
func (g *Guard) Run(ctx context.Context) {
	if g == nil {
		return
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		n, err := g.cfg.Store.Expire(ctx, g.cfg.Now().Add(-g.cfg.Idle))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.cfg.Log.Warn("throw away personal data that nobody used", "err", err)
		case n > 0:
			g.mu.Lock()
			g.words.Clear()
			g.mu.Unlock()
			g.cfg.Log.Info("personal data that nobody used was thrown away", "values", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
