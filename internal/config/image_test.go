package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
)

// loadText loads a configuration.
func loadText(t *testing.T, text string) (*config.Config, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "biplane.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write %s: %v", file, err)
	}
	c, err := config.Load(file, tool.Process)
	return c, filepath.Dir(file), err
}

// TestImages reads images with folders and volumes.
func TestImages(t *testing.T) {
	c, dir, err := loadText(t, `sandbox:
  images:
    data: { python: [pandas, numpy], packages: [jq], warm: [pandas], env: { A: b }, mounts: [reports],
      volumes: { cache: /cache } }
    own: { oci: ./own.tar }
  mounts: { reports: ./reports }
  volumes: { cache: { size: 2MiB, shared: true } }
`)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	want := map[string]image.Description{
		"data": {Python: []string{"numpy", "pandas"}, Packages: []string{"jq"}, Use: image.Use{Tier: tool.Process,
			Warm: []string{"pandas"}, Environment: map[string]string{"A": "b"}, Mounts: []image.Mount{
				{Folder: filepath.Join(dir, "reports"), Target: "/mnt/reports", ReadOnly: true},
				{Volume: "cache", Target: "/cache", Shared: true, Limit: 2 << 20}}}},
		"own": {OCI: filepath.Join(dir, "own.tar"), Use: image.Use{Tier: tool.Process}},
	}
	if got := c.Sandbox.Images; !reflect.DeepEqual(got, want) {
		t.Errorf("images: %+v, want %+v", got, want)
	}
}

// TestBadImages reads images with mistakes.
func TestBadImages(t *testing.T) {
	for text, want := range map[string]string{
		"images: { Data: { packages: [jq] } }":                   `invalid name "Data"`,
		"images: { data: { packages: [\"jq; rm\"] } }":           "invalid name of a package",
		"images: { data: { packages: [\"../jq\"] } }":            "invalid name of a package",
		"images: { data: { oci: x, python: [numpy] } }":          "is a whole system",
		"images: { data: { mounts: [a] } }":                      "there is no sandbox.mounts.a",
		"images: { data: { volumes: { a: /usr/x } } }":           "there is no sandbox.volumes.a",
		"images: { data: { mounts: { a: /usr } } }, mounts: [a]": "nothing can be mounted at /usr",
		"images: { data: { mounts: { a: /x, b: /x/y } } }, mounts: [a, b]": "another folder or volume is mounted at " +
			"/x/y",
		"images: { data: { tier: wasm } }":    "tier can't be wasm",
		"images: { data: { tier: gvisor } }":  "tier can't be gvisor",
		"images: { data: { pakages: [jq] } }": `did you mean "packages"`,
	} {
		if _, _, err := loadText(t, "sandbox: { "+text+" }"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
