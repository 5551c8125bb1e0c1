//go:build linux && (amd64 || arm64)

package pyguest

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/third_party/cpython"
)

func TestBoot(t *testing.T) {
	m := start(t)
	done, fail, err := m.run(sandbox.Run{Code: "import sys\nsys.version.split()[0]"})
	if err != nil || fail != nil || string(done.Value) != `"`+Version+`"` {
		t.Errorf("done = %v, fail = %v, err = %v, want err == nil && fail == nil && string(done.Value) "+
			"== `\"`+Version+`\"`", done, fail, err)
	}
}

// TestLibrary checks the library's checksum, and that the interpreter finds the runtime's own
// modules.
func TestLibrary(t *testing.T) {
	if sum := sha256.Sum256(cpython.Library); hex.EncodeToString(sum[:]) != cpython.LibrarySum {
		t.Errorf("lib.zip has the sum %x: run third_party/cpython/build/build.sh", sum)
	}
	l := NewLibrary()
	for name, dir := range map[string]bool{
		"lib": true, "lib/python3.13/json": true, "lib/python3.13/json/decoder.pyc": false,
		"lib/python3.13/_biplane/guest.py": false,
		"lib/python3.13/socket.py":         false, "lib/timezones/Europe/Berlin": false,
		"lib/timezones/US/Eastern": false,
	} {
		isDir, size, ok := l.stat(name)
		if !ok || isDir != dir {
			t.Errorf("%s, isDir = %v, ok = %v, want ok && isDir == dir", name, isDir, ok)
		}
		if b, ok := l.read(name); ok == dir || int64(len(b)) != size {
			t.Errorf("%s: read %d bytes of %d", name, len(b), size)
		}
	}
	if _, _, ok := l.stat("lib/python3.13/ssl.pyc"); ok {
		t.Error("there is ssl")
	}
}
