package store

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// WitnessFile is the name of the record's witness in the data folder.
const WitnessFile = "biplane.witness"

const (
	witnessPurpose = "audit-witness"
	// slotBytes is the size of each of the two slots of a witness.
	slotBytes = 4096
)

// A witness is a file outside the database that knows the record: its name, and a head that it had when all of that was on the disk. Both are sealed with the
// folder's key. Whoever empties the record's tables, deletes the database or puts older tables in its place has not the size that the witness knows.
//
// The file has two slots, each with the length of a sealed text (2 bytes) and that text. They are written in turn, in place. One is on the disk before the other
// is written, so one of them is always whole. An older one is good, too, since it is a lower bound. mu orders writes.
type witness struct {
	path string
	key  *secret.Key

	mu   sync.Mutex
	last *witnessed // what was read or written last; nil: nothing yet
}

// A witnessed is what a witness knows.
type witnessed struct {
	origin string
	audit.Head
	count uint64 // of writes: the slot is count % 2
}

// load reads the witness; nil: there is none.
func (w *witness) load() (*witnessed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read()
}

func (w *witness) read() (*witnessed, error) {
	fi, err := os.Lstat(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !fi.Mode().IsRegular():
		return nil, tool.Errorf(tool.Conflict, "the record's witness %s is not a file of biplane's (%s)", w.path, fi.Mode().Type())
	}
	f, err := os.Open(w.path)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "read the record's witness: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 2*slotBytes))
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "read the record's witness: %w", err)
	}
	var best *witnessed
	for ; len(data) >= 2; data = data[min(slotBytes, len(data)):] {
		n := int(binary.BigEndian.Uint16(data))
		if n > slotBytes-2 || 2+n > len(data) {
			continue
		}
		b, err := w.key.Unseal(witnessPurpose, data[2:2+n])
		if err != nil || len(b) < 16+tlog.HashSize {
			continue
		}
		x := &witnessed{count: binary.BigEndian.Uint64(b), origin: string(b[16+tlog.HashSize:])}
		x.Size, x.Root = int64(binary.BigEndian.Uint64(b[8:])), tlog.Hash(b[16:16+tlog.HashSize])
		if best == nil || x.count > best.count {
			best = x
		}
	}
	if best == nil {
		return nil, tool.Errorf(tool.Conflict, "the record's witness %s was changed, or sealed with another key", w.path)
	}
	return best, nil
}

// save notes a head that the disk has. One that is not larger than what is known changes nothing.
func (w *witness) save(origin string, h audit.Head) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		if w.last, err = w.read(); err != nil {
			return err
		}
	}
	next := witnessed{origin: origin, Head: h}
	if w.last != nil {
		if w.last.origin == origin && w.last.Size >= h.Size {
			return nil
		}
		next.count = w.last.count + 1
	}
	b := binary.BigEndian.AppendUint64(nil, next.count)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Size))
	b = append(append(b, h.Root[:]...), origin...)
	sealed := w.key.Seal(witnessPurpose, b)
	slot := make([]byte, slotBytes)
	binary.BigEndian.PutUint16(slot, uint16(len(sealed)))
	copy(slot[2:], sealed)
	if w.last == nil {
		err = w.create(slot)
	} else {
		err = w.write(slot, int64(next.count%2)*slotBytes)
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "write the record's witness: %w", err)
	}
	w.last = &next
	return nil
}

// size returns the size of the head that was written last by this process; -1: it has written none.
func (w *witness) size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return -1
	}
	return w.last.Size
}

func (w *witness) write(slot []byte, at int64) error {
	f, err := os.OpenFile(w.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(slot, at)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// create makes the file. It is whole as soon as it has its name.
func (w *witness) create(slot []byte) error {
	f, err := os.OpenFile(w.path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(slot, make([]byte, slotBytes)...))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), w.path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(w.path))
}
