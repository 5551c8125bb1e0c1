package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A busyExecution implements API with one execution, and counts how often it is read.
type busyExecution struct {
	mu      sync.Mutex
	version int
	reads   int
	ended   bool
	changed chan struct{}
}

func (*busyExecution) MayUse(tool.Principal, string) bool { return true }

// ServeHTTP answers when the version differs from the one that the client knows, or after ten
// seconds.
func (b *busyExecution) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	for {
		b.mu.Lock()
		version, changed := fmt.Sprint("v", b.version), b.changed
		over := b.ended || ctx.Err() != nil
		if over || version != r.URL.Query().Get("past") {
			d := api.ExecutionDetail{ExecutionInfo: api.ExecutionInfo{ID: "ex_1", State: api.StateRunning},
				Version: version, Program: "one()"}
			if b.ended {
				d.Ended = &time.Time{}
			}
			b.reads++
			b.mu.Unlock()
			text, _ := tool.Marshal(d)
			_, _ = w.Write(text)
			return
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			if r.Context().Err() != nil {
				return
			}
		}
	}
}

// change makes another version, and with end the last one.
func (b *busyExecution) change(end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.ended = end
	close(b.changed)
	b.changed = make(chan struct{})
}

// countReads returns how often the execution was read.
func (b *busyExecution) countReads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

// A livePages are open pages of one execution.
type livePages struct {
	b       *busyExecution
	h       http.Handler
	revoked sync.Map // keys
	work    sync.WaitGroup
}

func newLivePages() *livePages {
	p := &livePages{b: &busyExecution{changed: make(chan struct{})}}
	s := New(Config{Approvals: &fake{}})
	p.h = s.Handler(Access{API: p.b, Gate: gate(func(r *http.Request) (tool.Principal, error) {
		key := r.Header.Get("Key")
		if _, gone := p.revoked.Load(key); gone {
			return tool.Principal{}, unknown
		}
		return tool.Principal{ID: "key:" + key, Until: time.Now().Add(time.Hour)}, nil
	})})
	return p
}

// open opens a page that shows a version. Its answer is complete when p.work is done.
func (p *livePages) open(ctx context.Context, key, version string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/executions/ex_1/events?version="+version, nil)
	r.Header.Set("Key", key)
	w := httptest.NewRecorder()
	p.work.Go(func() { p.h.ServeHTTP(w, r) })
	return w
}

// TestLivePagesShareReads checks that a change is read once for all pages of a principal, and once
// more for another principal. All pages receive each version once, and the end.
func TestLivePagesShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLivePages()
		var pages []*httptest.ResponseRecorder
		for range 50 {
			pages = append(pages, p.open(t.Context(), "ann", "v0"))
		}
		pages = append(pages, p.open(t.Context(), "bob", "none"))
		for i := range 4 {
			time.Sleep(time.Minute)
			p.b.change(i == 3)
		}
		p.work.Wait()
		// In each of the four minutes, a principal's pages ask again every ten seconds.
		if p.b.countReads() > 2*(4*7+1) {
			t.Errorf("51 pages of two principals read the execution %d times, want at most 58", p.b.countReads())
		}
		for i, w := range pages {
			text := w.Body.String()
			for _, want := range []string{"id: v1\nevent: change", "id: v2\nevent: change", "id: v3\nevent: change",
				"id: v4\nevent: end", ": \n\n"} {
				if n := strings.Count(text, want); n != 1 && want != ": \n\n" || n == 0 {
					t.Errorf("page %d has %q %d times, want it once", i, want, n)
				}
			}
		}
	})
}

// TestLivePageOfOldVersion checks that a page that shows an older version gets the newest one at
// once, while others wait for the next.
func TestLivePageOfOldVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newLivePages()
		p.open(ctx, "ann", "v0")
		synctest.Wait()
		p.b.change(false)
		time.Sleep(2 * time.Second) // for the next one, the page waits past v1
		before := p.b.countReads()
		w := p.open(ctx, "ann", "none")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		cancel()
		p.work.Wait()
		if !strings.Contains(w.Body.String(), "id: v1\n") || p.b.countReads() != before {
			t.Errorf("the page received %q after %d reads, want the version v1 without any", w.Body, p.b.countReads()-before)
		}
	})
}

// TestLivePageIsClosed checks that the others go on when the page that reads for them is closed.
func TestLivePageIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newLivePages()
		p.open(ctx, "ann", "v0")
		synctest.Wait()
		w := p.open(t.Context(), "ann", "v0")
		synctest.Wait()
		cancel()
		synctest.Wait()
		p.b.change(true)
		p.work.Wait()
		if !strings.Contains(w.Body.String(), "id: v1\nevent: end") {
			t.Errorf("the page that stayed received %q, want the end", w.Body)
		}
	})
}

// TestLivePageOfRevokedKey checks that a page receives nothing once its key is revoked, also if
// another page reads for it.
func TestLivePageOfRevokedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLivePages()
		first, second := p.open(t.Context(), "ann", "v0"), p.open(t.Context(), "ann", "v0")
		synctest.Wait()
		p.revoked.Store("ann", true)
		p.b.change(false)
		p.work.Wait()
		if first.Body.Len()+second.Body.Len() > 0 {
			t.Errorf("the pages of a revoked key received %q and %q", first.Body, second.Body)
		}
	})
}

// TestKeptChanges checks that the changes which are kept for other pages are bounded together, and
// go with the last page.
func TestKeptChanges(t *testing.T) {
	var all liveViews
	var leaves []func()
	for i := range 200 {
		view, leave := all.openPage(newViewKey(fmt.Sprint(i), tool.Principal{ID: "ann"}))
		leaves = append(leaves, leave)
		for version := range 2 {
			_, r, own := all.findChange(view, fmt.Sprint(version))
			if !own {
				t.Fatalf("page %d doesn't read version %d itself", i, version)
			}
			r.change, r.err, r.took = change{version: fmt.Sprint(version + 1), event: make([]byte, 1<<20)}, nil, 1
			all.finishReading(view, r)
		}
	}
	kept := 0
	for _, view := range all.all {
		if view.newest != nil {
			kept += len(view.newest.event)
		}
	}
	if kept != keptChanges || all.kept != kept {
		t.Errorf("%d bytes are kept, and counted as %d, want %d", kept, all.kept, keptChanges)
	}
	for _, leave := range leaves {
		leave()
	}
	if all.kept != 0 || len(all.all) != 0 {
		t.Errorf("without pages, %d bytes of %d views are kept", all.kept, len(all.all))
	}
}

// TestPauseStream checks that live pages use a bounded share of a core together, and stay live.
func TestPauseStream(t *testing.T) {
	for _, c := range []struct {
		took         time.Duration
		views, pages int
		want         time.Duration
	}{
		{4 * time.Millisecond, 1, 1, shortestPause}, {4 * time.Millisecond, 1, 100, shortestPause},
		{4 * time.Millisecond, 100, 100, 16100 * time.Millisecond}, {0, 1, 1000, time.Second},
		{0, 1, 100, shortestPause}, {time.Second, 1000, 1000, longestPause},
	} {
		if got := pauseStream(c.took, c.views, c.pages); got != c.want {
			t.Errorf("after %v, with %d pages of %d views: %v, want %v", c.took, c.pages, c.views, got, c.want)
		}
	}
}
