package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
)

// TestApprovedListFails checks that a list that can't be read stops nothing that runs, and that
// nothing else is started meanwhile. Doctor shows both.
func TestApprovedListFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "approved.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatalf("write the list: %v", err)
		}
	}
	s := &config.Config{}
	s.Registry.Source, s.Registry.Unsigned, s.Registry.Only = file, true, true
	wantRow := func(ok bool, want string) {
		t.Helper()
		rows := checkRegistry(t.Context(), DoctorConfig{}, s)
		if len(rows) != 1 || rows[0].OK != ok || !rows[0].Needed || !strings.Contains(rows[0].Detail, want) {
			t.Errorf("rows of doctor: %+v, want one with ok %t and %q", rows, ok, want)
		}
	}
	a := newApprovedServers(s, "", slog.New(slog.DiscardHandler))
	server := &config.Server{Name: "x", Command: "/opt/x"}
	write(`{"list":"acme","version":1,"servers":[{"server":{"name":"acme/x"},"commands":[["/opt/x"]]}]}`)
	wantRow(true, "acme, version 1, of "+file+": 1 server approved, unsigned")
	if err := a.checkServer(server, false); err != nil {
		t.Fatalf("checkServer: %v, want that it is approved", err)
	}
	write(`{"list":`)
	a.read = a.read.Add(-2 * listAge)
	if err := a.checkServer(server, true); err != nil {
		t.Errorf("a running server, without a list: %v, want that it goes on", err)
	}
	if err := a.checkServer(server, false); err == nil || !strings.Contains(err.Error(), "not started, because") {
		t.Errorf("a further server, without a list: %v, want that it is not started", err)
	}
	wantRow(false, "the list of approved servers")
	write(`{"list":"acme","version":2,"servers":[]}`)
	if err := a.checkServer(server, true); err == nil || !strings.Contains(err.Error(), "not approved") {
		t.Errorf("a running server that the list no longer has: %v, want that it is not approved", err)
	}
}
