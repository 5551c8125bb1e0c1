package store_test

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

func tokenKey(t *testing.T, seed byte) *secret.Key {
	t.Helper()
	k, err := secret.NewKey(bytes.Repeat([]byte{seed}, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	return k
}

func openTokens(t *testing.T, dir string) (*store.Store, *store.Tokens) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s, s.Tokens(tokenKey(t, 1))
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	s, tokens := openTokens(t, dir)
	ctx := t.Context()
	const up, res = "crm", "https://crm.example/mcp"
	if text, rev, err := tokens.Load(ctx, up, res); text != nil || rev != "" || err != nil {
		t.Fatalf("nothing there: %q, %q, %v", text, rev, err)
	}
	one, err := tokens.Save(ctx, up, res, []byte("very secret one"), "")
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	two, err := tokens.Save(ctx, up, res, []byte("very secret two"), one)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	for what, previous := range map[string]string{"an old revision": one, "none": "", "one that never was": "x"} {
		if _, err := tokens.Save(ctx, up, res, []byte("late"), previous); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("saved over %s: %v", what, err)
		}
	}
	if text, rev, err := tokens.Load(ctx, up, res); string(text) != "very secret two" || rev != two || err != nil {
		t.Fatalf("loaded %q, %q, %v", text, rev, err)
	}
	if text, rev, err := tokens.Load(ctx, up, "https://other.example/mcp"); text != nil || rev != "" || err != nil {
		t.Fatalf("another resource: %q, %q, %v", text, rev, err)
	}
	if _, _, err := s.Tokens(tokenKey(t, 2)).Load(ctx, up, res); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("another key: %v", err)
	}
	if err := tokens.Forget(ctx, up); err != nil {
		t.Fatalf("Forget: %v", err)
	}
	if text, rev, err := tokens.Load(ctx, up, res); text != nil || rev != "" || err != nil {
		t.Fatalf("forgotten: %q, %q, %v", text, rev, err)
	}
	if _, err := tokens.Save(ctx, up, res, []byte("late"), two); tool.AsError(err) == nil ||
		tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("saved over what was forgotten: %v", err)
	}
}

// A sealed row that is moved to another place can't be unsealed there, and nothing is on the disk
// in plaintext.
func TestTokensStayInPlace(t *testing.T) {
	dir := t.TempDir()
	s, tokens := openTokens(t, dir)
	if _, err := tokens.Save(t.Context(), "a", "https://a.example", []byte("very secret"), ""); err != nil {
		t.Fatalf("Save: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	var sealed []byte
	if err := db.QueryRow(`SELECT sealed FROM upstream_token`).Scan(&sealed); err != nil ||
		bytes.Contains(sealed, []byte("secret")) {
		t.Fatalf("stored %q, %v", sealed, err)
	}
	for _, place := range [][2]string{{"b", "https://a.example"}, {"a", "https://b.example"}} {
		if _, err := db.Exec(`INSERT INTO upstream_token VALUES (?, '', ?, 'r', '', ?, 0)`, place[0], place[1],
			sealed); err != nil {
			t.Fatalf("Exec: %v", err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_, tokens = openTokens(t, dir)
	for _, place := range [][2]string{{"b", "https://a.example"}, {"a", "https://b.example"}} {
		if text, _, err := tokens.Load(t.Context(), place[0], place[1]); err == nil ||
			tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("place = %v, text = %q, err = %v, want err != nil && tool.AsError(err).Kind == "+
				"tool.Conflict", place, text, err)
		}
	}
}

// TestTokensOfOwners checks that owners share nothing, and that a row that is moved to another
// owner can't be read there.
func TestTokensOfOwners(t *testing.T) {
	dir := t.TempDir()
	s, tokens := openTokens(t, dir)
	ctx := t.Context()
	const up, res = "crm", "https://crm.example/mcp"
	load := func(tokens *store.Tokens, owner, want string) {
		t.Helper()
		if text, _, err := tokens.ForOwner(owner).Load(ctx, up, res); string(text) != want || err != nil {
			t.Errorf("owner %q: %q, %v, want %q", owner, text, err, want)
		}
	}
	owners := []string{"", "key:ann", "key:bob", "https://id.example#ann"}
	for _, owner := range owners {
		if _, err := tokens.ForOwner(owner).Save(ctx, up, res, []byte("tokens of "+owner), ""); err != nil {
			t.Fatalf("Save: %v", err)
		}
	}
	if _, err := tokens.ForOwner("key:ann").Save(ctx, "erp", res, []byte("others of ann"), ""); err != nil {
		t.Fatalf("Save: %v", err)
	}
	for _, owner := range owners {
		load(tokens, owner, "tokens of "+owner)
	}
	load(tokens, "key:eve", "")
	if err := tokens.Forget(ctx, up); err != nil {
		t.Fatalf("Forget: %v", err)
	}
	load(tokens, "", "")
	load(tokens, "key:ann", "tokens of key:ann")
	if err := tokens.ForgetOwner(ctx); err != nil {
		t.Fatalf("ForgetOwner: %v", err)
	}
	if err := tokens.ForOwner("key:ann").ForgetOwner(ctx); err != nil {
		t.Fatalf("ForgetOwner: %v", err)
	}
	load(tokens, "key:ann", "")
	load(tokens, "key:bob", "tokens of key:bob")
	if text, _, err := tokens.ForOwner("key:ann").Load(ctx, "erp", res); text != nil || err != nil {
		t.Errorf("another upstream: %q, %v, want nothing", text, err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "biplane.db"))
	if err != nil {
		t.Fatalf("sql.Open: %v", err)
	}
	for _, to := range []string{"key:eve", "", "key:ann"} {
		if _, err := db.Exec(`INSERT INTO upstream_token SELECT upstream, ?, resource, revision, '', sealed, changed `+
			`FROM upstream_token WHERE owner = 'key:bob'`, to); err != nil {
			t.Fatalf("Exec: %v", err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_, tokens = openTokens(t, dir)
	for _, to := range []string{"key:eve", "", "key:ann"} {
		if text, _, err := tokens.ForOwner(to).Load(ctx, up, res); tool.AsError(err) == nil ||
			tool.AsError(err).Kind != tool.Conflict || text != nil {
			t.Errorf("moved to %q: %q, %v, want a conflict", to, text, err)
		}
	}
	load(tokens, "key:bob", "tokens of key:bob")
}

// Of many concurrent changes to a row, one wins.
func TestTokensRace(t *testing.T) {
	_, tokens := openTokens(t, t.TempDir())
	first, err := tokens.Save(t.Context(), "u", "r", []byte("0"), "")
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			switch _, err := tokens.Save(t.Context(), "u", "r", []byte("n"), first); {
			case err == nil:
				won.Add(1)
			case tool.AsError(err).Kind != tool.Conflict:
				t.Errorf("save the token: %v, want a conflict", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d won", won.Load())
	}
}
