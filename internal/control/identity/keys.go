package identity

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A KeyStore stores API keys. It is safe for concurrent use.
type KeyStore interface {
	// Keys returns all keys by name, including revoked ones.
	Keys(ctx context.Context) ([]Key, error)
	// SaveKey stores k, which is new or replaces the key with its name. When it returns, the key is
	// on disk.
	SaveKey(ctx context.Context, k *Key) error
	// UsedKey records when a key was last used.
	UsedKey(ctx context.Context, name string, at time.Time) error
}

// Limits of keys.
const (
	mostKeys    = 10_000
	nameChars   = 64
	personBytes = 200
	mostTools   = 100
	mostOwn     = 100 // groups of a key
	groupBytes  = 200
	patternMax  = 200
	usedEvery   = time.Minute // precision of Used
	longestLife = 10 * 365 * 24 * time.Hour
	longestOld  = 30 * 24 * time.Hour
)

// KeysConfig configures Keys.
type KeysConfig struct {
	Store KeyStore
	Clock *wallclock.Clock // nil: the system's
	Log   *slog.Logger     // nil: none
	// Revoked is called with the ID of a Principal that lost all or some of its rights, so that its
	// connections can be closed. No locks are held during the call. It may be nil.
	Revoked func(principal string)
}

// Keys holds the API keys in memory. Each change is on disk before it takes effect. Only this
// process changes them. Keys is safe for concurrent use.
type Keys struct {
	cfg    KeysConfig
	change sync.Mutex // one change at a time
	table  keyTable
}

// A keyTable holds keys, which are never modified in place. It is safe for concurrent use.
type keyTable struct {
	mu     sync.RWMutex
	byID   map[string]*Key
	byName map[string]*Key
}

// findName returns the key with a name, or nil.
func (t *keyTable) findName(name string) *Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

// findID returns the key with an id, or nil.
func (t *keyTable) findID(id string) *Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// listKeys returns all keys, by name.
func (t *keyTable) listKeys() []Key {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]Key, 0, len(t.byName))
	for _, k := range t.byName {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// countKeys returns the number of keys.
func (t *keyTable) countKeys() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byName)
}

// replaceKey makes k the current key with its id and name.
func (t *keyTable) replaceKey(k *Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[k.ID], t.byName[k.Name] = k, k
}

// OpenKeys reads the keys.
func OpenKeys(ctx context.Context, c KeysConfig) (*Keys, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	all, err := c.Store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	ks := &Keys{cfg: c, table: keyTable{byID: map[string]*Key{}, byName: map[string]*Key{}}}
	t := &ks.table
	for i := range all {
		k := &all[i]
		if old := t.byID[k.ID]; old == nil || old.Changed { // a changed one may have the id of another key
			t.byID[k.ID] = k
		}
		if old := t.byName[k.Name]; old == nil || old.Changed {
			t.byName[k.Name] = k
		}
	}
	return ks, nil
}

// List returns all keys, by name.
func (ks *Keys) List() []Key { return ks.table.listKeys() }

// findKey returns the current key with that name.
func (ks *Keys) findKey(name string) (*Key, error) {
	k := ks.table.findName(name)
	if k == nil {
		return nil, tool.Errorf(tool.NotFound, "no key %q: `biplane keys list` shows all keys", name)
	}
	if !k.Revoked.IsZero() && !k.Changed {
		return nil, tool.Errorf(tool.Conflict, "key %q was revoked: create another one, with another name", name)
	}
	return k, nil
}

// storeKey stores a key and makes it the current one.
func (ks *Keys) storeKey(ctx context.Context, k *Key) error {
	if err := ks.cfg.Store.SaveKey(ctx, k); err != nil {
		return err
	}
	ks.table.replaceKey(k)
	return nil
}

// Create creates a key with k's Name, Person, Roles (default User), Scopes (default ScopeMCP),
// Tools, Groups and Expires. text is the key itself, which can't be retrieved again.
func (ks *Keys) Create(ctx context.Context, k Key) (made *Key, text string, err error) {
	ks.change.Lock()
	defer ks.change.Unlock()
	now := ks.cfg.Clock.Now()
	made = &Key{
		Name: k.Name, Person: k.Person, Roles: orOne(k.Roles, User), Scopes: orOne(k.Scopes,
			ScopeMCP), Tools: sortedSet(k.Tools), Groups: sortedSet(k.Groups),
		Created: now, Expires: k.Expires,
	}
	if err := made.checkNew(now); err != nil {
		return nil, "", err
	}
	made.ID = randomText(idChars)
	old, n, clash := ks.table.findName(k.Name), ks.table.countKeys(), ks.table.findID(made.ID) != nil
	switch {
	case old != nil && !old.Revoked.IsZero():
		return nil, "", tool.Errorf(tool.Conflict, "key %q is revoked, and its name can't be reused, since "+
			"records and sessions refer to it: choose another name", k.Name)
	case old != nil:
		return nil, "", tool.Errorf(tool.Conflict,
			"there is a key %q: choose another name, or `biplane keys rotate %s`", k.Name, k.Name)
	case n >= mostKeys:
		return nil, "", tool.Errorf(tool.Limit, "there are %d keys, revoked ones included, which is the most", n)
	case clash:
		return nil, "", tool.Errorf(tool.Internal, "the id of the new key is taken: try again")
	}
	secret, hash := newSecret()
	made.Hash = hash
	if err := ks.storeKey(ctx, made); err != nil {
		return nil, "", err
	}
	return made, made.fullText(secret), nil
}

// Rotate replaces the secret of a key. The old secret stays valid for the duration grace. If grace
// is 0, it becomes invalid at once, and the connections of the key are closed.
func (ks *Keys) Rotate(ctx context.Context, name string, grace time.Duration) (rotated *Key, text string, err error) {
	if grace < 0 || grace > longestOld {
		return nil, "", tool.Errorf(tool.Invalid, "the old secret may go on for 0 to %d days",
			longestOld/(24*time.Hour))
	}
	ks.change.Lock()
	defer ks.change.Unlock()
	old, err := ks.findKey(name)
	if err != nil {
		return nil, "", err
	}
	if old.Changed {
		return nil, "", tool.Errorf(tool.Conflict,
			"key %q was changed in the database without the key of the data folder: revoke it, and create another one",
			name)
	}
	k, now := *old, ks.cfg.Clock.Now()
	if k.isExpired(now) {
		return nil, "", tool.Errorf(tool.Conflict, "key %q has expired: create another one", name)
	}
	secret, hash := newSecret()
	k.Old, k.OldEnds, k.Hash, k.Rotated = nil, time.Time{}, hash, now
	if grace > 0 {
		k.Old, k.OldEnds = old.Hash, now.Add(grace)
	}
	if err := ks.storeKey(ctx, &k); err != nil {
		return nil, "", err
	}
	if grace == 0 {
		ks.notifyChange(&k)
	}
	return &k, k.fullText(secret), nil
}

// Revoke revokes a key, immediately and permanently.
func (ks *Keys) Revoke(ctx context.Context, name string) (*Key, error) {
	ks.change.Lock()
	defer ks.change.Unlock()
	old, err := ks.findKey(name)
	if err != nil {
		return nil, err
	}
	k := *old
	if k.Revoked = ks.cfg.Clock.Now(); k.Changed { // its content is unknown; its name stays reserved
		_, hash := newSecret()
		k = Key{Name: name, ID: randomText(idChars), Hash: hash, Created: k.Revoked, Revoked: k.Revoked}
		if old.ID != "" {
			k.ID = old.ID
		}
	}
	if err := ks.storeKey(ctx, &k); err != nil {
		return nil, err
	}
	ks.notifyChange(&k)
	return &k, nil
}

func (ks *Keys) notifyChange(k *Key) {
	if ks.cfg.Revoked != nil {
		ks.cfg.Revoked(k.Principal().ID)
	}
}

// findByText returns the key for text. If it is not accepted, reason says why; k may be set all
// the same.
func (ks *Keys) findByText(text string, now time.Time) (k *Key, reason string) {
	id, secret, ok := splitKey(text)
	if !ok {
		return nil, ReasonMalformed
	}
	k = ks.table.findID(id)
	switch {
	case k == nil, !k.acceptsSecret(secret, now):
		return k, ReasonUnknown
	case k.Changed:
		return k, ReasonChanged
	case !k.Revoked.IsZero():
		return k, ReasonRevoked
	case k.isExpired(now):
		return k, ReasonExpired
	}
	return k, ""
}

// recordUse records the use of a key, about once a minute.
func (ks *Keys) recordUse(ctx context.Context, k *Key, now time.Time) {
	if now.Sub(k.Used) < usedEvery {
		return
	}
	ks.change.Lock()
	defer ks.change.Unlock()
	next := *ks.table.findName(k.Name)
	if now.Sub(next.Used) < usedEvery {
		return
	}
	next.Used = now
	ks.table.replaceKey(&next)
	// Don't refuse a request because this can't be written: if the audit log can't be written
	// either, calls are refused there.
	if err := ks.cfg.Store.UsedKey(context.WithoutCancel(ctx), k.Name, now); err != nil {
		ks.cfg.Log.Warn("last use of a key not stored", "key", k.Name, "err", err)
	}
}

// ExplainDenial returns why a principal's key may not use a tool now, or "" if it may. It checks
// the current key, so that a program that continues after its key was revoked can use no more
// tools. For principals that are not keys it returns "".
func (ks *Keys) ExplainDenial(p tool.Principal, t *tool.Tool) string {
	name, ok := strings.CutPrefix(p.ID, keyOwner)
	if !ok {
		return ""
	}
	k := ks.table.findName(name)
	switch {
	case k == nil:
		return "key " + name + " is not known"
	case k.Changed:
		return "key " + name + " was changed in the database without the data folder's key"
	case !k.Revoked.IsZero():
		return "key " + name + " was revoked"
	case k.isExpired(ks.cfg.Clock.Now()):
		return "key " + name + " has expired"
	case !isConfined(t) && !MatchesAny(k.Tools, t.Path()):
		return "key " + name + " does not have it"
	}
	if required := t.RequiredTool(); required != nil && !MatchesAny(k.Tools, required.Path()) {
		return "it is for callers that may call " + required.Path() + ", and key " + name + " does not have that"
	}
	return ""
}

// IsKey reports whether a principal is an API key. Other credentials can't be revoked.
func IsKey(p tool.Principal) bool { return strings.HasPrefix(p.ID, keyOwner) }

// isConfined reports whether t is one of Biplane's own tools that reach nothing beyond the key's
// patterns. biplane.fetch, biplane.send and biplane.connect are not: they reach network hosts, so a
// restricted key needs a pattern that names them.
func isConfined(t *tool.Tool) bool {
	return t.Upstream == tool.Own && slices.Contains([]string{"search", "execute", "resume", "plan"}, t.Name)
}

// MatchesAny reports whether one of patterns matches path: "github.*", "*.list_issues",
// "jira.search". In a pattern * matches any characters, and ? matches one. An empty list matches
// everything.
func MatchesAny(patterns []string, path string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return matchGlob(p, path) })
}

// matchGlob matches in time at most proportional to the product of both lengths.
func matchGlob(pattern, text string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(text) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == text[j]):
			i++
			j++
		case star >= 0:
			i, mark = star+1, mark+1
			j = mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}

func (k *Key) isExpired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// checkNew returns an error if a new key is invalid.
func (k *Key) checkNew(now time.Time) error {
	if !goodName(k.Name) {
		return tool.Errorf(tool.Invalid, "invalid key name %q: use 1 to %d characters of a-z, A-Z, 0-9, '.', '_' and "+
			"'-', beginning with a letter or a digit", text.Cut(k.Name, 60), nameChars)
	}
	if len(k.Person) > personBytes || strings.ContainsFunc(k.Person, func(r rune) bool {
		return r < ' ' || r == 0x7f
	}) {
		return tool.Errorf(tool.Invalid,
			"key %s: the person must be one line of at most %d characters", k.Name, personBytes)
	}
	for _, r := range k.Roles {
		if !slices.Contains(Roles(), r) {
			return tool.Errorf(tool.Invalid,
				"key %s: unknown role %q: use %s", k.Name, text.Cut(r, 60), strings.Join(Roles(), ", "))
		}
	}
	for _, s := range k.Scopes {
		if s != ScopeMCP && s != ScopeAPI {
			return tool.Errorf(tool.Invalid, "key %s: unknown scope %q: use %s, %s or a pattern of tools like github.*",
				k.Name, text.Cut(s, 60), ScopeMCP, ScopeAPI)
		}
	}
	if len(k.Tools) > mostTools {
		return tool.Errorf(tool.Invalid, "key %s: at most %d patterns of tools", k.Name, mostTools)
	}
	for _, t := range k.Tools {
		if len(t) > patternMax || !strings.ContainsAny(t, ".*") || strings.ContainsFunc(t, func(r rune) bool {
			return r <= ' ' || r == 0x7f
		}) {
			return tool.Errorf(tool.Invalid,
				"key %s: invalid pattern of tools %q: write one like github.* or github.list_issues", k.Name,
				text.Cut(t, 60))
		}
	}
	if len(k.Groups) > mostOwn {
		return tool.Errorf(tool.Invalid, "key %s: at most %d groups", k.Name, mostOwn)
	}
	for _, g := range k.Groups {
		if !goodGroup(g) {
			return tool.Errorf(tool.Invalid,
				"key %s: invalid group %q: use 1 to %d bytes, without commas, line breaks, or spaces at the ends",
				k.Name, text.Cut(g, 60), groupBytes)
		}
	}
	if !k.Expires.IsZero() && (!k.Expires.After(now) || k.Expires.Sub(now) > longestLife) {
		return tool.Errorf(tool.Invalid, "key %s: the expiry time must be in the next ten years", k.Name)
	}
	return nil
}

// goodGroup reports whether s is a valid name of a group: @ask separates groups by commas.
func goodGroup(s string) bool {
	return s != "" && len(s) <= groupBytes && s == strings.TrimSpace(s) && !strings.Contains(s, ",") &&
		utf8.ValidString(s) &&
		!strings.ContainsFunc(s, unicode.IsControl)
}

func goodName(s string) bool {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }
	if s == "" || len(s) > nameChars || !letter(s[0]) {
		return false
	}
	for i := range len(s) {
		if !letter(s[i]) && !strings.ContainsRune("._-", rune(s[i])) {
			return false
		}
	}
	return true
}

// sortedSet returns a sorted list without duplicates.
func sortedSet(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}

func orOne(s []string, def string) []string {
	if len(s) == 0 {
		return []string{def}
	}
	return sortedSet(s)
}
