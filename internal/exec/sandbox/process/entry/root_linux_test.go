package entry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
)

// TestHostileRoot checks that links of an image don't lead out of the root while it is made: no
// file of the host is read, written or created.
func TestHostileRoot(t *testing.T) {
	host, root := t.TempDir(), t.TempDir()
	secret := filepath.Join(host, "secret")
	const certs = "/etc/ssl/certs"
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.MkdirAll(root+certs, 0o755),
		os.Symlink(secret, root+certs+"/ca-certificates.crt"), os.Symlink(host, root+"/data"),
		os.WriteFile(root+certs+"/real.pem", []byte("real"), 0o644),
		os.Symlink(certs+"/real.pem", root+"/etc/ssl/cert.pem")); err != nil {
		t.Fatalf("make a root: %v", err)
	}
	if b, err := readBundle(root, certs+"/ca-certificates.crt"); err == nil {
		t.Errorf("readBundle of a link to the host: %q, want an error", b)
	}
	if b, err := readBundle(root, "/etc/ssl/cert.pem"); err != nil || string(b) != "real" {
		t.Errorf("readBundle of a link in the root: %q, %v, want its target", b, err)
	}
	n := &netns.Setup{Authorities: "authority"}
	if err := writeNetworkFiles(root, n); err != nil {
		t.Errorf("writeNetworkFiles: %v", err)
	}
	if b, err := os.ReadFile(root + netns.BundlePath); err != nil || strings.Contains(string(b), "secret") {
		t.Errorf("the certificates: %q, %v, want nothing of the host's secret", b, err)
	}
	authority := root + netns.AuthorityPath
	if err := errors.Join(os.Remove(authority), os.Symlink(secret, authority)); err != nil {
		t.Fatalf("replace a file by a link: %v", err)
	}
	if err := writeNetworkFiles(root, n); err == nil {
		t.Errorf("writeNetworkFiles with a link in its way: no error")
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the host's file: %q, %v, want it unchanged", b, err)
	}
	if err := makeMountPoint(&caller{}, root, "/data/volume", false); err == nil {
		t.Errorf("makeMountPoint below a link: no error")
	}
	if _, err := os.Lstat(host + "/volume"); err == nil {
		t.Errorf("a folder of the host was created")
	}
	if err := makeMountPoint(&caller{}, root, "/mnt/volume", false); err != nil {
		t.Errorf("makeMountPoint: %v", err)
	}
}
