package daemon

import (
	"context"
	"io"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
)

// remembered is how long the labels of a connection that outlives its process are kept.
const remembered = 30 * 24 * time.Hour

// serveConnection speaks MCP over a connection that outlives this process and may have outlived
// others. The labels of what its agent received through those processes still apply. A connection
// without a name ends with this process.
func (d *Daemon) serveConnection(ctx context.Context, c httpapi.StdioClient, in io.Reader, out io.Writer) error {
	if c.Connection == "" {
		return d.servers.mcp.Continue(ctx, in, out, mcpserver.Conversation{Profile: c.Profile})
	}
	owner, name := identity.LocalUser().ID, "connection:"+c.Connection // no session can have such a name
	labels, err := d.sessions.Labels(ctx, owner, name)
	if err != nil {
		return err
	}
	known := mcpserver.Conversation{Profile: c.Profile, Labels: labels, Relayed: c.KnowsEnd}
	known.Carries = func(labels []string) error {
		now := time.Now()
		return d.sessions.Label(context.WithoutCancel(ctx), owner, name, labels, now, now.Add(-remembered))
	}
	return d.servers.mcp.Continue(ctx, in, out, known)
}
