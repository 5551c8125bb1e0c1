package wasm

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// bootMemory bounds the memory in which an image is made, in bytes.
	bootMemory = 64 << 20
	// bootPatience is how long it may take.
	bootPatience = time.Minute
	// bootTime is what the clock shows while an image is made, in milliseconds since the epoch, so that the image is
	// the same every time: 2026-01-01.
	bootTime = 1767225600000
)

// An image is the memory of a guest that has booted and evaluated the prelude: what every guest of a language begins with.
type image struct {
	lang    language
	file    *imageFile
	size    int      // bytes
	words   []uint32 // what the engine knows of it
	version string   // of the engine
}

// bootImage boots the engine of lang and evaluates its guest's side of the protocol.
func bootImage(lang language, source string) (img *image, err error) {
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
	g := &guest{region: r, host: booter{until: time.Now().Add(bootPatience)}, clock: bootTime, random: rand.NewChaCha8([32]byte{})}
	img = &image{lang: lang}
	err = g.enter(func() (err error) {
		img.words, img.version, err = lang.boot(g, source)
		return err
	})
	if err != nil {
		return nil, err
	}
	b := r.memory()
	img.size = len(b)
	img.file, err = newImageFile(b)
	return img, err
}

// close gives the image's memory back; guests that map it keep their own view.
func (i *image) close() { i.file.close() }

// A booter is the outside of the guest of which the image is made.
type booter struct{ until time.Time }

func (b booter) interrupted() bool                   { return time.Now().After(b.until) }
func (booter) write(int, func() string)              {}
func (booter) ask(int, func() string) (string, bool) { return "", false }
