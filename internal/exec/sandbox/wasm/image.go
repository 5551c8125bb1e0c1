package wasm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// bootMemory is the maximum memory for creating an image, in bytes.
	bootMemory = 128 << 20
	// bootPatience is how long creating an image may take.
	bootPatience = time.Minute
	// bootTime is the clock while an image is created, in milliseconds since the epoch: 2026-01-01.
	// It is fixed so that the image is always the same.
	bootTime = 1767225600000
)

// An image is the memory of a guest that has booted and evaluated the prelude. Every guest of a
// language starts with it.
type image struct {
	lang    language
	id      identity
	size    int       // bytes
	words   []uint32  // the engine's handles into it
	version string    // version of the engine
	hot     []pageRun // pages that a first program writes to

	file *imageFile
	base []byte // the file, mapped for reading
}

// bootImage boots the engine of lang and evaluates the guest's side of the protocol.
func bootImage(lang language) (img *image, err error) {
	r, err := newRegion()
	if err != nil {
		return nil, err
	}
	defer r.free()
	defer func() {
		if err != nil {
			err = fmt.Errorf("boot the embedded engine for %s: %w", lang.name, err)
		}
	}()
	r.setMax(bootMemory)
	g := &guest{region: r, host: booter{until: time.Now().Add(bootPatience)}, clock: bootTime,
		random: rand.NewChaCha8([32]byte{})}
	img = &image{lang: lang}
	err = g.enter(func() (err error) {
		img.words, img.version, err = lang.bootEngine(g, lang.bootSource())
		return err
	})
	if err != nil {
		return nil, err
	}
	b := r.memory()
	img.size, img.id = len(b), identify(lang, img, b)
	return img, img.keep(runsOf(differing(b, nil, whole(b))),
		func(use func(b []byte, page uint32) error, runs []pageRun) error {
			for _, r := range runs {
				if err := use(b[int(r.first)*pageSize:][:int(r.n)*pageSize], r.first); err != nil {
					return err
				}
			}
			return nil
		})
}

// identify returns the identity of an engine's build: a hash of everything that determines the
// guest's behavior.
func identify(lang language, img *image, memory []byte) identity {
	h := sha256.New()
	fmt.Fprintf(h, "biplane engine 1\n%s\n%s\n%x\n%s\n%d\n%d\n", lang.name, lang.module,
		sha256.Sum256([]byte(lang.bootSource())), img.version, img.words, len(memory))
	_, _ = h.Write(memory) // never fails
	return identity(h.Sum(nil))
}

// keep creates the image's file; each passes the bytes of runs to its callback.
func (i *image) keep(runs []pageRun, each func(use func(b []byte, page uint32) error, runs []pageRun) error) error {
	f, err := newImageFile(i.size)
	if err != nil {
		return err
	}
	if err = each(f.write, runs); err == nil {
		err = f.seal()
	}
	if err == nil {
		i.base, err = f.view()
	}
	if err != nil {
		f.close()
		return fmt.Errorf("keep the image in a %s: %w", f.kind, err)
	}
	i.file = f
	return nil
}

// close releases the image's memory. Guests that map it keep their view, but can no longer be
// snapshotted.
func (i *image) close() {
	i.file.close()
	unmap(i.base)
}

// at returns at most n bytes of the image, starting at a page; fewer, or none, at its end.
func (i *image) at(page uint32, n int) []byte {
	off := min(int(page)*pageSize, i.size)
	return i.base[off:min(off+n, i.size)]
}

// unpackImage unpacks the golden image of lang.
func unpackImage(c *codec, lang language) (*image, error) {
	h, u, err := c.open(lang.golden, lang.magic())
	if err != nil {
		return nil, fmt.Errorf("unpack the embedded engine for %s: %w", lang.name, err)
	}
	defer u.close()
	i := &image{lang: lang, id: h.id}
	pages := u.u32()
	if pages > bootMemory/wasmPage || h.lang != lang.name {
		return nil, fmt.Errorf("unpack the embedded engine for %s: it is another's", lang.name)
	}
	i.size = int(pages) * wasmPage
	i.version = string(u.bytes(64))
	words := u.bytes(1 << 10)
	for k := 0; k+4 <= len(words); k += 4 {
		i.words = append(i.words, binary.LittleEndian.Uint32(words[k:]))
	}
	i.hot = u.runs(uint32(i.size / pageSize))
	runs := u.runs(uint32(i.size / pageSize))
	if u.err == nil {
		u.err = i.keep(runs, func(use func([]byte, uint32) error, runs []pageRun) error {
			return u.decodePages(runs, use)
		})
	}
	if err := u.end(); err != nil {
		if i.file != nil {
			i.close()
		}
		return nil, fmt.Errorf("unpack the embedded engine for %s: %w", lang.name, err)
	}
	return i, nil
}

// differing returns the pages in which b differs from base, which is extended with zeros, among
// parts of b.
func differing(b []byte, base []byte, parts [][2]int) (pages []uint32) {
	var zero [pageSize]byte
	for _, p := range parts {
		for at := p[0] / pageSize * pageSize; at < p[1]; at += pageSize {
			old := zero[:]
			if at < len(base) {
				old = base[at : at+pageSize]
			}
			if !bytes.Equal(b[at:at+pageSize], old) {
				pages = append(pages, uint32(at/pageSize))
			}
		}
	}
	return pages
}

// whole returns all of b as one part.
func whole(b []byte) [][2]int { return [][2]int{{0, len(b)}} }

// A booter is the host of the guest that becomes the image.
type booter struct{ until time.Time }

func (b booter) interrupted() bool       { return time.Now().After(b.until) }
func (booter) write([]byte)              {}
func (booter) ask([]byte) (string, bool) { return "", false }
