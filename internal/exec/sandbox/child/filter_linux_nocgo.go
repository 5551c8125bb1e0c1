//go:build linux && !cgo

package child

// allowedLibc lists the calls of the C library, which this build doesn't contain.
var allowedLibc []uintptr
