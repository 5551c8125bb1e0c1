package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/tool"
)

func target(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	return u
}

// server responds with the request that it received.
func server(t *testing.T) (s *httptest.Server, hits *int) {
	hits = new(int)
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*hits++
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		case "/large":
			io.Copy(w, io.LimitReader(zeros{}, egress.MaxBody+1))
		default:
			body, _ := io.ReadAll(r.Body)
			w.Header().Add("X-Two", "a")
			w.Header().Add("X-Two", "b")
			fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-Mine"),
				r.Header.Get("User-Agent"), body)
		}
	}))
	t.Cleanup(s.Close)
	return s, hits
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func TestRequest(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	s, _ := server(t)
	c := egress.New(egress.Config{Private: loopback, Version: "1"})
	defer c.Close()
	r, err := c.Do(t.Context(), egress.Request{Method: "POST", URL: target(t, s.URL+"/a?b=1"),
		Header: map[string]string{"X-Mine": "x"}, Body: []byte("body")})
	if err != nil || r.Status != 200 || string(r.Body) != "POST /a?b=1 x biplane/1 body" ||
		r.Headers["x-two"] != "a, b" {
		t.Fatalf("r = %+v, err = %v", r, err)
	}
	if r, err = c.Do(t.Context(), egress.Request{Method: "GET", URL: target(t, s.URL+"/away")}); err != nil ||
		r.Status != 302 || r.Headers["location"] != "http://127.0.0.1:1/" {
		t.Errorf("a redirect: %+v, %v", r, err)
	}
	if _, err = c.Do(t.Context(), egress.Request{Method: "GET", URL: target(t, s.URL+"/large")}); err == nil ||
		tool.AsError(err).Kind != tool.Limit {
		t.Errorf("too large: %v", err)
	}
}

func TestHeadersOfTheConnectionAreRefused(t *testing.T) {
	s, hits := server(t)
	c := egress.New(egress.Config{Private: loopback})
	defer c.Close()
	for _, name := range []string{"Host", "hOsT", "Connection", "Transfer-Encoding", "Content-Length",
		"Proxy-Authorization", "Sec-Fetch-Site", "bad name", "X\r\nY", ""} {
		_, err := c.Do(t.Context(),
			egress.Request{Method: "GET", URL: target(t, s.URL), Header: map[string]string{name: "x"}})
		if err == nil || !tool.AsError(err).Unsent {
			t.Errorf("%q, err = %v, want err != nil && tool.AsError(err).Unsent", name, err)
		}
	}
	if _, err := c.Do(t.Context(), egress.Request{Method: "GET", URL: target(t, s.URL),
		Header: map[string]string{"X": "a\r\nHost: b"}}); err == nil {
		t.Error("a value with a line break was sent")
	}
	if *hits != 0 {
		t.Errorf("%d requests were sent", *hits)
	}
}

// TestOnlyPublicAddresses tests addresses of this machine, its network and cloud metadata services,
// directly and by name.
func TestOnlyPublicAddresses(t *testing.T) {
	s, hits := server(t)
	port := s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	for _, addr := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "100.64.0.1", "169.254.169.254", "172.31.255.255",
		"192.168.1.1", "192.0.0.8", "198.18.0.1", "168.63.129.16", "8.8.8.8", "2606:4700::1111", "224.0.0.1",
		"255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
		"2002:7f00:1::", "2001::1", "2001:db8::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
		"100::1", "5f00::1",
	} {
		c := egress.New(egress.Config{Network: &network{host: netip.MustParseAddr(addr), own: []net.Addr{ // public ones
			&net.IPNet{IP: net.IPv4(8, 8, 8, 8), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2606:4700::1111"), Mask: net.CIDRMask(64, 128)}}}})
		for _, host := range []string{"innocent.example", netip.MustParseAddr(addr).String()} {
			if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
			_, err := c.Do(t.Context(), egress.Request{Method: "GET", URL: target(t, "http://"+host+":"+port)})
			if e := tool.AsError(err); err == nil || e.Kind != tool.Denied || !e.Unsent {
				t.Errorf("%s as %s: %v", addr, host, err)
			}
		}
		c.Close()
	}
	if *hits != 0 {
		t.Errorf("%d requests were sent", *hits)
	}
}

// A network is an egress.Network in which every name has the same address.
type network struct {
	host    netip.Addr
	err     error // of lookups
	own     []net.Addr
	lookups int
}

func (n *network) LookupHost(context.Context, string) ([]netip.Addr, error) {
	n.lookups++
	if n.err != nil {
		return nil, n.err
	}
	return []netip.Addr{n.host}, nil
}

func (n *network) OwnAddresses() ([]net.Addr, error) { return n.own, nil }

// TestRebinding checks that a name is looked up once: the address that is dialed is the one that
// was checked.
func TestRebinding(t *testing.T) {
	s, hits := server(t)
	one := &network{host: netip.MustParseAddr("127.0.0.1")}
	c := egress.New(egress.Config{Network: one})
	defer c.Close()
	u := target(t, s.URL)
	u.Host = "rebinding.example:" + u.Port()
	_, err := c.Do(t.Context(), egress.Request{Method: "GET", URL: u})
	if err == nil || one.lookups != 1 || *hits != 0 {
		t.Errorf("%v after %d lookups, %d requests", err, one.lookups, *hits)
	}
}

// Errors for programs contain no address of this machine, of its resolver or of hosts.
func TestErrorsWithoutAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	_, closed, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	server := func(answer func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("net.Listen: %v", err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				answer(c)
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		return port
	}
	hangsUp := server(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096)) // read the whole request: otherwise the connection is reset
		c.Close()
	})
	resets := server(func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_, _ = c.Read(make([]byte, 1))
		c.Close()
	})
	loop := &network{host: netip.MustParseAddr("127.0.0.1")}
	lookup := func(e *net.DNSError) *network { return &network{err: e} }
	for _, c := range []struct {
		port, want string
		network    *network
	}{
		{"80", `GET api.example:80: the host name "api.example" is unknown: check the URL`,
			lookup(&net.DNSError{Err: "no such host", Name: "api.example", Server: "10.1.2.3:53", IsNotFound: true})},
		{"80", `GET api.example:80: the host name "api.example" could not be looked up: try again later`,
			lookup(&net.DNSError{Err: "read udp 10.9.9.9:4444->10.1.2.3:53: i/o timeout", Name: "api.example",
				Server: "10.1.2.3:53", IsTimeout: true})},
		{closed, "GET api.example:" + closed + ": connection refused", loop},
		{hangsUp, "GET api.example:" + hangsUp + ": the server closed the connection before its answer was complete",
			loop},
		{resets, "GET api.example:" + resets + ": connection reset by peer", loop},
	} {
		client := egress.New(egress.Config{Network: c.network,
			Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
		_, err := client.Do(t.Context(), egress.Request{Method: "GET", URL: target(t, "http://api.example:"+c.port)})
		if err == nil || tool.AsError(err).Msg != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
		client.Close()
	}
}

// A principal with the maximum number of requests to a host, and more that wait, leaves room for
// another's.
func TestAHostIsShared(t *testing.T) {
	const most = 32
	come, hold := make(chan struct{}, 100), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			come <- struct{}{}
			<-hold
		}
	}))
	defer s.Close()
	c := egress.New(egress.Config{Private: loopback})
	defer c.Close()
	ended := make(chan error, 2*most)
	for range 2 * most {
		go func() {
			_, err := c.Do(t.Context(), egress.Request{Principal: "eve", Method: "GET", URL: target(t, s.URL+"/slow")})
			ended <- err
		}()
	}
	for range most {
		<-come
	}
	if r, err := c.Do(t.Context(),
		egress.Request{Principal: "ann", Method: "GET", URL: target(t, s.URL+"/quick")}); err != nil ||
		r.Status != 200 {
		t.Errorf("ann's request: %+v, %v", r, err)
	}
	if len(come) != 0 {
		t.Errorf("eve has %d requests under way, want %d", most+len(come), most)
	}
	close(hold)
	for range 2 * most {
		if err := <-ended; err != nil {
			t.Errorf("err = %v, want nil", err)
		}
	}
}
