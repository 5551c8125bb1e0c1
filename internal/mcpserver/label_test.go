package mcpserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/biplane-dev/biplane/internal/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// What came over a connection is told with each later call of it, and of no other. A request of
// 2026-07-28 over HTTP is a connection of its own.
func TestConnectionsCarryLabels(t *testing.T) {
	d := newDoor()
	d.handle("up.echo", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		saw := fmt.Sprintf("saw %v", c.Labels)
		return tool.Text(false, saw), c.Carries([]string{"pii"})
	})
	peers(t, config(d, mcpserver.Direct), func(t *testing.T, p peer, version string) {
		const params = `{"name":"up_echo","arguments":{}}`
		for i, want := range []string{"saw []", "saw [pii]"} {
			if _, http := p.(*httpPeer); http && version >= "2026-07-28" {
				want = "saw []"
			}
			res, _ := p.call(t, "tools/call", params)
			if got := string(fieldOf(t, res, "result", "content")); got != fmt.Sprintf(`[{"type":"text","text":%q}]`, want) {
				t.Errorf("call %d: %s, want %s", i, res, want)
			}
		}
	})
}
