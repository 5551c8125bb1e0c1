package daemon_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func TestAuditSettings(t *testing.T) {
	parse := func(text string) (*daemon.Settings, error) {
		return daemon.ParseConfig(filepath.Join(t.TempDir(), "biplane.yaml"), []byte(text), func(string) (string, bool) { return "", false })
	}
	s, err := parse("audit: {origin: example.com/biplane, arguments: full, results: none, keep: 30d, secrets: [tenant, x_key]}")
	if err != nil {
		t.Fatal(err)
	}
	r := s.Audit.Retention
	if s.Audit.Origin != "example.com/biplane" || r.Arguments != audit.KeepFull || r.Results != audit.KeepNone || r.For != 30*24*time.Hour || strings.Join(r.Secrets, " ") != "tenant x_key" {
		t.Errorf("%+v", s.Audit)
	}
	for _, text := range []string{"audit: {origin: a b}", "audit: {arguments: some}", "audit: {results: [full]}", "audit: {keep: soon}", "audit: {keep: 1s}", "audit: {what: 1}", "audit: full"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), "audit") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
