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
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// WitnessFile is the name of the record's witness in the data folder.
const WitnessFile = "biplane.witness"

const (
	witnessPurpose = "audit-witness-chain"
	olderPurpose   = "audit-witness" // of versions whose witness knew nothing of checkpoints
	// slotBytes is the size of each of the two slots of a witness.
	slotBytes = 4096
)

// A witness is a file outside the database that knows the record: its name, a head that it had when
// all of that was on the disk, and its checkpoints. All are sealed with the folder's key. Whoever
// empties the record's tables, deletes the database or puts older tables in its place has not the
// size that the witness knows.
//
// The file has two slots, each with the length of a sealed text (2 bytes) and that text. They are
// written in turn, in place. One is on the disk before the other is written, so one of them is
// always whole. An older one is good, too, since it is a lower bound. mu orders writes.
type witness struct {
	path string
	key  *secret.Key

	mu   sync.Mutex
	last *witnessed // what was read or written last; nil: nothing yet
}

// A witnessed is what a witness knows.
type witnessed struct {
	origin string
	record.Known
	count uint64 // of writes: the slot is count % 2
}

// encode returns the text that a slot seals.
func (x *witnessed) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, x.count)
	b = binary.BigEndian.AppendUint64(b, uint64(x.Size))
	b = append(append(b, x.Root[:]...), x.Chain.Bytes()...)
	return append(b, x.origin...)
}

// open opens the sealed text of a slot; nil: it isn't whole.
func (w *witness) open(sealed []byte) *witnessed {
	b, err := w.key.Unseal(witnessPurpose, sealed)
	chained := err == nil
	if !chained {
		b, err = w.key.Unseal(olderPurpose, sealed)
	}
	if err != nil || len(b) < 16+tlog.HashSize {
		return nil
	}
	x := &witnessed{count: binary.BigEndian.Uint64(b)}
	x.Size, x.Root, b = int64(binary.BigEndian.Uint64(b[8:])), tlog.Hash(b[16:16+tlog.HashSize]), b[16+tlog.HashSize:]
	if chained {
		c, rest, ok := record.ParseChain(b)
		if !ok {
			return nil
		}
		x.Chain, b = &c, rest
	}
	x.origin = string(b)
	return x
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
		if x := w.open(data[2 : 2+n]); x != nil && (best == nil || x.count > best.count) {
			best = x
		}
	}
	if best == nil {
		return nil, tool.Errorf(tool.Conflict, "the record's witness %s was changed, or sealed with another key", w.path)
	}
	return best, nil
}

// save notes a head and a chain that the disk has. Those that are not larger than what is known
// change nothing.
func (w *witness) save(origin string, h audit.Head, c record.Chain) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		if w.last, err = w.read(); err != nil {
			return err
		}
	}
	next := witnessed{origin: origin, Known: record.Known{Head: h, Chain: &c}}
	if l := w.last; l != nil {
		if l.origin == origin && l.Size >= h.Size && l.Chain != nil && l.Chain.Count >= c.Count {
			return nil
		}
		next.count = l.count + 1
	}
	sealed := w.key.Seal(witnessPurpose, next.encode())
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

// Foresee makes the witness of a new data folder, which knows of no entries. A database without a
// record is a new one only if there is such a witness; see Config.Prepare. A witness that is there
// already is left as it is, and must be one that key opens.
func Foresee(folder string, key *secret.Key) error {
	w := &witness{path: filepath.Join(folder, WitnessFile), key: key}
	x, err := w.load()
	if err != nil || x != nil {
		return err
	}
	return w.save("", audit.Head{}, record.Chain{})
}
