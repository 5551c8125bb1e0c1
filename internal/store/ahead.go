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

	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/store/fault"
	"github.com/biplane-dev/biplane/internal/store/record"
)

// aheadName is the name of the write-ahead file in the data folder.
const aheadName = "biplane.ahead"

const (
	// aheadKeep is the size, in bytes, above which the next transaction waits for the disk, so that
	// the file can be overwritten from its beginning.
	aheadKeep = 4 << 20
	// aheadMost is the maximum size of the file, in bytes. An entry that doesn't fit waits for the
	// database.
	aheadMost = 64 << 20
)

// An ahead is a write-ahead file for data that isn't in the database yet: leaves of the record and
// steps of journals. They are written to the database in batches, a few milliseconds later.
//
// A caller whose entry must survive the death of this process doesn't wait for the database. One
// write to this file, which stays in the system's page cache, is enough. A caller whose entry must
// be on the disk has the file flushed, too (aheadDisk). When the database is opened, the entries
// that are only in the file are written to it.
//
// Entries are numbered in the order in which they arrive. The database stores the number up to
// which it has all of them. The file holds frames. A frame starts with the length and the CRC-32C
// of the rest (4 bytes each; all numbers are little endian). Its entries follow, each with its
// number (8 bytes), length (4), kind (1) and text.
//
// The first frame that is incomplete, or whose numbers don't increase, ends the file. Once all of
// its entries are in the database and on the disk, the file is overwritten from its beginning.
// Bytes after the last frame are truncated when expired data is deleted. If a transaction fails,
// the next one writes the entries in the file.
type ahead struct {
	file aheadFile
	disk aheadDisk

	mu    sync.Mutex
	last  uint64          // number of the newest entry
	saved uint64          // number of the newest entry in the file
	open  []unwritten     // entries that are not in the database yet, in order
	off   bool            // the database or the file couldn't be written: durable writes must wait for the database
	loose bool            // the database has data that may be neither on the disk nor in the file
	holes map[string]bool // IDs of executions with journal steps that are in neither
}

// An aheadFile is the open file. Its lock is acquired before ahead.mu, and held during writes to
// the file.
type aheadFile struct {
	mu   sync.Mutex
	f    *os.File
	size int64 // bytes in use
	room int64 // bytes written before: up to here the file needn't grow
	next int64 // size above which the file is overwritten
	buf  []byte
}

// An unwritten is an entry that the database doesn't have yet.
type unwritten struct {
	number uint64
	entry
	saved bool // in the file
}

// An entry is a unit of data that the file can hold.
type entry interface {
	entryKind() byte
	appendTo(b []byte) []byte
}

// errAhead means that the caller has to wait for the database.
var errAhead = errors.New("the file beside the database can't be written")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openAhead opens the file and returns the entries in it that are not in the database.
func openAhead(ctx context.Context, q record.Querier, path string) (_ *ahead, left []read, err error) {
	a := &ahead{holes: map[string]bool{}, loose: true} // what the last process flushed is unknown
	if err := fault.ScanOne(q.QueryRowContext(ctx, `SELECT applied FROM tail WHERE id = 1`), &a.last); err != nil {
		return nil, nil, err
	}
	// opening a pipe would block, and a link's target would be overwritten
	if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s was not written by biplane (%s): move it away", path, fi.Mode().Type())
	}
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil && missing != nil {
		err = atomicfile.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, nil, err
	}
	a.file.f, a.file.next = f, aheadKeep
	data, err := io.ReadAll(io.LimitReader(f, aheadMost))
	if err = errors.Join(err, f.Chmod(0o600)); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	left, a.file.size = parseFrames(data)
	a.file.room = int64(len(data))
	left = slices.DeleteFunc(left, func(r read) bool { return r.number <= a.last })
	if len(left) > 0 {
		a.last = left[len(left)-1].number
	}
	return a, left, nil
}

// addEntry adds an entry and returns its number.
func (a *ahead) addEntry(e entry) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	a.open = append(a.open, unwritten{number: a.last, entry: e})
	return a.last
}

// writePending writes the pending entries to the file that aren't in it yet. On an error the caller
// has to wait for the database.
func (a *ahead) writePending() error {
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	due, off := a.takePending()
	switch {
	case off:
		return errAhead
	case len(due) == 0:
		return nil
	}
	frame := append(file.buf[:0], 0, 0, 0, 0, 0, 0, 0, 0) // the frame's header
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
		a.disable()
		return errAhead
	}
	file.size += int64(len(frame))
	file.room = max(file.room, file.size)
	a.setSaved(due[len(due)-1].number)
	return nil
}

// takePending returns the entries that are not in the file yet, and whether the file is off.
func (a *ahead) takePending() (due []unwritten, off bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := len(a.open)
	for i > 0 && !a.open[i-1].saved {
		i--
	}
	return slices.Clone(a.open[i:]), a.off
}

// setSaved marks the entries up to number last as saved in the file.
func (a *ahead) setSaved(last uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.saved = last
	for i := len(a.open) - 1; i >= 0 && !a.open[i].saved; i-- {
		a.open[i].saved = a.open[i].number <= last
	}
}

// disable makes durable writes wait for the database.
func (a *ahead) disable() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = true
}

// databasePosition returns the last entry up to which the database has all entries. numbers are
// entries, sorted, that count as written.
func (a *ahead) databasePosition(numbers []uint64) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.open {
		if n := a.open[i].number; !containsNumber(numbers, n) {
			return n - 1
		}
	}
	return a.last
}

// removeDone removes entries (numbers, sorted) that were written to the database, or, if err is not
// nil, failed to be. durable means that everything in the database is on the disk. held means that
// the caller holds the lock of the file.
func (a *ahead) removeDone(numbers []uint64, durable, held bool, err error) {
	file := &a.file
	if !held {
		file.mu.Lock()
		defer file.mu.Unlock()
	}
	left := a.dropOpen(numbers, err)
	if err != nil || !durable {
		return
	}
	a.disk.recordSync(a.databasePosition(nil))
	if left > 0 {
		file.next = max(file.next, 2*file.size)
		return
	}
	file.size, file.next = 0, aheadKeep
}

// dropOpen removes entries from the open ones, and returns how many entries in the file are
// not in the database yet.
func (a *ahead) dropOpen(numbers []uint64, err error) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.off = err != nil
	a.open = slices.DeleteFunc(a.open, func(o unwritten) bool { return containsNumber(numbers, o.number) })
	for i := range a.open {
		if a.open[i].saved {
			left++
		}
	}
	return left
}

// hasEntry reports whether the file has an entry that is not in the database.
func (a *ahead) hasEntry(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := slices.BinarySearchFunc(a.open, number, func(o unwritten, n uint64) int {
		return cmp.Compare(o.number, n)
	})
	return ok && a.open[i].saved
}

// truncateTail truncates the file behind its last frame: the bytes there may belong to expired
// data.
func (a *ahead) truncateTail() error {
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	file.room = file.size
	return file.f.Truncate(file.size)
}

// closeFile closes the file, and empties it if the database has all entries.
func (a *ahead) closeFile() error {
	a.disable()
	file := &a.file
	file.mu.Lock()
	defer file.mu.Unlock()
	var err error
	if file.size == 0 {
		err = file.f.Truncate(0)
	}
	return errors.Join(err, file.f.Close())
}

func containsNumber(numbers []uint64, n uint64) bool {
	_, ok := slices.BinarySearch(numbers, n)
	return ok
}

func appendEntry(b []byte, number uint64, e entry) []byte {
	b = append(binary.LittleEndian.AppendUint64(b, number), 0, 0, 0, 0, e.entryKind())
	at := len(b)
	b = e.appendTo(b)
	binary.LittleEndian.PutUint32(b[at-5:], uint32(len(b)-at))
	return b
}

// greatestNumber is the largest valid entry number. It is never reached in practice, and leaves
// room for larger numbers in the database's integers.
const greatestNumber = 1 << 62

// entryHead is the size of an entry's header, in bytes.
const entryHead = 13

// A read is an entry read from the file.
type read struct {
	number uint64
	kind   byte
	text   []byte
}

// parseFrames returns the entries in the file and the offset of their end.
func parseFrames(data []byte) (out []read, end int64) {
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

// readEntries returns the entries of a frame. ok is false if they are malformed, or if their
// numbers don't increase from last.
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

// entryNumbers returns the entry numbers of the writes and leaves, sorted.
func entryNumbers(group []*write, leaves []*leaf) (out []uint64) {
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

// recoverSteps opens the file and writes the journal steps that the last process left in it. Leaves
// of the record are kept until their key is known. An entry that can't be written was written
// before, or is incomplete: it is logged and skipped.
func (w *writer) recoverSteps(ctx context.Context, q record.Querier, path string) (err error) {
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
	if w.ahead.file.size > 0 { // otherwise the last process stopped cleanly, and the disk has everything
		err = w.journalsAgain(ctx, left)
	}
	if err == nil && len(w.left) == 0 { // otherwise the file is kept until the leaves are written
		w.ahead.file.size = 0
	}
	if err == nil { // complete frames may follow the end, with numbers that will be used again
		err = w.ahead.truncateTail()
	}
	return err
}

// journalsAgain writes the journal steps in left. When it returns, they are on the disk, and so is
// everything that the last process wrote before.
func (w *writer) journalsAgain(ctx context.Context, left []read) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	if err := w.execStep(ctx, step{query: "BEGIN IMMEDIATE"}); err != nil {
		return err
	}
	for _, r := range left {
		if r.kind == leafKind {
			continue
		}
		x, err := readExecutionWrite(r.text)
		if err == nil {
			err = fault.RefuseConstraint(x.execSteps(ctx, w))
		} else {
			err = fault.Refuse(err)
		}
		if err := w.leftOut(r, err); err != nil {
			return errors.Join(err, w.execStep(ctx, step{query: "ROLLBACK"}))
		}
	}
	return errors.Join(w.execStep(ctx,
		step{`UPDATE tail SET applied = ?`, []any{int64(w.ahead.databasePosition(nil))}}),
		w.execStep(ctx, step{query: change}), w.execStep(ctx, step{query: "COMMIT"}))
}

// leftOut logs that an entry is skipped if err is a refusal. It returns any other error.
func (w *writer) leftOut(r read, err error) error {
	if !fault.IsRefusal(err) {
		return err
	}
	w.log.Warn("old entry skipped: already in the database, or incomplete", "entry", r.number, "err", err)
	return nil
}

// recoverLeaves writes the leaves that the last process left in the file.
func (a *Audit) recoverLeaves(ctx context.Context) error {
	if !a.s.writer.heir {
		return nil
	}
	return a.s.writer.runInTransaction(ctx, true, func(ctx context.Context, w *writer) error {
		left := w.left
		if len(left) == 0 {
			return nil
		}
		if err := w.edge.LoadTree(ctx, w.tx, a.key); err != nil {
			if fault.IsRefusal(err) { // they can still be added with another key or another copy of the database
				w.log.Warn("old entries not added to the record; they stay in the file beside the database",
					"entries", len(left), "err", err)
				return nil
			}
			return err
		}
		w.left = nil
		w.ledger.countDirect(len(left))
		begun := map[string]int64{} // positions of leaves, by record ID
		for _, r := range left {
			x := &leaf{Leaf: record.Leaf{Key: a.key, Add: &audit.Addition{}}, a: a, number: r.number}
			w.taken = append(w.taken, x)
			if err := w.leftOut(r, fault.RefuseConstraint(w.leafAgain(ctx, x, r.text, begun))); err != nil {
				return err
			}
		}
		return nil
	})
}
