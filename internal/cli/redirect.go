package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// credentialVariable names the environment variable with the API key or access token for a Biplane
// on the network.
const credentialVariable = "BIPLANE_API_KEY"

// serverClient returns a client of a Biplane on the network. The credential is sent over TLS, or to
// this machine.
func serverClient(address, credential string) (*api.Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http":
		return nil, usageError("--server %q must be like https://biplane.example.com", address)
	case u.Scheme == "http" && !isThisMachine(u.Hostname()):
		return nil, usageError("--server %q: the credential would travel unencrypted; use https", address)
	case credential == "":
		return nil, usageError("set %s to your API key or access token for %s", credentialVariable, u.Host)
	}
	return &api.Client{Base: u.String(), HTTP: &http.Client{Transport: credentialed(credential),
		// a redirect could lead the credential elsewhere
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func isThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// credentialed sends requests with a credential.
type credentialed string

// RoundTrip implements http.RoundTripper.
func (c credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(c))
	return http.DefaultTransport.RoundTrip(r)
}

// A redirectListener receives the browser after a sign-in, on a port of this machine. The nil
// redirectListener has no port.
type redirectListener struct {
	listener net.Listener
	server   *http.Server
	wg       sync.WaitGroup
}

// listenRedirect listens on a port; 0: any. It sends the addresses at which the browser arrives to
// to. It returns nil if it can't listen: the user then pastes the address.
func listenRedirect(ctx context.Context, port int, to chan<- string) *redirectListener {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil
	}
	own := l.Addr().String()
	r := &redirectListener{listener: l, server: &http.Server{ReadTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Referrer-Policy", "no-referrer")
			if q.Method != http.MethodGet || q.URL.Path != "/callback" || q.Host != own {
				http.NotFound(w, q)
				return
			}
			select {
			case to <- "http://" + own + q.URL.RequestURI():
				fmt.Fprintln(w, "Go back to the terminal: it says whether you are signed in.")
			default: // the previous one was not handled yet
				http.Error(w, "busy: open the address again", http.StatusServiceUnavailable)
			}
		})}}
	r.wg.Go(func() { _ = r.server.Serve(l) }) // it ends with stopListening
	return r
}

// portNumber returns the port, or 0 if there is none.
func (r *redirectListener) portNumber() int {
	if r == nil {
		return 0
	}
	return redirectPort("http://" + r.listener.Addr().String())
}

// stopListening closes the port. It lets a response in progress complete.
func (r *redirectListener) stopListening() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		_ = r.server.Close()
	}
	r.wg.Wait()
}

// redirectPort returns the port in an address, or 0 if there is none.
func redirectPort(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0
	}
	return port
}
