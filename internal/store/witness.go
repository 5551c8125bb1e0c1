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

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/store/record"
	"github.com/biplane-dev/biplane/internal/tool"
)

// WitnessFile is the name of the record's witness in the data folder.
const WitnessFile = "biplane.witness"

const (
	witnessPurpose = "audit-witness-chain"
	olderPurpose   = "audit-witness" // for versions whose witness had no checkpoints
	// slotBytes is the size of each of the two slots of a witness.
	slotBytes = 4096
)

// A witness is a file outside the database that describes the record: its name, its checkpoints,
// and a head that was entirely on the disk. It is sealed with the folder's key. An attacker who
// empties the record's tables, deletes the database or restores older tables can't match the size
// in the witness.
//
// The file has two slots, each with the length of a sealed text (2 bytes) and that text. They are
// written alternately, in place. One slot is on the disk before the other is written, so one of
// them is always intact. An older slot is valid, too, because it is a lower bound. mu serializes
// writes.
type witness struct {
	path string
	key  *secret.Key

	mu   sync.Mutex
	last *witnessHead // last contents read or written; nil: none yet
}

// A witnessHead is the contents of a witness.
type witnessHead struct {
	origin string
	record.Known
	count uint64 // number of writes: the slot is count % 2
}

// encodeSlot returns the plaintext of a slot.
func (x *witnessHead) encodeSlot() []byte {
	b := binary.BigEndian.AppendUint64(nil, x.count)
	b = binary.BigEndian.AppendUint64(b, uint64(x.Size))
	b = append(append(b, x.Root[:]...), x.Chain.Bytes()...)
	return append(b, x.origin...)
}

// openSlot unseals a slot. It returns nil if the slot is invalid.
func (w *witness) openSlot(sealed []byte) *witnessHead {
	b, err := w.key.Unseal(witnessPurpose, sealed)
	chained := err == nil
	if !chained {
		b, err = w.key.Unseal(olderPurpose, sealed)
	}
	if err != nil || len(b) < 16+tlog.HashSize {
		return nil
	}
	x := &witnessHead{count: binary.BigEndian.Uint64(b)}
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

// loadNewest reads the witness. It returns nil if there is none.
func (w *witness) loadNewest() (*witnessHead, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readSlots()
}

func (w *witness) readSlots() (*witnessHead, error) {
	fi, err := os.Lstat(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !fi.Mode().IsRegular():
		return nil, tool.Errorf(tool.Conflict,
			"the record's witness %s was not written by biplane (%s)", w.path, fi.Mode().Type())
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
	var best *witnessHead
	for ; len(data) >= 2; data = data[min(slotBytes, len(data)):] {
		n := int(binary.BigEndian.Uint16(data))
		if n > slotBytes-2 || 2+n > len(data) {
			continue
		}
		if x := w.openSlot(data[2 : 2+n]); x != nil && (best == nil || x.count > best.count) {
			best = x
		}
	}
	if best == nil {
		return nil, tool.Errorf(tool.Conflict, "the record's witness %s was changed, or sealed with another key",
			w.path)
	}
	return best, nil
}

// saveHead writes a head and a chain that are on the disk. It writes nothing if neither is larger
// than in the witness.
func (w *witness) saveHead(origin string, h proof.Head, c record.Chain) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		if w.last, err = w.readSlots(); err != nil {
			return err
		}
	}
	next := witnessHead{origin: origin, Known: record.Known{Head: h, Chain: &c}}
	if l := w.last; l != nil {
		if l.origin == origin && l.Size >= h.Size && l.Chain != nil && l.Chain.Count >= c.Count {
			return nil
		}
		next.count = l.count + 1
	}
	sealed := w.key.Seal(witnessPurpose, next.encodeSlot())
	slot := make([]byte, slotBytes)
	binary.BigEndian.PutUint16(slot, uint16(len(sealed)))
	copy(slot[2:], sealed)
	if w.last == nil {
		err = w.createFile(slot)
	} else {
		err = w.writeSlot(slot, int64(next.count%2)*slotBytes)
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "write the record's witness: %w", err)
	}
	w.last = &next
	return nil
}

// headSize returns the size of the last head that was read or written, or -1 if there is none.
func (w *witness) headSize() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return -1
	}
	return w.last.Size
}

func (w *witness) writeSlot(slot []byte, at int64) error {
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

// createFile creates the file. Once the file has its name, it is complete.
func (w *witness) createFile(slot []byte) error {
	return atomicfile.WriteFile(w.path, append(slot, make([]byte, slotBytes)...), 0o600)
}

// CreateWitness creates the witness of a new data folder, with no entries. Only with such a witness
// is a database without a record a new one; see Config.Prepare. An existing witness is left
// unchanged, but it must be sealed with key.
func CreateWitness(folder string, key *secret.Key) error {
	w := &witness{path: filepath.Join(folder, WitnessFile), key: key}
	x, err := w.loadNewest()
	if err != nil || x != nil {
		return err
	}
	return w.saveHead("", proof.Head{}, record.Chain{})
}
