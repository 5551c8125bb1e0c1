//go:build (darwin || freebsd) && (amd64 || arm64)

package wasm

import "os"

func anonymousFile() (*os.File, string, error) { return temporaryFile() }

// seal does nothing: these systems have no seals, but nothing else can open the file.
func seal(*os.File) error { return nil }

// populate does nothing: the first write to a page creates it.
func populate([]byte) {}
