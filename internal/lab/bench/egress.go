package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A freeTraffic permits every connection, at once and unrecorded.
type freeTraffic struct{ client *egress.Client }

func (freeTraffic) ReachesHost(string) bool                { return true }
func (freeTraffic) PermitsConnection(json.RawMessage) bool { return true }
func (freeTraffic) AddNote(string)                         {}

func (f freeTraffic) CallNetwork(ctx context.Context, _ string, arguments json.RawMessage) (*tool.Result, error) {
	var a struct{ URL string }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, err
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	return egress.ExchangeFrom(ctx).MakeExchange(ctx, f.client, u)
}

// requestLoop sends requests over one connection, one after the other. Its value is the mean time
// of one, in milliseconds.
const requestLoop = `import socket, time
s = socket.create_connection(("127.0.0.1", 3128))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
request = b"GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n"
def send(n):
    for _ in range(n):
        s.sendall(request)
        answer = b""
        while not answer.endswith(b"\r\n\r\nok"):
            answer += s.recv(4096)
send(20)
began = time.perf_counter()
send(%[2]d)
(time.perf_counter() - began) / %[2]d * 1000`

// measureEgress measures what the way out of a process sandbox adds to a request to a server on
// this machine.
func (r processRunner) measureEgress(ctx context.Context) (took []time.Duration, err error) {
	const requests = 300
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok") // the client notices
	})}
	go func() { _ = server.Serve(l) }() // it ends when the server is closed
	defer server.Close()
	d, err := process.New(process.Config{Network: network.NewNetwork(network.Config{})})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	box, err := d.Create(ctx, sandbox.Spec{Runtime: "python"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	client := egress.New(egress.Config{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	defer client.Close()
	p, err := prepareProgram("py", fmt.Sprintf(requestLoop, l.Addr(), requests))
	if err != nil {
		return nil, err
	}
	return collectDurations(ctx, r.countRounds(5), func() (time.Duration, error) {
		direct, err := timeDirect(l.Addr().String(), requests)
		if err != nil {
			return 0, err
		}
		value, _, err := runWithTraffic(ctx, box, p, freeTraffic{client})
		if err != nil {
			return 0, err
		}
		var ms float64
		if err := json.Unmarshal([]byte(value), &ms); err != nil {
			return 0, fmt.Errorf("the program's value is %s: %w", value, err)
		}
		return time.Duration(ms*float64(time.Millisecond)) - direct, nil
	})
}

// timeDirect returns the mean time of a request over one connection.
func timeDirect(address string, requests int) (time.Duration, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	b := make([]byte, 4096)
	began := time.Now()
	for range requests {
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
			return 0, err
		}
		for answer := ""; !strings.HasSuffix(answer, "\r\n\r\nok"); {
			n, err := c.Read(b)
			if err != nil {
				return 0, err
			}
			answer += string(b[:n])
		}
	}
	return time.Since(began) / time.Duration(requests), nil
}
