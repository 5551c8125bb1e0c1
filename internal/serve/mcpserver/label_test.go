package mcpserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestConnectionsCarryLabels checks that the labels of data sent over a connection are passed with
// each later call on it, and on no other connection. A 2026-07-28 request over HTTP is its own
// connection.
func TestConnectionsCarryLabels(t *testing.T) {
	d := newDoor()
	d.handle("up.echo", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		saw := fmt.Sprintf("saw %v", c.Labels)
		return tool.Text(false, saw), c.Observe().OnLabels([]string{"pii"})
	})
	peers(t, config(d, mcpserver.Direct), func(t *testing.T, p peer, version string) {
		const params = `{"name":"up_echo","arguments":{}}`
		for i, want := range []string{"saw []", "saw [pii]"} {
			if _, http := p.(*httpPeer); http && version >= "2026-07-28" {
				want = "saw []"
			}
			res, _ := p.call(t, "tools/call", params)
			if got := string(fieldOf(t, res, "result", "content")); got != fmt.Sprintf(`[{"type":"text","text":%q}]`,
				want) {
				t.Errorf("call %d: %s, want %s", i, res, want)
			}
		}
	})
}
