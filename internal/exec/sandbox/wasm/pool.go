package wasm

import (
	"os"
	"sync"
	"time"
)

const (
	// warmPages is the maximum number of private pages, of pageSize, in ready regions per image.
	warmPages = 4096
	// mostKept is how many private pages a region may keep for its next guest: about twice those of
	// a Python session after a program of 30 lines. A new page costs ten times as much as writing
	// an old one.
	mostKept = 1024
	// wanted is how many regions are prepared in advance.
	wanted = 2
	// settled is how long after the first use of a region preparation starts. A process that has
	// just started has other work, and one region, which Probe leaves.
	settled = 25 * time.Millisecond
)

// A pool keeps regions for later guests. Ready ones hold an image, with private pages where a first
// program writes: making a page private costs microseconds, and there are a hundred. The others are
// empty reservations of address space.
type pool struct {
	spare   int // maximum number of kept regions
	pagemap *os.File

	fills sync.WaitGroup

	mu      sync.Mutex
	ready   map[*image][]*region
	pages   map[*image]int // number of their private pages
	empty   []*region
	filling bool
	first   *time.Timer // starts fill; nil until a region was taken
	closed  bool
}

// take returns a region that holds img unmodified, and may grow to max bytes.
func (p *pool) take(img *image, max int) (*region, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errDriverClosed
	}
	var r *region
	if ready := p.ready[img]; len(ready) > 0 {
		r, p.ready[img] = ready[len(ready)-1], ready[:len(ready)-1]
		p.pages[img] -= int(pagesOf(r.own))
	}
	if len(p.ready[img]) == 0 && len(img.hot) > 0 && !p.filling && p.spare > 0 {
		p.filling = true
		p.begin(img)
	}
	p.mu.Unlock()
	if r != nil {
		r.setMax(max)
		return r, nil
	}
	return p.load(img, max)
}

// begin schedules fill. The caller holds mu.
func (p *pool) begin(img *image) {
	if p.first != nil {
		p.fills.Go(func() { p.fill(img) })
		return
	}
	p.fills.Add(1)
	p.first = time.AfterFunc(settled, func() {
		defer p.fills.Done()
		p.fill(img)
	})
}

// load returns a region that holds img.
func (p *pool) load(img *image, max int) (r *region, err error) {
	p.mu.Lock()
	if n := len(p.empty); n > 0 {
		r, p.empty = p.empty[n-1], p.empty[:n-1]
	}
	p.mu.Unlock()
	if r == nil {
		if r, err = newRegion(); err != nil {
			return nil, err
		}
	}
	if err := r.load(img, max); err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

// fill prepares regions until there are as many as wanted.
func (p *pool) fill(img *image) {
	for {
		p.mu.Lock()
		if p.closed || len(p.ready[img]) >= wanted {
			p.filling = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		r, err := p.load(img, img.size)
		if err == nil {
			r.warm(img.hot)
			r.own = img.hot
		}
		p.mu.Lock()
		if err != nil || p.closed { // a later take returns the error
			p.filling = false
			p.mu.Unlock()
			if err == nil {
				r.free()
			}
			return
		}
		p.ready[img] = append(p.ready[img], r)
		p.pages[img] += int(pagesOf(r.own))
		p.mu.Unlock()
	}
}

// returnRegion returns a region that held img to the pool. When it returns, the guest's data is
// gone.
func (p *pool) returnRegion(img *image, r *region) {
	p.mu.Lock()
	keep := min(mostKept, warmPages-p.pages[img])
	ready := keep > 0 && len(p.ready[img]) < p.spare
	p.mu.Unlock()
	if ready {
		if err := r.reset(img, img.size, keep, p.pagemap); err == nil {
			p.putRegion(img, r)
			return
		}
	}
	if err := r.clear(); err != nil {
		r.free()
		return
	}
	p.putRegion(nil, r)
}

// putRegion keeps a region that holds img, or nothing, if there is room for it. Regions with pages
// are taken first.
func (p *pool) putRegion(img *image, r *region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.empty)
	for _, ready := range p.ready {
		n += len(ready)
	}
	switch {
	case p.closed || n >= p.spare:
		r.free()
	case img == nil:
		p.empty = append(p.empty, r)
	case len(r.own) > 0:
		p.ready[img] = append(p.ready[img], r)
		p.pages[img] += int(pagesOf(r.own))
	default:
		p.ready[img] = append([]*region{r}, p.ready[img]...)
	}
}

// close frees the regions in the pool, and those returned later.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.first != nil && p.first.Stop() {
		p.fills.Done()
	}
	p.mu.Unlock()
	p.fills.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.empty {
		r.free()
	}
	for _, ready := range p.ready {
		for _, r := range ready {
			r.free()
		}
	}
	p.empty, p.ready = nil, nil
}

// pagesOf returns the number of pages in runs.
func pagesOf(runs []pageRun) (n uint32) {
	for _, r := range runs {
		n += r.n
	}
	return n
}
