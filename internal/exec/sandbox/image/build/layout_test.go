package build

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
)

// saveImage returns the files of an image with one layer, as docker save writes them.
func saveImage(t *testing.T, layer []byte) map[string]string {
	t.Helper()
	config := fmt.Sprintf(`{"os": "linux", "architecture": %q, "rootfs": {"diff_ids": [%q]}}`, runtime.GOARCH,
		hashOf(archive(t, file("usr/bin/bash")).Bytes()))
	return map[string]string{
		"manifest.json":   `[{"Config": "config.json", "RepoTags": ["a:1"], "Layers": ["one/layer.tar"]}]`,
		"config.json":     config,
		"one/layer.tar":   string(layer),
		"one/VERSION":     "1.0",
		"repositories":    `{}`,
		"one/unused.json": `{}`,
	}
}

func hashOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// writeTar writes files to an archive, and returns its path.
func writeTar(t *testing.T, files map[string]string, links ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range links {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("write the header of a link: %v", err)
		}
	}
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatalf("write %s to an archive: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatalf("write an archive: %v", err)
	}
	return path
}

// compressLayers returns a layer in each form that an image may have it.
func compressLayers(t *testing.T, layer []byte) map[string][]byte {
	t.Helper()
	var zipped, zstandard bytes.Buffer
	g := gzip.NewWriter(&zipped)
	z, err := zstd.NewWriter(&zstandard)
	if err != nil {
		t.Fatalf("make an encoder: %v", err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := w.Write(layer); err != nil {
			t.Fatalf("compress a layer: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("compress a layer: %v", err)
		}
	}
	return map[string][]byte{"none": layer, "gzip": zipped.Bytes(), "zstd": zstandard.Bytes()}
}

// TestSavedImage builds an image from archives of docker save, in each compression.
func TestSavedImage(t *testing.T) {
	layer := archive(t, file("usr/bin/bash")).Bytes()
	for name, compressed := range compressLayers(t, layer) {
		t.Run(name, func(t *testing.T) {
			s := image.NewStore(image.Config{Folder: t.TempDir()})
			m, err := BuildImage(t.Context(), s, "own",
				image.Description{OCI: writeTar(t, saveImage(t, compressed))}, func(string) {})
			if err != nil || m.Interpreters["bash"] != "/usr/bin/bash" {
				t.Errorf("BuildImage: %+v, %v, want a manifest with bash", m, err)
			}
		})
	}
	t.Run("link", func(t *testing.T) { // docker saved a layer that occurs twice as a link
		files := saveImage(t, layer)
		files["two/layer.tar"] = files["one/layer.tar"]
		delete(files, "one/layer.tar")
		s := image.NewStore(image.Config{Folder: t.TempDir()})
		_, err := BuildImage(t.Context(), s, "own",
			image.Description{OCI: writeTar(t, files, link("one/layer.tar", "../two/layer.tar"))}, func(string) {})
		if err != nil {
			t.Errorf("BuildImage: %v", err)
		}
	})
}

// TestHostileArchive checks that archives which aren't images, or lead elsewhere, are refused.
func TestHostileArchive(t *testing.T) {
	layer := archive(t, file("usr/bin/bash")).Bytes()
	host := filepath.Join(t.TempDir(), "layer.tar")
	if err := os.WriteFile(host, layer, 0o600); err != nil {
		t.Fatalf("write a layer: %v", err)
	}
	manifest := func(text string) func(map[string]string) []tar.Header {
		return func(files map[string]string) []tar.Header { files["manifest.json"] = text; return nil }
	}
	for name, test := range map[string]struct {
		change func(map[string]string) []tar.Header
		want   string
	}{
		"link to the host": {func(files map[string]string) []tar.Header {
			delete(files, "one/layer.tar")
			return []tar.Header{link("one/layer.tar", host)}
		}, "escapes"},
		"path of the host": {manifest(`[{"Config": "config.json", "Layers": ["` + host + `"]}]`), "invalid argument"},
		"path upwards":     {manifest(`[{"Config": "../config.json", "Layers": ["one"]}]`), "invalid argument"},
		"long path":        {manifest(`[{"Config": "` + strings.Repeat("a", 1<<20) + `"}]`), "statat aaa"},
		"long layer": {manifest(`[{"Config": "config.json", "Layers": ["` + strings.Repeat("a", 1<<20) + `"]}]`),
			"an invalid path of a layer"},
		"folder":     {manifest(`[{"Config": "config.json", "Layers": ["one"]}]`), "not a regular file"},
		"no layer":   {manifest(`[{"Config": "config.json", "Layers": ["two"]}]`), "no such file"},
		"two images": {manifest(`[{"Config": "config.json"}, {"Config": "config.json"}]`), "has 2 images"},
		"no JSON":    {manifest(`[{`), "manifest.json: "},
		"empty": {func(files map[string]string) []tar.Header {
			clear(files)
			return nil
		}, "neither an index"},
		"too large":        {manifest(strings.Repeat(" ", maxJSONBytes+1)), "manifest.json has more than 4.2 MB"},
		"too many members": {manifest("[" + strings.Repeat("{},", maxCommas+1) + "{}]"), "more than 200,000 commas"},
		"changed blob": {func(files map[string]string) []tar.Header {
			wrong := strings.Repeat("0", 64)
			files["index.json"] = `{"manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json",
				"digest": "sha256:` + wrong + `"}]}`
			files["blobs/sha256/"+wrong] = `{}`
			return nil
		}, "has the digest sha256:"},
		"many indexes": {func(files map[string]string) []tar.Header {
			index := `{}`
			for range maxIndexes + 1 {
				digest := hashOf([]byte(index))
				files["blobs/sha256/"+digest[len("sha256:"):]] = index
				index = `{"manifests": [` + strings.Repeat(`{"mediaType": "application/vnd.oci.image.index.v1+json",
					"digest": "`+digest+`"}, `, 10_000) + `{}]}`
			}
			files["index.json"] = index
			return nil
		}, "more than 100 indexes"},
		"nested index": {func(files map[string]string) []tar.Header {
			files["index.json"] = `{"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json",
				"digest": "sha256:` + hashOf([]byte(`{}`))[len("sha256:"):] + `"}]}`
			files["blobs/sha256/"+hashOf([]byte(`{}`))[len("sha256:"):]] = `{}`
			return nil
		}, "no image for linux/"},
	} {
		t.Run(name, func(t *testing.T) {
			files := saveImage(t, layer)
			links := test.change(files)
			s := image.NewStore(image.Config{Folder: t.TempDir()})
			_, err := BuildImage(t.Context(), s, "own", image.Description{OCI: writeTar(t, files, links...)},
				func(string) {})
			if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 1000 {
				t.Errorf("BuildImage: %v, want an error with %q", err, test.want)
			}
		})
	}
}
