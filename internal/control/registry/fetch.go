package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
)

const maxRedirects = 5

// errMissing means that a server has nothing at an address.
var errMissing = errors.New("it has no such page")

// ParseAddress parses the address of a list or a registry. It is https, or http on this machine.
func ParseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u)) {
		return nil, errors.New("an address begins with https:// (http:// only on this machine)")
	}
	return u, nil
}

func isLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
}

// A fetcher reads addresses. The host of the first one is trusted, because the user named it; other
// hosts, which redirects name, must have public addresses and speak https.
type fetcher struct {
	origin   *url.URL
	trusted  *http.Transport
	guarded  *http.Transport
	redirect *http.Client
}

func newFetcher(origin *url.URL) *fetcher {
	f := &fetcher{origin: origin, trusted: newTransport(), guarded: newTransport()}
	f.guarded.Proxy = nil // the proxy would resolve names
	f.guarded.DialContext = netaddr.DialPublic
	f.redirect = &http.Client{Transport: f, CheckRedirect: f.checkRedirect}
	return f
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: fetchTime}).DialContext,
		TLSHandshakeTimeout:    fetchTime,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
	}
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == f.origin.Scheme && strings.EqualFold(r.URL.Host, f.origin.Host) {
		return f.trusted.RoundTrip(r)
	}
	return f.guarded.RoundTrip(r)
}

func (f *fetcher) checkRedirect(r *http.Request, before []*http.Request) error {
	same := r.URL.Scheme == f.origin.Scheme && strings.EqualFold(r.URL.Host, f.origin.Host)
	switch {
	case len(before) > maxRedirects:
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	case !same && r.URL.Scheme != "https":
		return errors.New("it redirects to an address without https")
	}
	return nil
}

// fetchText returns the text at an address, of at most the given size.
func (f *fetcher) fetchText(ctx context.Context, u *url.URL, most int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "biplane")
	resp, err := f.redirect.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) { // without the address, which may have credentials
			err = ue.Err
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not answer within %s", fetchTime.Round(time.Second))
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("it answered with status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		if resp.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w: %w", errMissing, err)
		}
		return nil, err
	}
	return readAtMost(resp.Body, most)
}
