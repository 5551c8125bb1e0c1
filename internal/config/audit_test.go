package config_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/retention"
)

func TestAudit(t *testing.T) {
	c, err := parseFile("/etc/b/biplane.yaml",
		"audit: {origin: example.com/biplane, arguments: full, results: none, keep: 30d, secrets: [tenant, x_key]}")
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	r := c.Audit.Retention
	if c.Audit.Origin != "example.com/biplane" ||
		r.Arguments != retention.KeepFull || r.Results != retention.KeepNone ||
		r.For != 30*24*time.Hour || strings.Join(r.Secrets, " ") != "tenant x_key" {
		t.Errorf("c.Audit = %+v", c.Audit)
	}
	for _, text := range []string{"audit: {origin: a b}", "audit: {arguments: some}", "audit: {results: [full]}",
		"audit: {keep: soon}", "audit: {keep: 1s}", "audit: {what: 1}", "audit: full"} {
		if _, err := parseFile("/etc/b/biplane.yaml", text); err == nil || !strings.Contains(err.Error(), "audit") {
			t.Errorf(`text = %s, err = %v, want err != nil && strings.Contains(err.Error(), "audit")`, text, err)
		}
	}
}

func TestCheckpoints(t *testing.T) {
	c, err := parseFile("/etc/b/biplane.yaml",
		`audit: {keep: 30d, checkpoints: {every: 10m, file: worm, webhook: "https://siem.example/in/${TOKEN}", git: {repository: ./notary, branch: main},
  s3: {bucket: b, prefix: p, region: eu-west-1, access_key: id, secret_key: "${TOKEN}", object_lock_days: 400}}}`)
	if err != nil {
		t.Fatalf("parseFile: %v", err)
	}
	v := c.Audit.Shown()
	want := []string{"file /etc/b/worm", "webhook https://siem.example", "git /etc/b/notary", "s3 b/p"}
	if !slices.Equal(v.Checkpoints, want) || v.Every != "10m" || v.Keep != "30d" || v.Arguments != "redacted" ||
		v.Results != "digest" {
		t.Errorf("v = %+v", v)
	}
	if text, err := json.Marshal(c.Shown("/data")); err != nil || strings.Contains(string(text), "s3cret") {
		t.Errorf(`text = %s, err = %v, want err == nil && !strings.Contains(string(text), "s3cret")`, text, err)
	}
	if s3 := c.Audit.Checkpoints.S3; s3.SecretKey != "s3cret" || s3.LockDays != 400 ||
		c.Audit.Checkpoints.Git.Branch != "main" {
		t.Errorf("c.Audit.Checkpoints = %+v, want s3.SecretKey == \"s3cret\" && s3.LockDays == 400 && "+
			"c.Audit.Checkpoints.Git.Branch == \"main\"", c.Audit.Checkpoints)
	}
	for _, text := range []string{
		"{webhook: ftp://x}", "{webhook: nowhere}", "{git: {}}", "{git: {repository: --upload-pack=x}}",
		"{git: {repository: 'ext::sh -c x'}}", "{git: {repository: a, branch: -x}}",
		"{s3: {bucket: b}}", "{s3: {bucket: a/b, access_key: x, secret_key: y}}",
		"{s3: {bucket: b, access_key: x, secret_key: y, object_lock_days: 0}}", "{every: never}", "{email: x}",
	} {
		if _, err := parseFile("/etc/b/biplane.yaml", "audit: {checkpoints: "+text+"}"); err == nil ||
			!strings.Contains(err.Error(), "audit.checkpoints") {
			t.Errorf("text = %s, err = %v, want err != nil && strings.Contains(err.Error(), "+
				"\"audit.checkpoints\")", text, err)
		}
	}
}
