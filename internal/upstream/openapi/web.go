package openapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/tool"
)

const maxRedirects = 5

// errPrivate means that a host has no public address, and the configuration doesn't name it.
var errPrivate = tool.NotSent(tool.Errorf(tool.Denied, "the host has no public address: to use a server in a private "+
	"network, set server in the configuration"))

// A web has two clients: one for hosts that the configuration names, and one for hosts that only a
// document or a redirect names, which reaches public addresses only. Neither follows redirects.
type web struct {
	trusted *http.Client
	guarded *http.Client
}

func newWeb() *web {
	w := &web{trusted: newClient(), guarded: newClient()}
	t := w.guarded.Transport.(*http.Transport)
	t.Proxy = nil // the proxy would resolve names
	t.DialContext = dialPublic
	return w
}

func newClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    maxAtOnce,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

func (w *web) clientFor(trusted bool) *http.Client {
	if trusted {
		return w.trusted
	}
	return w.guarded
}

func (w *web) closeIdle() {
	w.trusted.CloseIdleConnections()
	w.guarded.CloseIdleConnections()
}

// dialPublic resolves a host once, and connects to one of its public addresses.
func dialPublic(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	last := errPrivate
	for _, a := range addrs {
		if !netaddr.IsPublic(a) || isOwn(a) {
			continue
		}
		var conn net.Conn
		if conn, last = d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); last == nil {
			return conn, nil
		}
	}
	return nil, last
}

// isOwn reports whether an address belongs to this machine, where servers may trust local clients.
// It returns true if that can't be determined.
func isOwn(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(one net.Addr) bool {
		p, err := netip.ParsePrefix(one.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a.Unmap()
	})
}

// A fileSource reads a document and its files below a folder.
type fileSource struct{ folder string }

func (s fileSource) readFile(_ context.Context, name string, most int) ([]byte, error) {
	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return readAtMost(f, most)
}

func readAtMost(r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("the document and its files have more than %d MiB", maxDocument>>20)
	}
	return text, err
}

// A webSource reads a document and its files below the folder of a URL.
type webSource struct {
	web  *web
	url  *url.URL
	name string // of the document
}

func (s webSource) readFile(ctx context.Context, name string, most int) ([]byte, error) {
	u := *s.url
	if name != s.name {
		u.Path, u.RawPath, u.RawQuery = path.Join(path.Dir(s.url.Path), name), "", ""
	}
	at := &u
	for range maxRedirects {
		resp, err := s.getURL(ctx, at)
		if err != nil {
			return nil, err
		}
		location := resp.Header.Get("Location")
		if resp.StatusCode/100 == 3 && location != "" {
			_ = resp.Body.Close()
			next, err := at.Parse(location)
			if err != nil || next.Scheme != "https" && next.Scheme != at.Scheme {
				return nil, fmt.Errorf("it redirects to %q: not followed", clipText(location))
			}
			at = next
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answered %d %s", at.Host, resp.StatusCode, http.StatusText(resp.StatusCode))
		}
		return readAtMost(resp.Body, most)
	}
	return nil, errors.New("it redirects too often")
}

func (s webSource) getURL(ctx context.Context, u *url.URL) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/yaml, application/json;q=0.9, */*;q=0.5")
	resp, err := s.web.clientFor(sameOrigin(u, s.url)).Do(r)
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // without the address, which may have credentials
	}
	return resp, err
}

// clipText returns the beginning of a text for an error.
func clipText(s string) string { return cleanLine(s, 80) }

// cleanLine returns s as one line of at most n characters, without hidden ones.
func cleanLine(s string, n int) string {
	s = strings.Join(strings.Fields(tool.VisibleLine(strings.ToValidUTF8(s, "?"))), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// clipBytes returns at most n bytes of s.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
