package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var made = time.Unix(1_700_000_000, 0).UTC()

// buildSmall builds a binary that is small enough to be packed often.
func buildSmall(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module small\n\ngo 1.26\n",
		"main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "small", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "small")
}

// writeRelease writes the files of two targets.
func writeRelease(t *testing.T, binary string) *release {
	t.Helper()
	r := &release{"v1.2.3", made, t.TempDir(), "https://example.com/files"}
	shared, err := readSharedFiles(r)
	if err != nil {
		t.Fatalf("readSharedFiles: %v", err)
	}
	targets := []target{{"linux/amd64", "linux", "amd64"}, {"darwin/arm64", "darwin", "arm64"}}
	var names []string
	for _, g := range targets {
		made, err := r.writeTarget(g, binary, shared)
		if err != nil {
			t.Fatalf("writeTarget(%s): %v", g, err)
		}
		names = append(names, made...)
	}
	sums, err := r.writeChecksums(names)
	if err != nil {
		t.Fatalf("writeChecksums: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, "biplane.rb"), r.writeFormula(targets, sums), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return r
}

// readFolder returns the content of the files of a folder by name.
func readFolder(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// TestSameBytes checks that the same release has the same bytes each time.
func TestSameBytes(t *testing.T) {
	binary := buildSmall(t)
	t.Chdir("../../..")
	first := readFolder(t, writeRelease(t, binary).out)
	time.Sleep(1100 * time.Millisecond) // archives have times in seconds
	if err := os.Chtimes(binary, time.Time{}, time.Now()); err != nil {
		t.Fatalf("os.Chtimes: %v", err)
	}
	second := readFolder(t, writeRelease(t, binary).out)
	if len(first) != 6 || len(second) != len(first) {
		t.Fatalf("%d and %d files, want 6", len(first), len(second))
	}
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s differs between two runs", name)
		}
	}
}

// TestArchive checks what an archive has, and that the checksums are those of the files.
func TestArchive(t *testing.T) {
	binary := buildSmall(t)
	t.Chdir("../../..")
	r := writeRelease(t, binary)
	files := readFolder(t, r.out)
	const name = "biplane_1.2.3_linux_amd64"
	modes := map[string]int64{}
	content := map[string]string{}
	packed, err := gzip.NewReader(strings.NewReader(files[name+".tar.gz"]))
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	for archive := tar.NewReader(packed); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the archive: %v", err)
		}
		inner, ok := strings.CutPrefix(h.Name, name+"/")
		if !ok || !h.ModTime.Equal(made) || h.Uid != 0 {
			t.Errorf("%s has the time %s and the user %d, want it in %s, with %s and 0", h.Name, h.ModTime, h.Uid,
				name, made)
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, archive); err != nil {
			t.Fatalf("read %s: %v", h.Name, err)
		}
		modes[inner], content[inner] = h.Mode, b.String()
	}
	for inner, want := range map[string]string{"LICENSE": "", "README.md": "# Biplane", "biplane": "\x7fELF",
		"completions/biplane.bash": "__start_biplane", "completions/_biplane": "#compdef biplane",
		"completions/biplane.fish": "complete -c biplane", "man/biplane.1": `.TH "BIPLANE" "1"`,
		"man/biplane-run.1": "program", "man/biplane-approvals-approve.1": "approve",
		"sbom.cdx.json": "CycloneDX", "third_party/quickjs-wasi/LICENSE": "MIT"} {
		if !strings.Contains(content[inner], want) || content[inner] == "" {
			t.Errorf("%s is %.80q, want %q in it", inner, content[inner], want)
		}
	}
	if modes["biplane"] != 0o755 || modes["LICENSE"] != 0o644 {
		t.Errorf("modes %o and %o, want 755 and 644", modes["biplane"], modes["LICENSE"])
	}
	for inner := range maps.Keys(content) {
		if strings.Contains(inner, "__") {
			t.Errorf("the archive has %s, which describes a hidden command", inner)
		}
	}
	lines := strings.Split(strings.TrimSpace(files["SHA256SUMS"]), "\n")
	if len(lines) != 4 {
		t.Errorf("SHA256SUMS has %d lines, want 4", len(lines))
	}
	for _, line := range lines {
		sum, of, _ := strings.Cut(line, "  ")
		if got := sha256.Sum256([]byte(files[of])); hex.EncodeToString(got[:]) != sum {
			t.Errorf("the checksum of %s is %x, SHA256SUMS says %s", of, got, sum)
		}
		if strings.HasSuffix(of, ".gz") && !strings.Contains(files["biplane.rb"], sum) {
			t.Errorf("biplane.rb has no checksum of %s", of)
		}
	}
	if u := "https://example.com/files/v1.2.3/" + name + ".tar.gz"; !strings.Contains(files["biplane.rb"], u) {
		t.Errorf("biplane.rb has no address %s:\n%s", u, files["biplane.rb"])
	}
}

// TestComponents checks the list of components against go.mod and the folders of third_party.
func TestComponents(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	t.Chdir("../../..")
	b, err := (&release{version: "v1.2.3", made: made}).listComponents(target{"linux/amd64", "linux", "amd64"}, binary)
	if err != nil {
		t.Fatalf("listComponents: %v", err)
	}
	var list bom
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	refs := map[string]component{}
	for _, c := range list.Components {
		if refs[c.Ref].Ref != "" || c.Ref == "" {
			t.Errorf("the reference %q is not unique", c.Ref)
		}
		refs[c.Ref] = c
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	cobra := regexp.MustCompile(`github.com/spf13/cobra (\S+)`).FindSubmatch(mod)
	want := "pkg:golang/github.com/spf13/cobra@" + string(cobra[1])
	if c := refs[want]; c.Version != string(cobra[1]) || len(c.Properties) != 1 {
		t.Errorf("%s is %+v, want it with its version and its checksum", want, c)
	}
	folders, err := filepath.Glob("third_party/*/ORIGIN.md")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, f := range folders {
		ref := filepath.ToSlash(filepath.Dir(f))
		if len(refs[ref].Properties) == 0 {
			t.Errorf("%s is %+v, want its origin", ref, refs[ref])
		}
	}
	if refs["go"].Version == "" || list.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("standard library %+v, time %s", refs["go"], list.Metadata.Timestamp)
	}
}

func TestArguments(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-version", "v1 -X evil"}, "no such release"},
		{[]string{"-version", "../v1"}, "no such release"},
		{[]string{"more"}, "no such release"},
		{[]string{"-targets", "windows/amd64"}, "no release for"},
		{[]string{"-targets", "linux/386"}, "no release for"},
		{[]string{"-out", full}, "is not empty"},
	} {
		if err := makeRelease(t.Context(), c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want an error with %q", c.args, err, c.want)
		}
	}
}
