package wasm

import "encoding/binary"

// The engine's allocator is dlmalloc, in wasi-libc's build: its heap is one row of chunks. A chunk begins with the size of
// the one before it where that is free, and its own size, whose low bits say whether it and the one before are in use. A
// free chunk then has at most 24 bytes of links; what is behind them is never read before it is written.
const (
	chunkHead  = 8
	chunkLinks = 32 // with the head
	chunkUsed  = 2
	chunkFlags = 7
	heapFoot   = 64 // the last bytes of the heap are the allocator's
)

// freeChunks gives the chunks that are free in the heap which begins with the chunk at first. It gives none when the
// heap makes no sense: then the guest has destroyed it.
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

// dead gives the parts of the memory whose content means nothing while the guest is at rest: the unused stack and the
// insides of free chunks.
func (e *jsEngine) dead() []span {
	spans := []span{{0, e.m.StackPointer()}}
	for _, c := range freeChunks(e.m.Memory(), e.heap()) {
		if c.to-c.from > chunkLinks {
			spans = append(spans, span{c.from + chunkLinks, c.to})
		}
	}
	return spans
}

// heap is where the heap begins: the scratch memory was the first thing allocated.
func (e *jsEngine) heap() uint32 { return e.h.scratch - chunkHead }

// plugged is the size from which a free chunk of the image stays free, in bytes.
const plugged = 32 << 10

// settle makes the heap of an image what is best for those who map it. What a program allocates is to lie together
// rather than in every hole that booting left, since each page that is written to costs; so the holes are allocated, for
// ever. And what means nothing is to be zero, which packs best.
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
