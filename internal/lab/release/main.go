// Release builds the files of a Biplane release: an archive and a list of components (SBOM) for
// each system, their checksums, and a formula for Homebrew. The same commit, version and Go
// toolchain make the same bytes: builds have no paths, times or identities of the machine, and all
// times in archives are that of the commit.
//
// An archive has the binary, the licence, the readme, completions for shells, and manual pages.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A release is a release to build.
type release struct {
	version string    // v1.2.3
	made    time.Time // of the commit
	out     string    // folder of the files
	base    string    // address from which the files will be downloaded
}

// A target is a system that a release supports.
type target struct {
	name              string // linux/amd64
	system, processor string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := makeRelease(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var validVersion = lazily.Regexp(`^v?[0-9A-Za-z][0-9A-Za-z.+-]{0,99}$`)

// makeRelease makes the files that the arguments ask for.
func makeRelease(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "dev", "`version` of the release")
	out := flags.String("out", "dist", "`folder` for the files; it must be empty or not exist")
	base := flags.String("base", "https://github.com/biplane-dev/biplane/releases/download",
		"`address` below which the formula for Homebrew finds the files")
	targets := flags.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64",
		"systems, separated by commas")
	seconds := flags.Int64("time", -1, "`seconds` since 1970 for the times in archives (default: the commit's)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || !validVersion.Get().MatchString(*version) {
		return fmt.Errorf("no such release: version %q, further arguments %q", *version, flags.Args())
	}
	all, err := parseTargets(*targets)
	if err != nil {
		return err
	}
	if old, err := os.ReadDir(*out); err == nil && len(old) > 0 {
		return fmt.Errorf("the folder %s is not empty: remove it first, or name another with -out", *out)
	}
	made := time.Unix(*seconds, 0).UTC()
	if *seconds < 0 {
		if made, err = readCommitTime(ctx); err != nil {
			return err
		}
	}
	r := &release{*version, made, *out, strings.TrimSuffix(*base, "/")}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "biplane-release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	shared, err := readSharedFiles(r)
	if err != nil {
		return err
	}
	var names []string
	for i, t := range all {
		fmt.Fprintf(os.Stderr, "%d of %d: build %s\n", i+1, len(all), t.name)
		path := filepath.Join(work, t.system+"-"+t.processor)
		if err := r.buildBinary(ctx, t, path); err != nil {
			return err
		}
		made, err := r.writeTarget(t, path, shared)
		if err != nil {
			return err
		}
		names = append(names, made...)
	}
	sums, err := r.writeChecksums(names)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "biplane.rb"), r.writeFormula(all, sums), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s has the files of %s\n", r.out, r.version)
	return nil
}

// parseTargets parses systems like linux/amd64.
func parseTargets(list string) (out []target, err error) {
	for name := range strings.SplitSeq(list, ",") {
		system, processor, ok := strings.Cut(name, "/")
		if !ok || system != "linux" && system != "darwin" || processor != "amd64" && processor != "arm64" {
			return nil, fmt.Errorf("no release for %q: only linux and darwin, with amd64 and arm64", name)
		}
		out = append(out, target{name, system, processor})
	}
	return out, nil
}

// readCommitTime returns the time of the commit.
func readCommitTime(ctx context.Context) (time.Time, error) {
	b, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the commit with git: %w (or name a time with -time)", err)
	}
	seconds, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("the time of the commit: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// profile says where the embedded engines spend their time. `make profile` writes it.
const profile = "internal/lab/release/engines.pgo"

// buildBinary builds the binary of a target.
func (r *release) buildBinary(ctx context.Context, t target, path string) error {
	if t.system == "linux" {
		entry := exec.CommandContext(ctx, "scripts/entry.sh", t.processor)
		entry.Stdout, entry.Stderr = os.Stderr, os.Stderr
		if err := entry.Run(); err != nil {
			return fmt.Errorf("build the program that enters sandboxes, for %s: %w", t.name, err)
		}
	}
	build := exec.CommandContext(ctx, "env", "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+t.system, "GOARCH="+t.processor,
		"GOAMD64=v1", "GOARM64=v8.0", "go", "build", "-tags", "entry", "-trimpath", "-buildvcs=false", "-pgo="+profile,
		"-ldflags", "-s -w -buildid= -X main.version="+r.version, "-o", path, "./cmd/biplane")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w", t.name, err)
	}
	return nil
}

// writeTarget writes the archive of a target and the list of its components, and returns the names
// of both.
func (r *release) writeTarget(t target, binary string, shared []file) ([]string, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	list, err := r.listComponents(t, binary)
	if err != nil {
		return nil, err
	}
	folder := r.folderName(t)
	var packed bytes.Buffer
	files := append([]file{{"biplane", 0o755, data}, {"sbom.cdx.json", 0o644, list}}, shared...)
	if err := writeArchive(&packed, folder, r.made, files); err != nil {
		return nil, err
	}
	names := []string{folder + ".tar.gz", folder + ".cdx.json"}
	for i, b := range [][]byte{packed.Bytes(), list} {
		if err := os.WriteFile(filepath.Join(r.out, names[i]), b, 0o644); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// folderName returns the name of a target's archive, without its extension.
func (r *release) folderName(t target) string {
	return "biplane_" + strings.TrimPrefix(r.version, "v") + "_" + t.system + "_" + t.processor
}
