package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/config"
)

func TestAudit(t *testing.T) {
	parse := func(text string) (*config.Config, error) {
		return config.Parse(filepath.Join(t.TempDir(), "biplane.yaml"), []byte(text), func(string) (string, bool) { return "", false })
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

// parsed gives the settings of a configuration.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	s, err := config.Parse(filepath.Join(t.TempDir(), "biplane.yaml"), []byte(text), func(name string) (string, bool) {
		return map[string]string{"SECRET": "hunter2"}[name], name == "SECRET"
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheckpoints(t *testing.T) {
	s := parsed(t, `audit: {keep: 30d, checkpoints: {every: 10m, file: worm, webhook: "https://siem.example/in/${SECRET}", git: {repository: ./notary, branch: main},
  s3: {bucket: b, prefix: p, region: eu-west-1, access_key: id, secret_key: "${SECRET}", object_lock_days: 400}}}`)
	v := s.Audit.Shown()
	dir := filepath.Dir(s.File)
	want := []string{"file " + filepath.Join(dir, "worm"), "webhook https://siem.example", "git " + filepath.Join(dir, "notary"), "s3 b/p"}
	if !slices.Equal(v.Checkpoints, want) || v.Every != "10m" || v.Keep != "30d" || v.Arguments != "redacted" || v.Results != "digest" {
		t.Errorf("%+v", v)
	}
	if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("%s, %v", text, err)
	}
	if s.Audit.Checkpoints.S3.SecretKey != "hunter2" || s.Audit.Checkpoints.S3.LockDays != 400 || s.Audit.Checkpoints.Git.Branch != "main" {
		t.Errorf("%+v", s.Audit.Checkpoints)
	}
	for _, text := range []string{
		"{webhook: ftp://x}", "{webhook: nowhere}", "{git: {}}", "{git: {repository: --upload-pack=x}}", "{git: {repository: 'ext::sh -c x'}}", "{git: {repository: a, branch: -x}}",
		"{s3: {bucket: b}}", "{s3: {bucket: a/b, access_key: x, secret_key: y}}", "{s3: {bucket: b, access_key: x, secret_key: y, object_lock_days: 0}}", "{every: never}", "{email: x}",
	} {
		_, err := config.Parse(filepath.Join(t.TempDir(), "biplane.yaml"), []byte("audit: {checkpoints: "+text+"}"), os.LookupEnv)
		if err == nil || !strings.Contains(err.Error(), "audit.checkpoints") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
