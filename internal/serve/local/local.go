// Package local connects the processes of one user to the process that owns a data folder. They use
// a Unix socket in that folder. Within the owning process, no socket is needed.
package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/serve/relay"
)

// patience is how long the owner of the data folder may take to respond.
const patience = 10 * time.Second

// StoppingHeader names the header of answers to requests that were refused because the process is
// stopping.
const StoppingHeader = "Biplane-Stopping"

// Client returns a client of the API over the socket in a data folder.
func Client(folder string) *api.Client {
	return &api.Client{Base: "http://localhost", HTTP: &http.Client{Transport: Transport(folder)}}
}

// Transport returns a transport of requests over the socket in a data folder.
func Transport(folder string) http.RoundTripper {
	return &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, folder) },
		DisableKeepAlives:     true, // leave no connection that would have to be closed
		ExpectContinueTimeout: patience,
	}
}

// A halfCloser is a connection that can be closed for writing.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// A backend is a connection whose first bytes may have been read into r.
type backend struct {
	halfCloser
	r io.Reader
}

// Read reads from the connection.
func (b *backend) Read(p []byte) (int, error) { return b.r.Read(p) }

// DialStdio opens a connection, with a name, to the owner of the data folder. An agent can use it
// like stdio. profile may be empty.
func DialStdio(ctx context.Context, folder, name, profile string) (relay.Backend, error) {
	conn, err := Dial(ctx, folder)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		conn.Close()
		return nil, err
	}
	_, err = io.WriteString(conn, "GET /mcp/stdio HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "+
		api.StdioProtocol+"\r\n"+api.ConnectionHeader+": "+name+"\r\n"+api.ProfileHeader+": "+profile+"\r\n"+
		api.EndHeader+": lines\r\n\r\n")
	if err != nil {
		conn.Close()
		return nil, err
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		conn.Close()
		return nil, fmt.Errorf("biplane answered %s", resp.Status)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, err
	}
	half, ok := conn.(halfCloser)
	if !ok {
		conn.Close()
		return nil, errors.New("the socket can't be closed for writing")
	}
	return &backend{half, r}, nil
}
