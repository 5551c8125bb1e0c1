//go:build linux

package hosted_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/hosted"
	"github.com/biplane-dev/biplane/internal/exec/owned"
)

// A smallHost is a host whose memory is scarce for some looks at it.
type smallHost struct{ looks atomic.Int64 }

func (h *smallHost) AvailableMemory() int64 {
	if h.looks.Add(-1) >= 0 {
		return 0
	}
	return 1 << 40
}

// TestScarceMemory checks that frozen servers first lose their memory and then end as it gets
// scarce, the one that was unused for longest first. A server in use, and one whose files would end
// with it, stay.
func TestScarceMemory(t *testing.T) {
	d, host := newDriver(t), &smallHost{}
	m := hosted.NewMemory(owned.Limits{}, host)
	begin := func(folder string) *peer {
		return startPeer(t, hosted.Config{Driver: d, Memory: m, Folder: folder, Limits: hosted.Limits{Standby: -1}},
			"echo kept > file; "+echo)
	}
	folder := t.TempDir()
	first, second := begin(folder), begin(t.TempDir())
	passing, busy := begin(""), begin(t.TempDir())
	for _, p := range []*peer{first, second, passing, busy} {
		p.ask("hello")
	}
	release, err := busy.UseServer(t.Context())
	if err != nil {
		t.Fatalf("UseServer: %v", err)
	}
	defer release()
	for _, p := range []*peer{first, second, passing, busy} {
		p.FreezeIdle()
	}
	states := func() string {
		var all []string
		for _, p := range []*peer{first, second, passing, busy} {
			all = append(all, string(p.CurrentState()))
		}
		return strings.Join(all, " ")
	}
	for _, c := range []struct {
		looks int64
		want  string
	}{
		{0, "frozen frozen frozen running"},
		{1, "reclaimed frozen frozen running"},
		{4, "stopped reclaimed reclaimed running"},
		{1000, "stopped stopped reclaimed running"},
	} {
		host.looks.Store(c.looks)
		if m.RelieveMemory(); states() != c.want {
			t.Errorf("scarce for %d looks: %s, want %s", c.looks, states(), c.want)
		}
	}
	how, rests := first.DescribeEnd()
	if !rests || !strings.HasPrefix(how, "was ended: memory was scarce") {
		t.Errorf("the first server %s; it rests: %v", how, rests)
	}
	if b, err := os.ReadFile(filepath.Join(folder, "file")); string(b) != "kept\n" {
		t.Errorf("its file has %q, %v", b, err)
	}
	if got := passing.ask("again"); got != "got again" || passing.CurrentState() != owned.Idle {
		t.Errorf("a reclaimed server answers %q, and is %s", got, passing.CurrentState())
	}
	second.stop(time.Minute) // it may be called after the end
}
