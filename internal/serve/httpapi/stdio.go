package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A StdioClient is the client of a connection.
type StdioClient struct {
	Connection string // name of the connection (see api.ConnectionHeader); may be empty
	Profile    string // empty: none
	KnowsEnd   bool   // it understands api.StdioEnd
}

// Stdio speaks MCP as over stdio, until one side closes the connection.
type Stdio interface {
	ServeConnection(ctx context.Context, c StdioClient, rw io.ReadWriteCloser) error
}

// hijackStdio hijacks the connection, and speaks MCP on it until one side closes it.
func (s *Server) hijackStdio(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Stdio == nil || !strings.EqualFold(r.Header.Get("Upgrade"), api.StdioProtocol) {
		writeError(w, tool.Errorf(tool.Invalid, "this route is for `biplane mcp`: it requires the header Upgrade: %s",
			api.StdioProtocol))
		return
	}
	c := StdioClient{r.Header.Get(api.ConnectionHeader), r.Header.Get(api.ProfileHeader),
		r.Header.Get(api.EndHeader) != ""}
	if len(c.Connection) > 64 {
		writeError(w, tool.Errorf(tool.Invalid, "the header %s is too long", api.ConnectionHeader))
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		writeError(w, tool.Errorf(tool.Unavailable, "biplane is shutting down"))
		return
	}
	s.taken.Add(1)
	s.mu.Unlock()
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.taken.Done()
		writeError(w, tool.Errorf(tool.Internal, "this connection can't be taken over: %w", err))
		return
	}
	go s.serveStdio(conn, buf, c)
}

func (s *Server) serveStdio(conn net.Conn, buf *bufio.ReadWriter, c StdioClient) {
	defer s.taken.Done()
	defer conn.Close()
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
		api.StdioProtocol+"\r\n\r\n"); err != nil {
		return
	}
	if err := s.cfg.Stdio.ServeConnection(s.ctx, c, connection{buf, conn}); err != nil && s.ctx.Err() == nil {
		s.log.Warn("mcp connection failed", "err", err)
	}
}

// A connection reads what was buffered before the hijack, then the rest.
type connection struct {
	r io.Reader
	net.Conn
}

// Read reads from the buffer first.
func (c connection) Read(b []byte) (int, error) { return c.r.Read(b) }
