package wasm

import "encoding/binary"

// The engine's allocator is dlmalloc, as built for wasi-libc: its heap is one sequence of chunks. A
// chunk begins with the size of the previous one if that is free, and its own size, whose low bits
// are the in-use flags of both. A free chunk continues with at most 24 bytes of links. The bytes
// after them are never read before they are written.
const (
	chunkHead  = 8
	chunkLinks = 32 // including the head
	chunkUsed  = 2
	chunkFlags = 7
	heapFoot   = 64 // the allocator's own bytes at the end of the heap
)

// freeChunks returns the free chunks of the heap that begins with the chunk at first. It returns
// none if the heap is inconsistent, because the guest has corrupted it.
func freeChunks(memory []byte, first uint32) (free []span) {
	end := uint64(len(memory))
	for p := uint64(first); p+heapFoot < end; {
		head := binary.LittleEndian.Uint32(memory[p+4:])
		size := uint64(head &^ chunkFlags)
		if size < 2*chunkHead || p+size > end {
			return nil
		}
		if head&chunkUsed == 0 {
			free = append(free, span{uint32(p), uint32(p + size)})
		}
		p += size
	}
	return free
}

// dead returns the parts of the memory whose content is unused while the guest is at rest: the
// unused stack and the insides of free chunks.
func (e *jsEngine) dead() []span {
	spans := []span{{0, e.m.StackPointer()}}
	for _, c := range freeChunks(e.m.Memory(), e.heap()) {
		if c.to-c.from > chunkLinks {
			spans = append(spans, span{c.from + chunkLinks, c.to})
		}
	}
	return spans
}

// heap returns the start of the heap: the scratch memory was allocated first.
func (e *jsEngine) heap() uint32 { return e.h.scratch - chunkHead }

// plugged is the minimum size of a free chunk that stays free in the image, in bytes.
const plugged = 32 << 10

// settle optimizes an image's heap for its guests. Each written page costs memory, so a program's
// allocations should be contiguous and not fill the holes left by booting. The holes are therefore
// allocated permanently. Unused bytes are zeroed, which packs best.
func (e *jsEngine) settle() error {
	for range 100 {
		holes := 0
		for _, c := range freeChunks(e.m.Memory(), e.heap()) {
			if size := c.to - c.from; size < plugged {
				holes++
				if e.m.WasmMalloc(size-4) == 0 {
					return errMemory
				}
			}
		}
		if holes == 0 {
			break
		}
	}
	for _, s := range e.dead() {
		clear(e.m.Memory()[s.from:s.to])
	}
	return nil
}
