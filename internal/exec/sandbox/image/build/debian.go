package build

import (
	"archive/tar"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// aptOptions make apt-get resolve packages without root and without changing anything.
var aptOptions = []string{"-q", "-o", "Debug::NoLocking=true", "-o", "APT::Install-Recommends=false",
	"-o", "Dpkg::Use-Pty=0"}

// installDebian downloads Debian packages, with the ones that they need and the host lacks, and
// writes their files to the tree. apt checks the signatures. Scripts of packages are not run.
func (j *job) installDebian(ctx context.Context) error {
	names := append([]string{}, j.d.Packages...)
	for _, name := range j.d.Python {
		names = append(names, "python3-"+strings.ToLower(strings.ReplaceAll(name, "_", "-")))
	}
	if len(names) == 0 {
		return nil
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return tool.Errorf(tool.Unavailable, "this host has no %s, so Debian packages can't be installed: use "+
				"an OCI image", program)
		}
	}
	j.progress("resolving " + strings.Join(names, ", "))
	scratch, err := j.draft.MakeScratch()
	if err != nil {
		return err
	}
	simulate := append(append([]string{"-s", "install"}, aptOptions...), names...)
	out, err := runCommand(ctx, scratch, "apt-get", simulate...)
	if err != nil {
		return tool.Errorf(tool.Unavailable, "%w (are the lists of packages up to date? apt-get update; are these "+
			"names of Debian's packages? apt-cache search)", err)
	}
	wanted, err := parseInstalls(out)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		j.progress("the host has all of them already")
		return nil
	}
	j.m.Installed = append(j.m.Installed, wanted...)
	j.progress("downloading " + text.Count(len(wanted), "package"))
	args := append(append([]string{"download"}, aptOptions...), wanted...)
	if os.Geteuid() == 0 {
		args = append(args, "-o", "APT::Sandbox::User=root") // its own user can't write to the folder
	}
	if _, err := runCommand(ctx, scratch, "apt-get", args...); err != nil {
		return err
	}
	return j.extractPackages(ctx, scratch)
}

// parseInstalls returns the packages that a simulation of apt-get would install: name=version.
func parseInstalls(out string) (wanted []string, err error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch {
		case len(f) < 3:
		case f[0] == "Remv":
			return nil, tool.Errorf(tool.Unavailable, "the packages conflict with %s, which the host has: use an "+
				"OCI image", f[1])
		case f[0] == "Inst":
			version := f[2]
			if strings.HasPrefix(version, "[") && len(f) > 3 { // the host has an older one
				version = f[3]
			}
			wanted = append(wanted, f[1]+"="+strings.TrimPrefix(version, "("))
		}
	}
	return wanted, nil
}

// extractPackages writes the files of the packages in a folder to the tree.
func (j *job) extractPackages(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	info, err := os.Lstat("/lib")
	j.x.merged = err == nil && info.Mode()&fs.ModeSymlink != 0
	var links []alternative
	for i, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), "_")
		j.progress(fmt.Sprintf("extracting %s (%d of %d)", name, i+1, len(files)))
		if err := extractPart(ctx, file, "--fsys-tarfile", func(r io.Reader) error {
			return j.x.extractTar(ctx, r)
		}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := extractPart(ctx, file, "--ctrl-tarfile", func(r io.Reader) error {
			found, err := readAlternatives(r)
			links = append(links, found...)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for _, l := range links {
		j.linkAlternative(l.path, l.target)
	}
	return j.linkLibraries()
}

// extractPart passes a part of a package, a tar archive, to read.
func extractPart(ctx context.Context, file, part string, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := exec.CommandContext(ctx, "dpkg-deb", part, file)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = read(out)
	if err == nil {
		_, err = io.Copy(io.Discard, out) // padding
	}
	if err != nil {
		cancel()
		return errors.Join(err, ignoreError(c.Wait()))
	}
	return c.Wait()
}

// ignoreError drops an error that follows from an earlier one.
func ignoreError(error) error { return nil }

// An alternative is a link that a package's script would make by update-alternatives.
type alternative struct{ path, target string }

var alternativePattern = lazily.Regexp(`--(?:install|slave)\s+"?(/[\w./+-]+)"?\s+\S+\s+"?(/[\w./+-]+)"?`)

// readAlternatives finds the links in the script of a package. Those with variables are left out.
func readAlternatives(r io.Reader) (out []alternative, err error) {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if path.Base(h.Name) != "postinst" {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(in, 1<<20))
		if err != nil {
			return nil, err
		}
		script := strings.ReplaceAll(string(b), "\\\n", " ")
		for _, m := range alternativePattern.Get().FindAllStringSubmatch(script, -1) {
			out = append(out, alternative{m[1], m[2]})
		}
	}
}

// linkAlternative makes a link in the tree, if its target is there and nothing is in its place.
func (j *job) linkAlternative(at, target string) {
	from, err := j.x.findTarget(target)
	if err != nil {
		return
	}
	if _, err := j.x.root.Stat(from); err != nil {
		return
	}
	to, err := j.x.findTarget(at)
	if err != nil {
		return
	}
	_ = j.x.root.Symlink(target, to) // it fails if something is there
}

// linkLibraries makes libraries available that packages keep in a folder of their own and register
// by update-alternatives, such as libblas.so.3, if a file of the tree needs them.
func (j *job) linkLibraries() error {
	found := map[string]string{} // libraries in the tree: name to path
	needed := map[string]bool{}
	err := fs.WalkDir(j.x.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() && e.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if base := path.Base(name); strings.HasPrefix(base, "lib") && strings.Contains(base, ".so.") {
			if old := found[base]; old == "" || len(name) < len(old) {
				found[base] = name
			}
		}
		if e.Type().IsRegular() {
			for _, lib := range listLibraries(filepath.Join(j.draft.Root, name)) {
				needed[lib] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for lib := range needed {
		at, ok := found[lib]
		if !ok || isSearched(path.Dir(at)) || j.hostHas(lib) {
			continue
		}
		j.linkAlternative("/"+path.Join(path.Dir(path.Dir(at)), lib), "/"+at)
	}
	return nil
}

// isSearched reports whether the system looks for libraries in a folder of the tree.
func isSearched(dir string) bool {
	return dir == "usr/lib" || dir == "lib" || path.Dir(dir) == "usr/lib" && strings.Contains(dir, "-linux-")
}

// hostHas reports whether the host has a library where the system looks for it.
func (j *job) hostHas(lib string) bool {
	for _, pattern := range []string{"/usr/lib/", "/usr/lib/*-linux-*/"} {
		if m, _ := filepath.Glob(pattern + lib); len(m) > 0 {
			return true
		}
	}
	return false
}

// listLibraries returns the libraries that a program or library needs, or nil if it is neither.
func listLibraries(file string) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != elf.ELFMAG {
		return nil
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return nil
	}
	libs, err := e.ImportedLibraries()
	if err != nil {
		return nil
	}
	return libs
}
