// Command w2x translates a WebAssembly module to Go source.
//
//	w2x -pkg qjs -keep '_initialize,qjs_*' -sha256 SUM -o DIR module.wasm
//
// The output is one package: a type Module whose methods are the module's exported functions, an
// interface Imports of its imported functions, and its data segments in a file. Structured control
// becomes labels and gotos, and the operand stack becomes variables. Functions are Go functions,
// and the function table is an array whose entries are checked by their Go type.
//
// Linear memory is a reservation of address space made by the package's user. An address is a
// 32-bit number plus a 32-bit constant, so no access can leave 8 GiB + 64 KiB, and accesses outside
// the memory must fault. Without bounds checks the package is twice as fast. The Go compiler may
// omit a load whose value is unused, which then doesn't trap. Otherwise the translation follows the
// WebAssembly specification (core 2.0 without references, SIMD and passive segments). Modules that
// it can't translate are refused.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	j, err := parseJob(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	if err := j.runJob(); err != nil {
		fmt.Fprintln(os.Stderr, "w2x:", err)
		os.Exit(1)
	}
}

// A job is a parsed command line.
type job struct {
	opt Options
	sum string // expected SHA-256 of the module, in hexadecimal digits; empty means any
	in  string // file of the module
	out string // directory of the package
}

// parseJob parses a command line and writes errors to w.
func parseJob(args []string, w io.Writer) (*job, error) {
	j := &job{}
	f := flag.NewFlagSet("w2x", flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&j.opt.Package, "pkg", "guest", "`name` of the package")
	f.StringVar(&j.out, "o", ".", "`directory` to write to")
	f.StringVar(&j.sum, "sha256", "", "`sum` that the module must have, in hexadecimal digits")
	keep := f.String("keep", "*",
		"comma-separated `patterns` of the exports to keep; what no kept export reaches is left out")
	names := f.String("name", "",
		"comma-separated `name=index` of functions to export that the module doesn't")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() != 1 {
		f.Usage()
		return nil, errors.New("one module, please")
	}
	j.in, j.opt.Keep = f.Arg(0), strings.Split(*keep, ",")
	var err error
	if j.opt.Names, err = parseNames(*names); err != nil {
		return nil, err
	}
	return j, nil
}

// parseNames parses a list of name=index.
func parseNames(list string) (map[string]uint32, error) {
	names := map[string]uint32{}
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			continue
		}
		name, index, _ := strings.Cut(item, "=")
		n, err := strconv.ParseUint(index, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("-name %s: %q is not the index of a function", item, index)
		}
		names[name] = uint32(n)
	}
	return names, nil
}

// translateModule returns the files of the package. The job's file names are relative to dir.
func (j *job) translateModule(dir string) (map[string][]byte, error) {
	b, err := os.ReadFile(filepath.Join(dir, j.in))
	if err != nil {
		return nil, err
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(b)); j.sum != "" && sum != j.sum {
		return nil, fmt.Errorf("%s has the SHA-256 sum %s, not %s", j.in, sum, j.sum)
	}
	files, err := Translate(b, j.opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.in, err)
	}
	return files, nil
}

// runJob translates the module and writes the package, replacing earlier output.
func (j *job) runJob() error {
	files, err := j.translateModule("")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(j.out, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(j.out, "fn*.go"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(j.out, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
