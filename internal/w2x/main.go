// Command w2x translates a WebAssembly module to Go source.
//
//	w2x -pkg qjs -keep '_initialize,qjs_*' -o DIR module.wasm
//
// What it makes is one package: a type Module whose methods are the module's exported functions, an interface Imports
// of what it imports, and its data segments in a file beside it. Structured control becomes labels and gotos, the
// operand stack becomes variables, functions are Go functions, the function table is an array whose entries are
// checked by their Go type.
//
// Linear memory is a reservation of address space that the user of the package makes: an address is a 32-bit number
// plus a 32-bit constant, so that no access can leave 8 GiB + 64 KiB, and what isn't memory must fault. That needs no
// bounds checks, and makes the package twice as fast as one with them. A load whose value is never used may be left
// out by the Go compiler, and then doesn't trap; in all else the translation keeps to the WebAssembly specification
// (core 2.0 without references, SIMD and passive segments; what it can't translate it refuses).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	pkg := flag.String("pkg", "guest", "`name` of the package")
	out := flag.String("o", ".", "`directory` to write to")
	keep := flag.String("keep", "*", "comma-separated `patterns` of the exports to keep; what no kept export reaches is left out")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *out, Options{Package: *pkg, Keep: strings.Split(*keep, ",")}); err != nil {
		fmt.Fprintln(os.Stderr, "w2x:", err)
		os.Exit(1)
	}
}

// run translates the module in file and writes the package to dir, in which it replaces earlier output.
func run(file, dir string, opt Options) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	files, err := Translate(b, opt)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "fn*.go"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
