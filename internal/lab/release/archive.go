package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/biplane-dev/biplane/internal/cli"
)

// A file is a file of an archive.
type file struct {
	name string // with slashes
	mode int64
	data []byte
}

// writeArchive writes a gzipped tar archive. Its bytes depend on the arguments only.
func writeArchive(w io.Writer, folder string, made time.Time, files []file) error {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(f.data)),
			ModTime: made, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("archive %s: %w", f.name, err)
		}
		if _, err := archive.Write(f.data); err != nil {
			return fmt.Errorf("archive %s: %w", f.name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return packed.Close()
}

// readSharedFiles returns the files that the archives of all targets have.
func readSharedFiles(r *release) (out []file, err error) {
	for _, name := range []string{"LICENSE", "README.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{name, 0o644, b})
	}
	licences, err := filepath.Glob("third_party/*/LICENSE*")
	if err != nil {
		return nil, err
	}
	for _, path := range licences {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, file{filepath.ToSlash(path), 0o644, b})
	}
	root := cli.NewCommand(cli.Process{Out: io.Discard, Err: io.Discard, Version: r.version})
	more, err := describeCommands(root, r.made)
	return append(out, more...), err
}

// describeCommands returns the completions of shells and the manual pages of a command.
func describeCommands(root *cobra.Command, made time.Time) (out []file, err error) {
	for _, c := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"completions/biplane.bash", func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
		{"completions/_biplane", root.GenZshCompletion},
		{"completions/biplane.fish", func(w io.Writer) error { return root.GenFishCompletion(w, true) }},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil {
			return nil, fmt.Errorf("make %s: %w", c.name, err)
		}
		out = append(out, file{c.name, 0o644, b.Bytes()})
	}
	var pages func(*cobra.Command) error
	pages = func(c *cobra.Command) error {
		var b bytes.Buffer
		c.DisableAutoGenTag = true
		header := &doc.GenManHeader{Section: "1", Date: &made, Source: "Biplane " + root.Version, Manual: "Biplane"}
		if err := doc.GenMan(c, header, &b); err != nil {
			return fmt.Errorf("make the manual page of %s: %w", c.CommandPath(), err)
		}
		out = append(out, file{"man/" + strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1", 0o644, b.Bytes()})
		for _, sub := range c.Commands() {
			if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
				continue
			}
			if err := pages(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return out, pages(root)
}

// writeChecksums writes SHA256SUMS for files of the release, in the format of sha256sum. It returns
// the sums by name.
func (r *release) writeChecksums(names []string) (map[string]string, error) {
	sums := map[string]string{}
	var b strings.Builder
	for _, name := range slices.Sorted(slices.Values(names)) {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		sums[name] = hex.EncodeToString(sum[:])
		fmt.Fprintf(&b, "%s  %s\n", sums[name], name)
	}
	return sums, os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}

// writeFormula returns the formula for Homebrew.
func (r *release) writeFormula(targets []target, sums map[string]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `class Biplane < Formula
  desc "Lets AI agents work by programs against a team's tools, under its policy"
  homepage "https://github.com/biplane-dev/biplane"
  version %q
`, strings.TrimPrefix(r.version, "v"))
	for _, system := range []struct{ name, block string }{{"darwin", "on_macos"}, {"linux", "on_linux"}} {
		var inner strings.Builder
		for _, t := range targets {
			if t.system != system.name {
				continue
			}
			block := map[string]string{"amd64": "on_intel", "arm64": "on_arm"}[t.processor]
			name := r.folderName(t) + ".tar.gz"
			fmt.Fprintf(&inner, "    %s do\n      url \"%s/%s/%s\"\n      sha256 %q\n    end\n",
				block, r.base, r.version, name, sums[name])
		}
		if inner.Len() > 0 {
			fmt.Fprintf(&b, "\n  %s do\n%s  end\n", system.block, inner.String())
		}
	}
	b.WriteString(`
  def install
    bin.install "biplane"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/biplane.bash" => "biplane"
    zsh_completion.install "completions/_biplane"
    fish_completion.install "completions/biplane.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/biplane version")
  end
end
`)
	return []byte(b.String())
}
