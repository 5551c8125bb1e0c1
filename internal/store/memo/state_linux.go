package memo

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// stateBytes is how long a state is in the file.
const stateBytes = 5 * 8

// A state tells a database's file from what it becomes when anybody writes to it.
type state struct{ numbers [stateBytes / 8]uint64 }

func (s *state) appendTo(b []byte) []byte {
	for _, n := range s.numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// stateOf gives the state of a database that nobody has open, or has left in haste; nil: somebody has, or there is none.
func stateOf(path string) *state {
	for _, beside := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(path + beside); !os.IsNotExist(err) {
			return nil
		}
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil
	}
	return &state{[...]uint64{uint64(st.Dev), st.Ino, uint64(st.Size), uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano())}}
}

// mark gives a database that was just closed a time of its last change that no later change can give it, a moment before the true one: the system's
// own times are those of a clock that stands still for milliseconds. It gives the state then; nil: there is none.
func mark(path string) (*state, error) {
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || stateOf(path) == nil {
		return nil, err
	}
	at := fi.ModTime().Add(-time.Duration(1 + rand.Int64N(int64(time.Millisecond))))
	if err := os.Chtimes(path, time.Time{}, at); err != nil {
		return nil, err
	}
	s := stateOf(path)
	if s == nil || s.numbers[3] != uint64(at.UnixNano()) { // a file system may know no such times
		return nil, nil
	}
	return s, nil
}
