package traffic_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An owner is a sandbox of ann, whose connections are permitted until denied is set. They last
// until they are ended.
type owner struct {
	denied atomic.Bool
	open   chan struct{}

	mu    sync.Mutex
	notes []string
}

func (o *owner) DescribeCaller() tool.Call { return tool.Call{Principal: tool.Principal{ID: "ann"}} }

func (o *owner) KeepLabels(context.Context, []string) (bool, error) { return false, nil }

func (o *owner) AddNote(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notes = append(o.notes, text)
}

func (o *owner) ReachesHost(*tool.Call, string) bool { return true }

func (o *owner) PermitsConnection(*tool.Call) bool { return !o.denied.Load() }

func (o *owner) Call(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
	o.open <- struct{}{}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestNoLongerPermitted checks that connections under way end when they are no longer permitted,
// such as after a key was revoked, and that later connections are decided on, too.
func TestNoLongerPermitted(t *testing.T) {
	o := &owner{open: make(chan struct{})}
	n := traffic.NewTraffic(traffic.Config{Owner: o, Hosts: o, Door: o, Name: "test", CheckEach: time.Millisecond})
	for range 2 {
		o.denied.Store(false)
		ended := make(chan error)
		for range 3 {
			go func() {
				_, err := n.CallNetwork(t.Context(), "connect", json.RawMessage(`{"url":"https://a.test:8443/"}`))
				ended <- err
			}()
			<-o.open
		}
		o.denied.Store(true)
		for range 3 {
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "it is no longer permitted") {
				t.Errorf("the connection ended with %v", err)
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.notes) == 0 || !strings.HasPrefix(o.notes[0], "network: the connection to a.test:8443 was closed: ") {
		t.Errorf("the notes are %q", o.notes)
	}
}
