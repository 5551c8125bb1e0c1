//go:build (linux || darwin) && (amd64 || arm64)

package wasm

import "golang.org/x/sys/unix"

// mapNoReserve requests address space without memory behind it.
const mapNoReserve = unix.MAP_NORESERVE
