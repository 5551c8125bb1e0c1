package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The fields of a snapshot, packed (see pack.go):
//
//	u32 size of the memory and u32 its maximum (Spec.Memory), both in pages of 64 KiB
//	u64 the clock, in milliseconds since the epoch; u32 how often it was read since it advanced
//	u32 n; n bytes of engine state (engine.state)
//	the pages that differ from the image, except dead ones (engine.dead)
//
// A snapshot depends only on the guest's state: not on how the changed pages were found, nor on the
// system's page size.

// maxState is the maximum size of an engine's state outside of the memory, in bytes.
const maxState = 64 << 10

// Snapshot returns the guest's state between two Runs, and releases memory that the guest holds
// unnecessarily. It implements sandbox.Snapshotter.
func (s *Sandbox) Snapshot(ctx context.Context) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("take a snapshot: %w", context.Cause(ctx))
	}
	if err := s.begin("snapshot", nil); err != nil {
		return nil, err
	}
	defer s.end(nil)
	img, done, err := s.d.use(s.kind)
	if err != nil {
		return nil, err
	}
	defer done()
	if s.saved != nil {
		return s.saved.joinParts(), nil
	}
	packed, runs, err := s.pack(img)
	if err != nil {
		return nil, err
	}
	s.saved = saveGuest(packed, runs, s)
	return packed, nil
}

// pack returns the packed guest and the pages that differ from the image.
func (s *Sandbox) pack(img *image) ([]byte, []pageRun, error) {
	g := s.guest
	state, err := g.engine.state()
	if err == nil && len(state) > maxState {
		err = fmt.Errorf("its engine keeps %d bytes beside the memory", len(state))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("take a snapshot: %w", err)
	}
	memory := s.region.memory()
	le := binary.LittleEndian
	fields := le.AppendUint32(nil, uint32(len(memory)/wasmPage))
	fields = le.AppendUint32(fields, uint32(s.spec.Memory/wasmPage))
	fields = le.AppendUint64(fields, uint64(g.clock))
	fields = le.AppendUint32(fields, uint32(g.readings))
	fields = append(le.AppendUint32(fields, uint32(len(state))), state...)
	pages, own := s.pages(img)
	s.region.drop(runsOf(spare(own, pages)))
	runs := runsOf(pages)
	packed, err := s.d.codec.pack(head{stateMagic, s.kind.lang.name, img.id}, zstd.SpeedFastest, fields, runs,
		s.d.codec.differences(memory, img))
	return packed, runs, err
}

// changedPages returns the live pages that differ from the image.
func (s *Sandbox) changedPages(img *image) []uint32 {
	pages, _ := s.pages(img)
	return pages
}

// pages returns the result of changed, and the parts of the memory that are private to the guest,
// if the system reports them.
func (s *Sandbox) pages(img *image) (changed []uint32, own [][2]int) {
	memory := s.region.memory()
	parts, ok := scanPages(s.d.cfg.Pagemap, memory)
	if own = parts; !ok {
		own, parts = nil, whole(memory)
	}
	return differing(memory, img.base, without(parts, s.guest.engine.dead())), own
}

// spare returns the pages of own that are not in pages. They equal the image or are dead, and still
// cost memory.
func spare(own [][2]int, pages []uint32) (idle []uint32) {
	for _, p := range own {
		for at := uint32(p[0] / pageSize); at < uint32(p[1]/pageSize); at++ {
			for len(pages) > 0 && pages[0] < at {
				pages = pages[1:]
			}
			if len(pages) == 0 || pages[0] != at {
				idle = append(idle, at)
			}
		}
	}
	return idle
}

// without returns parts minus the whole pages inside of dead. Both are sorted.
func without(parts [][2]int, dead []span) (live [][2]int) {
	for _, p := range parts {
		for len(dead) > 0 && int(dead[0].to) <= p[0] {
			dead = dead[1:]
		}
		for _, d := range dead {
			if int(d.from) >= p[1] {
				break
			}
			from, to := (int(d.from)+pageSize-1)/pageSize*pageSize, int(d.to)/pageSize*pageSize
			if from >= to || to <= p[0] || from >= p[1] {
				continue
			}
			if from > p[0] {
				live = append(live, [2]int{p[0], from})
			}
			p[0] = min(to, p[1])
		}
		if p[0] < p[1] {
			live = append(live, p)
		}
	}
	return live
}

// Restore creates a sandbox that continues where the snapshot was taken. It implements
// sandbox.Restorer.
func (d *Driver) Restore(ctx context.Context, spec sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("restore a snapshot: %w", context.Cause(ctx))
	}
	h, u, err := d.codec.openState(snapshot)
	if err != nil {
		return nil, badSnapshot(err)
	}
	defer u.close()
	if spec.Runtime != "" && spec.Runtime != h.lang {
		return nil, tool.Errorf(tool.Invalid, "restore a snapshot: it is of a guest in %.16q, not in %s", h.lang,
			spec.Runtime)
	}
	k, err := d.kind(h.lang)
	if err != nil || h.lang == "" {
		return nil, &sandbox.EngineError{Snapshot: fmt.Sprintf("%.16q %v", h.lang, h.id), Engine: "none for it"}
	}
	img, done, err := d.use(k)
	if err != nil {
		return nil, err
	}
	defer done()
	if img.id != h.id {
		return nil, &sandbox.EngineError{Snapshot: h.lang + " " + h.id.String(),
			Engine: k.lang.name + " " + img.id.String()}
	}
	size, most := int64(u.u32())*wasmPage, int64(u.u32())*wasmPage
	if u.err != nil {
		return nil, badSnapshot(u.err)
	}
	if spec.Memory != 0 && spec.Memory/wasmPage*wasmPage != most {
		return nil, tool.Errorf(tool.Invalid, "restore a snapshot: it is of a guest with %d bytes of memory, not %d",
			most, spec.Memory)
	}
	spec.Runtime, spec.Memory = h.lang, most
	if _, spec, err = d.complete(spec); err != nil {
		return nil, badSnapshot(err)
	}
	s, err := d.newSandbox(k, spec)
	if err != nil {
		return nil, &tool.Error{Kind: tool.Unavailable, Msg: "can't make a sandbox here: " + err.Error(), Err: err}
	}
	if err := s.unpack(img, u, size); err != nil {
		_ = s.Close() // never fails
		return nil, badSnapshot(err)
	}
	s.ran = true
	return s, nil
}

func badSnapshot(err error) error {
	return &tool.Error{Kind: tool.Invalid, Msg: "can't restore the snapshot: " + err.Error(), Err: err}
}

// unpack loads the contents of u, with a memory of size bytes, into a fresh sandbox.
func (s *Sandbox) unpack(img *image, u *unpacker, size int64) error {
	clock, readings := int64(u.u64()), u.u32()
	state := u.bytes(maxState)
	switch {
	case u.err != nil:
		return u.err
	case clock < bootTime || clock > maxClock || readings >= readingsPerMS:
		return errors.New("its clock is none")
	case size < int64(img.size) || size > s.spec.Memory || !s.region.grow(int(size)):
		return fmt.Errorf("there are no %d bytes of memory for it", size)
	}
	runs := u.runs(uint32(size / pageSize))
	if u.err != nil {
		return u.err
	}
	s.region.warm(runs)
	read := u.differences
	if u.old {
		read = u.xor
	}
	if err := read(runs, s.region.memory()); err != nil {
		return err
	}
	if err := u.end(); err != nil {
		return err
	}
	s.guest = newGuest(s.region, img, silentHost{})
	s.guest.clock, s.guest.readings = clock, int(readings)
	return s.guest.engine.resume(state)
}

// Fork copies the guest between two Runs. The copy of a saved guest gets memory when it first runs.
// It implements sandbox.Forker.
func (s *Sandbox) Fork(ctx context.Context) (sandbox.Sandbox, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("fork a sandbox: %w", context.Cause(ctx))
	}
	if err := s.begin("fork", nil); err != nil {
		return nil, err
	}
	defer s.end(nil)
	img, done, err := s.d.use(s.kind)
	if err != nil {
		return nil, err
	}
	defer done()
	if s.saved != nil {
		return &Sandbox{d: s.d, kind: s.kind, img: img, spec: s.spec, saved: s.saved, ran: true}, nil
	}
	c, err := s.d.newSandbox(s.kind, s.spec)
	if err != nil {
		return nil, &tool.Error{Kind: tool.Unavailable, Msg: "can't make a sandbox here: " + err.Error(), Err: err}
	}
	if s.forked == nil {
		s.forked = runsOf(s.changedPages(img))
	}
	if err := c.copy(img, s, s.forked); err != nil {
		_ = c.Close() // never fails
		return nil, fmt.Errorf("fork a sandbox: %w", err)
	}
	c.ran = true
	return c, nil
}

// copy turns c, which holds the image, into a copy of s; runs lists the pages in which s differs
// from the image.
func (c *Sandbox) copy(img *image, s *Sandbox, runs []pageRun) error {
	state, err := s.guest.engine.state()
	if err != nil {
		return err
	}
	from := s.region.memory()
	if !c.region.grow(len(from)) {
		return fmt.Errorf("there are no %d bytes of memory for it", len(from))
	}
	to := c.region.memory()
	c.region.warm(runs)
	for _, r := range runs {
		copy(to[int(r.first)*pageSize:], from[int(r.first)*pageSize:][:int(r.n)*pageSize])
	}
	c.guest = newGuest(c.region, img, silentHost{})
	c.guest.clock, c.guest.readings = s.guest.clock, s.guest.readings
	return c.guest.engine.resume(state)
}
