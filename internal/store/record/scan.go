package record

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// Limits of a scan: leaves in a batch, and batches that are ahead of the slowest reader.
const (
	batchLeaves  = 128
	batchesAhead = 8
)

// A batch is some consecutive leaves of a scan.
type batch struct {
	leaves  []audit.Leaf
	data    []byte
	hashes  []tlog.Hash
	decoded [batchLeaves]audit.Leaf // the memory of decoded leaves
	left    atomic.Int32            // readers that are not done with it
}

// addLeaf adds a copy of a leaf.
func (b *batch) addLeaf(l audit.Leaf) {
	data, hashes := len(b.data), len(b.hashes)
	b.data, b.hashes = append(b.data, l.Data...), append(b.hashes, l.Hashes...)
	l.Data, l.Hashes = b.data[data:len(b.data):len(b.data)], b.hashes[hashes:len(b.hashes):len(b.hashes)]
	b.leaves = append(b.leaves, l)
}

// decodeLeaves decodes the leaves for their readers.
func (b *batch) decodeLeaves() {
	text := string(b.data)
	for i := range b.leaves {
		l := &b.leaves[i]
		l.DecodeText(text[:len(l.Data)], &b.decoded[i])
		text = text[len(l.Data):]
	}
}

// A scan reads all leaves once for several readers, each on its own goroutine.
type scan struct {
	view    View // a copy: it unpacks while readers use the original
	ctx     context.Context
	read    chan *batch // to be decoded
	readers []chan *batch
	free    chan *batch
}

// scanLeaves calls each of some functions with all leaves, in order. It returns the first error.
// The functions run concurrently, the first one on the caller's goroutine.
func (v *View) scanLeaves(fs ...func(audit.Leaf) error) error {
	ctx, cancel := context.WithCancelCause(v.ctx)
	defer cancel(nil)
	s := &scan{view: *v, ctx: ctx, read: make(chan *batch, batchesAhead), free: make(chan *batch, batchesAhead)}
	s.view.unpacker, s.view.archive = unpacker{}, &archive{folder: v.archive.folder}
	for range batchesAhead {
		s.free <- &batch{}
	}
	for range fs {
		s.readers = append(s.readers, make(chan *batch, batchesAhead))
	}
	var wg sync.WaitGroup
	run := func(do func() error) {
		if err := do(); err != nil {
			cancel(err)
		}
	}
	wg.Go(func() { run(s.readRows) })
	wg.Go(s.decodeBatches)
	for i, f := range fs[1:] {
		wg.Go(func() { run(func() error { return s.callEach(s.readers[i+1], f) }) })
	}
	run(func() error { return s.callEach(s.readers[0], fs[0]) })
	wg.Wait()
	return context.Cause(ctx)
}

// errStopped ends the query of a scan whose reader failed.
var errStopped = errors.New("the scan was stopped")

// readRows reads the rows, and passes them on in batches.
func (s *scan) readRows() error {
	defer close(s.read)
	b := <-s.free
	err := s.view.eachRow(`SELECT seq, hashes, leaf, packed FROM audit_leaf ORDER BY seq`,
		func(scan func(...any) error) error {
			var r leafRow
			if err := scan(&r.seq, &r.hashes, &r.leaf, &r.packed); err != nil {
				return s.view.translateError(err)
			}
			b.addLeaf(s.view.readLeaf(&r))
			if len(b.leaves) < batchLeaves {
				return nil
			}
			s.read <- b
			select {
			case b = <-s.free:
				return nil
			case <-s.ctx.Done():
				return errStopped
			}
		})
	if err == nil {
		s.read <- b
	}
	return err
}

// decodeBatches decodes batches, and passes them to all readers. All channels have room for all
// batches.
func (s *scan) decodeBatches() {
	for b := range s.read {
		b.decodeLeaves()
		b.left.Store(int32(len(s.readers)))
		for _, r := range s.readers {
			r <- b
		}
	}
	for _, r := range s.readers {
		close(r)
	}
}

// callEach calls f with the leaves of all batches.
func (s *scan) callEach(batches <-chan *batch, f func(audit.Leaf) error) error {
	for b := range batches {
		for _, l := range b.leaves {
			if err := f(l); err != nil {
				return err
			}
		}
		if b.left.Add(-1) == 0 {
			b.leaves, b.data, b.hashes = b.leaves[:0], b.data[:0], b.hashes[:0]
			s.free <- b
		}
	}
	return nil
}
