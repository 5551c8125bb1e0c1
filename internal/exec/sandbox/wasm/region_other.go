//go:build !((linux || darwin || freebsd) && (amd64 || arm64))

package wasm

import (
	"errors"
	"os"
)

var errUnsupported = errors.New("the wasm driver needs Linux, macOS or FreeBSD on amd64 or arm64: it keeps each " +
	"guest in a reservation of 8 GiB of address space and stops it by protecting its pages")

// A region is not supported on this platform.
type region struct{ own []pageRun }

func newRegion() (*region, error)                        { return nil, errUnsupported }
func (r *region) load(*image, int) error                 { return errUnsupported }
func (r *region) setMax(int)                             {}
func (r *region) reset(*image, int, int, *os.File) error { return errUnsupported }
func (r *region) clear() error                           { return nil }
func (r *region) grow(int) bool                          { return false }
func (r *region) revoke() error                          { return errUnsupported }
func (r *region) memory() []byte                         { return nil }
func (r *region) warm([]pageRun)                         {}
func (r *region) drop([]pageRun)                         {}
func (r *region) free()                                  {}

// An imageFile is not supported on this platform.
type imageFile struct{ kind string }

func newImageFile(int) (*imageFile, error)      { return nil, errUnsupported }
func (f *imageFile) write([]byte, uint32) error { return errUnsupported }
func (f *imageFile) seal() error                { return errUnsupported }
func (f *imageFile) view() ([]byte, error)      { return nil, errUnsupported }
func (f *imageFile) mapAt([]byte) error         { return errUnsupported }
func (f *imageFile) close()                     {}

func unmap([]byte) {}
