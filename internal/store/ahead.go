package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
)

// aheadName is the name of the file in the data folder.
const aheadName = "biplane.ahead"

const (
	// aheadKeep is from which size on the next transaction waits for the disk, in bytes, so that
	// the file can be written over.
	aheadKeep = 4 << 20
	// aheadMost is how large it may become. What doesn't fit waits for the database.
	aheadMost = 64 << 20
)

// An ahead is a file for what the database doesn't have yet: leaves of the record, and steps of
// journals. They are written to the database a few milliseconds later, many at once. Who must know
// that the death of this process doesn't take them back doesn't wait for that: one write to this
// file, which the system keeps, says so. Who must know that the disk has them has it flushed, too
// (aheadDisk). What is in the file and not in the database when that is opened is written then.
//
// An entry has a number, in the order in which they came. The database knows up to which it has
// all. The file holds frames: the length and the CRC-32C of what follows (4 bytes each, little
// endian, as all numbers), then entries, each its number (8 bytes), its length (4), its kind (1),
// and its text. The first frame that isn't whole, or whose numbers don't grow, is the end: the file
// is written over from its beginning when the disk has all that is in it in the database, and what
// it doesn't write over is cut off when what was kept too long is thrown away. What is in it when a
// transaction fails is written by the next one.
type ahead struct {
	file aheadFile
	disk aheadDisk

	mu    sync.Mutex
	last  uint64          // the number of the newest entry
	saved uint64          // and of the newest that is in the file
	open  []unwritten     // entries that are not in the database yet, in order
	off   bool            // what is to be safe has to wait for the database: that, or the file, could not be written
	loose bool            // the database has something that the disk may not have, nor the file
	holes map[string]bool // executions of whose journals something is in neither
}

// An aheadFile is the file. Its lock is taken before that of what is open, and held while the file
// is written to.
type aheadFile struct {
	mu   sync.Mutex
	f    *os.File
	size int64 // of what is in it
	room int64 // up to where it has been written to before: there it doesn't have to grow
	next int64 // at which size it is to be written over
	buf  []byte
}

// An unwritten entry is one that the database doesn't have yet.
type unwritten struct {
	number uint64
	entry
	saved bool // it is in the file
}

// An entry is what the file can hold.
type entry interface {
	kind() byte
	appendTo(b []byte) []byte
}

// errAhead says that somebody has to wait for the database.
var errAhead = errors.New("the file beside the database can't be written")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openAhead opens the file, and gives what is in it and not in the database.
func openAhead(ctx context.Context, q record.Querier, path string) (_ *ahead, left []read, err error) {
	a := &ahead{holes: map[string]bool{}, loose: true} // of what the last process wrote nobody knows
	if err := fault.One(q.QueryRowContext(ctx, `SELECT applied FROM tail WHERE id = 1`), &a.last); err != nil {
		return nil, nil, err
	}
	// a pipe would be waited for, what a link names written over
	if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a file of ours (%s): move it away", path, fi.Mode().Type())
	}
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil && missing != nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, nil, err
	}
	a.file.f, a.file.next = f, aheadKeep
	data, err := io.ReadAll(io.LimitReader(f, aheadMost))
	if err = errors.Join(err, f.Chmod(0o600)); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	left, a.file.size = frames(data)
	a.file.room = int64(len(data))
	left = slices.DeleteFunc(left, func(r read) bool { return r.number <= a.last })
	if len(left) > 0 {
		a.last = left[len(left)-1].number
	}
	return a, left, nil
}

// note takes an entry, and gives its number.
func (a *ahead) note(e entry) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	a.open = append(a.open, unwritten{number: a.last, entry: e})
	return a.last
}

// secure writes to the file what of the entries is in neither. With an error it has to be waited
// for in the database.
func (a *ahead) secure() error {
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	due, off := a.due()
	switch {
	case off:
		return errAhead
	case len(due) == 0:
		return nil
	}
	frame := append(file.buf[:0], 0, 0, 0, 0, 0, 0, 0, 0) // of its head
	for _, o := range due {
		frame = appendEntry(frame, o.number, o.entry)
	}
	if cap(frame) <= aheadKeep {
		file.buf = frame
	}
	if file.size+int64(len(frame)) > aheadMost {
		return errAhead
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-8))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
	if _, err := file.f.WriteAt(frame, file.size); err != nil {
		a.stop()
		return errAhead
	}
	file.size += int64(len(frame))
	file.room = max(file.room, file.size)
	a.save(due[len(due)-1].number)
	return nil
}

// due gives the entries that are not in the file.
func (a *ahead) due() (due []unwritten, off bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := len(a.open)
	for i > 0 && !a.open[i-1].saved {
		i--
	}
	return slices.Clone(a.open[i:]), a.off
}

// save notes that entries are in the file, up to one.
func (a *ahead) save(last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = last
	for i := len(a.open) - 1; i >= 0 && !a.open[i].saved; i-- {
		a.open[i].saved = a.open[i].number <= last
	}
}

// stop has what is to be safe wait for the database.
func (a *ahead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
}

// position gives up to which entry the database has all when it has these, too (numbers, sorted).
func (a *ahead) position(numbers []uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.open {
		if n := a.open[i].number; !has(numbers, n) {
			return n - 1
		}
	}
	return a.last
}

// done notes entries (numbers, sorted) that are in the database now, or, where err is not nil, that
// could not be written to it. durable: the disk has all that is in the database. held: the caller
// holds the lock of the file.
func (a *ahead) done(numbers []uint64, durable, held bool, err error) {
	file := &a.file
	if !held {
		file.mu.Lock()
		defer file.mu.Unlock()
	}
	left := a.settled(numbers, err)
	if err != nil || !durable {
		return
	}
	a.disk.reach(a.position(nil))
	if left > 0 {
		file.next = max(file.next, 2*file.size)
		return
	}
	file.size, file.next = 0, aheadKeep
}

// settled is done for what is open, and gives how many entries of the file the database doesn't
// have.
func (a *ahead) settled(numbers []uint64, err error) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = err != nil
	a.open = slices.DeleteFunc(a.open, func(o unwritten) bool { return has(numbers, o.number) })
	for i := range a.open {
		if a.open[i].saved {
			left++
		}
	}
	return left
}

// has reports whether the file has an entry that the database doesn't have.
func (a *ahead) has(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := slices.BinarySearchFunc(a.open, number, func(o unwritten, n uint64) int { return cmp.Compare(o.number, n) })
	return ok && a.open[i].saved
}

// wipe takes away what is behind the end of what is in the file: it may be of what is to be kept no
// longer.
func (a *ahead) wipe() error {
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	file.room = file.size
	return file.f.Truncate(file.size)
}

// close closes the file. It is empty where the database has all.
func (a *ahead) close() error {
	a.stop()
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	var err error
	if file.size == 0 {
		err = file.f.Truncate(0)
	}
	return errors.Join(err, file.f.Close())
}

func has(numbers []uint64, n uint64) bool {
	_, ok := slices.BinarySearch(numbers, n)
	return ok
}

func appendEntry(b []byte, number uint64, e entry) []byte {
	b = append(binary.LittleEndian.AppendUint64(b, number), 0, 0, 0, 0, e.kind())
	at := len(b)
	b = e.appendTo(b)
	binary.LittleEndian.PutUint32(b[at-5:], uint32(len(b)-at))
	return b
}

// greatestNumber is far more than there ever are, and leaves room in the database's numbers for
// those that come after it.
const greatestNumber = 1 << 62

// entryHead is how long what stands before an entry's text is, in bytes.
const entryHead = 13

// A read entry is one of the file.
type read struct {
	number uint64
	kind   byte
	text   []byte
}

// frames gives what is in the file, and where it ends.
func frames(data []byte) (out []read, end int64) {
	last := uint64(0)
	for len(data) >= 8 {
		n, sum := uint64(binary.LittleEndian.Uint32(data)), binary.LittleEndian.Uint32(data[4:])
		if data = data[8:]; n == 0 || n > uint64(len(data)) || crc32.Checksum(data[:n], castagnoli) != sum {
			break
		}
		some, ok := readEntries(data[:n], last)
		if !ok {
			break
		}
		last = some[len(some)-1].number
		out, data, end = append(out, some...), data[n:], end+8+int64(n)
	}
	return out, end
}

// readEntries gives the entries of a frame, whose numbers grow from last on.
func readEntries(data []byte, last uint64) (out []read, ok bool) {
	for len(data) > 0 {
		if len(data) < entryHead {
			return nil, false
		}
		r := read{number: binary.LittleEndian.Uint64(data), kind: data[entryHead-1]}
		n := uint64(binary.LittleEndian.Uint32(data[8:]))
		if data = data[entryHead:]; n > uint64(len(data)) || r.number <= last || r.number > greatestNumber {
			return nil, false
		}
		last = r.number
		r.text, data = data[:n], data[n:]
		out = append(out, r)
	}
	return out, len(out) > 0
}

// numbers gives the numbers of the entries among writes and leaves, sorted.
func numbers(group []*write, leaves []*leaf) (out []uint64) {
	for _, r := range group {
		if r.ahead > 0 {
			out = append(out, r.ahead)
		}
	}
	for _, x := range leaves {
		if x.number > 0 {
			out = append(out, x.number)
		}
	}
	slices.Sort(out)
	return out
}

// recover opens the file, and writes what of journals the last process left in it. Leaves of the
// record wait for the key of that. What can't be written is what had been written already, or isn't
// of a whole: it is left out, and said.
func (w *writer) recover(ctx context.Context, q record.Querier, path string) (err error) {
	var left []read
	if w.ahead, left, err = openAhead(ctx, q, path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.ahead.file.f.Close())
		}
	}()
	for _, r := range left {
		if r.kind == leafKind {
			w.left = append(w.left, r)
			w.ahead.open = append(w.ahead.open, unwritten{number: r.number, saved: true})
		}
	}
	w.heir = len(w.left) > 0
	if w.ahead.file.size > 0 { // else it was stopped in order, and the disk has all
		err = w.journalsAgain(ctx, left)
	}
	if err == nil && len(w.left) == 0 { // else it is kept until these are written
		w.ahead.file.size = 0
	}
	if err == nil { // behind its end may be whole frames, whose numbers there will be again
		err = w.ahead.wipe()
	}
	return err
}

// journalsAgain writes the steps of journals among what is left, and sees to it that the disk has
// them, and what the last process wrote before.
func (w *writer) journalsAgain(ctx context.Context, left []read) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	if err := w.step(ctx, step{query: "BEGIN IMMEDIATE"}); err != nil {
		return err
	}
	for _, r := range left {
		if r.kind == leafKind {
			continue
		}
		x, err := readExecutionWrite(r.text)
		if err == nil {
			err = fault.Constrained(x.write(ctx, w))
		} else {
			err = fault.Refuse(err)
		}
		if err := w.leftOut(r, err); err != nil {
			return errors.Join(err, w.step(ctx, step{query: "ROLLBACK"}))
		}
	}
	return errors.Join(w.step(ctx, step{`UPDATE tail SET applied = ?`, []any{int64(w.ahead.position(nil))}}),
		w.step(ctx, step{query: change}), w.step(ctx, step{query: "COMMIT"}))
}

// leftOut says that an entry is left out, where err is a refusal. It gives any other error.
func (w *writer) leftOut(r read, err error) error {
	if !fault.Refused(err) {
		return err
	}
	w.log.Warn("what was written last before this process began is left out: it is there already, or not whole", "entry", r.number, "err", err)
	return nil
}

// recover writes the leaves that the last process left.
func (a *Audit) recover(ctx context.Context) error {
	if !a.s.writer.heir {
		return nil
	}
	return a.s.writer.call(ctx, true, func(ctx context.Context, w *writer) error {
		left := w.left
		if len(left) == 0 {
			return nil
		}
		if err := w.edge.Grow(ctx, w.tx, a.key); err != nil {
			if fault.Refused(err) { // with another key, or another copy of the database, they may be added yet
				w.log.Warn("what was recorded last before this process began can't be added to the record, and is left in the file beside the database", "entries", len(left), "err", err)
				return nil
			}
			return err
		}
		w.left = nil
		w.ledger.add(len(left))
		begun := map[string]int64{} // leaves, by record
		for _, r := range left {
			x := &leaf{Leaf: record.Leaf{Key: a.key, Add: &audit.Addition{}}, a: a, number: r.number}
			w.taken = append(w.taken, x)
			if err := w.leftOut(r, fault.Constrained(w.leafAgain(ctx, x, r.text, begun))); err != nil {
				return err
			}
		}
		return nil
	})
}
