package store_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestAPIKeys(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	at := time.Now().UTC().Truncate(time.Microsecond)
	k := identity.Key{
		Name: "ci", ID: "abcdefghijkl", Hash: []byte("hash"), Person: "ann", Roles: []string{"user"},
		Scopes: []string{"api", "mcp"},
		Tools:  []string{"a.*"}, Groups: []string{"leads"}, Created: at, Expires: at.Add(time.Hour),
	}
	keys := s.APIKeys(tokenKey(t, 1))
	other := k
	other.Name, other.ID, other.Tools, other.Groups = "b", "bcdefghijklm", nil, nil
	if err := errors.Join(keys.SaveKey(t.Context(), &k), keys.SaveKey(t.Context(), &other)); err != nil {
		t.Fatalf("errors.Join: %v", err)
	}
	k.Old, k.OldEnds, k.Hash, k.Rotated = k.Hash, at.Add(time.Minute), []byte("other"), at.Add(time.Second)
	if err := errors.Join(keys.SaveKey(t.Context(), &k),
		keys.UsedKey(t.Context(), "ci", at.Add(2*time.Second))); err != nil {
		t.Fatalf("errors.Join: %v", err)
	}
	k.Used = at.Add(2 * time.Second)
	// An id belongs to only one key, and a name to only one id.
	for _, bad := range []identity.Key{{Name: "c", ID: k.ID, Hash: k.Hash, Created: at},
		{Name: "ci", ID: "cdefghijklmn", Hash: k.Hash, Created: at}} {
		if err := keys.SaveKey(t.Context(), &bad); tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("bad = %+v, err = %v, want tool.AsError(err).Kind == tool.Conflict", bad, err)
		}
	}
	// A revoked key never becomes valid again.
	other.Revoked = at
	if err := keys.SaveKey(t.Context(), &other); err != nil {
		t.Fatalf("SaveKey: %v", err)
	}
	again := other
	again.Revoked = time.Time{}
	if err := keys.SaveKey(t.Context(), &again); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Conflict", err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if s, err = store.Open(t.Context(), store.Config{Path: dir}); err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	got, err := s.APIKeys(tokenKey(t, 1)).Keys(t.Context())
	if err != nil || !reflect.DeepEqual(got, []identity.Key{other, k}) {
		t.Errorf("err = %v, got = %+v, []identity.Key{other, k} = %+v, want err == nil && "+
			"reflect.DeepEqual(got, []identity.Key{other, k})", err, got, []identity.Key{other, k})
	}
}
