package backup

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
)

// TestHostileArchive checks that an archive can't write outside of its folder, or more than its
// list of files says.
func TestHostileArchive(t *testing.T) {
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatalf("age.GenerateX25519Identity: %v", err)
	}
	const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of nothing
	for name, c := range map[string]struct {
		listed []File
		header []tar.Header
	}{
		"a path outside":   {[]File{{"../x", 0, digest}}, []tar.Header{{Name: "../x"}}},
		"an absolute path": {[]File{{"/tmp/x", 0, digest}}, []tar.Header{{Name: "/tmp/x"}}},
		"another folder":   {[]File{{"a/b", 0, digest}}, []tar.Header{{Name: "a/b"}}},
		"a link":           {[]File{{"x", 0, digest}}, []tar.Header{{Name: "x", Typeflag: tar.TypeSymlink}}},
		"another name":     {[]File{{"x", 0, digest}}, []tar.Header{{Name: "y"}}},
		"a missing file":   {[]File{{"x", 0, digest}, {"y", 0, digest}}, []tar.Header{{Name: "x"}}},
		"a file too many":  {[]File{{"x", 0, digest}}, []tar.Header{{Name: "x"}, {Name: "y"}}},
		"a wrong digest":   {[]File{{"x", 0, "00"}}, []tar.Header{{Name: "x"}}},
		"a file twice":     {[]File{{"x", 0, digest}, {"x", 0, digest}}, []tar.Header{{Name: "x"}, {Name: "x"}}},
	} {
		var text bytes.Buffer
		sealed, err := age.Encrypt(&text, k.Recipient())
		if err != nil {
			t.Fatalf("age.Encrypt: %v", err)
		}
		out := tar.NewWriter(sealed)
		head, err := json.Marshal(Manifest{Format: format, Files: c.listed})
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		writeHeader(t, out, &tar.Header{Name: manifestName, Size: int64(len(head))})
		if _, err := out.Write(head); err != nil {
			t.Fatalf("write: %v", err)
		}
		for _, h := range c.header {
			writeHeader(t, out, &h)
		}
		if err := out.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		if err := sealed.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		dir := t.TempDir()
		target := filepath.Join(dir, "data")
		if err := os.Mkdir(target, 0o700); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		if _, err := ReadArchive(&text, target, k); err == nil {
			t.Errorf("%s: accepted, want an error", name)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("%s: %v was written beside the folder, %v", name, all, err)
		}
	}
}

func writeHeader(t *testing.T, out *tar.Writer, h *tar.Header) {
	t.Helper()
	if err := out.WriteHeader(h); err != nil {
		t.Fatalf("WriteHeader: %v", err)
	}
}
