package mcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

const (
	maxRedirects  = 5
	maxErrorBody  = 64 << 10 // bytes read of an HTTP error response
	notifyTimeout = 10 * time.Second
)

// An httpLink is the common part of the two HTTP transports: the address of a server, the headers
// of every request to it, and the rules for where those headers may be sent.
type httpLink struct {
	client *http.Client
	own    *http.Transport // owned by the link, which closes it; nil if the client was given
	url    *url.URL
	header http.Header
	auth   Auth // may be nil
	max    int
}

// newHTTPLink returns an httpLink. given and auth may be nil.
func newHTTPLink(given *http.Client, u *url.URL, header http.Header, auth Auth, maxMessage int) *httpLink {
	w := &httpLink{url: u, header: header, auth: auth, max: maxMessage}
	client := http.Client{}
	if given != nil {
		client = *given
	}
	if client.Transport == nil {
		w.own = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		}
		client.Transport = w.own
	}
	client.Timeout = 0 // streams are long; each exchange has its own timeout
	client.CheckRedirect = w.checkRedirect
	w.client = &client
	return w
}

// checkRedirect follows redirects that keep the server and the method. Any other would send our
// headers to another server, or lose the message.
func (w *httpLink) checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errors.New("redirected too often")
	case !sameServer(via[0].URL, r.URL):
		return fmt.Errorf("redirects to %s://%s, another server than configured: not followed",
			r.URL.Scheme, r.URL.Host)
	case r.Method != via[0].Method:
		return fmt.Errorf("redirects to %s and changes %s to %s: configure that url",
			r.URL.Path, via[0].Method, r.Method)
	}
	return nil
}

// sameServer reports whether to has the origin of from, or that origin over TLS.
func sameServer(from, to *url.URL) bool {
	if from.Scheme == to.Scheme {
		return hostPort(from) == hostPort(to)
	}
	return from.Scheme == "http" && to.Scheme == "https" && strings.EqualFold(from.Hostname(), to.Hostname()) &&
		(from.Port() == "" || from.Port() == "80") && (to.Port() == "" || to.Port() == "443")
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// sendRequest sends one HTTP request with the configured headers and the access token. If the token
// is refused, it sends the request again, once, with a renewed one: the server did nothing. The
// error is a *fault, or the error of ctx.
func (w *httpLink) sendRequest(ctx context.Context, method string, to *url.URL, body []byte,
	set func(http.Header)) (*http.Response, error) {
	token, err := w.accessToken(ctx, to, false)
	if err != nil {
		return nil, err
	}
	resp, err := w.sendOnce(ctx, method, to, token, body, set)
	if err != nil || w.auth == nil ||
		resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	w.auth.RecordRefusal(token, resp.StatusCode, resp.Header)
	if resp.StatusCode == http.StatusForbidden {
		return resp, nil
	}
	other, err := w.accessToken(ctx, to, true)
	if err == nil && (other == "" || other == token) {
		return resp, nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp, err = w.sendOnce(ctx, method, to, other, body, set)
	if err == nil && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden) {
		w.auth.RecordRefusal(other, resp.StatusCode, resp.Header)
	}
	return resp, err
}

// accessToken returns the access token for a request. It is "" if there is none, or if the request
// goes to another server than the one the token is for.
func (w *httpLink) accessToken(ctx context.Context, to *url.URL, renew bool) (string, error) {
	if w.auth == nil || to.Scheme != w.url.Scheme || hostPort(to) != hostPort(w.url) {
		return "", nil
	}
	token, err := w.auth.Token(ctx, renew)
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err()
	} else if err != nil {
		return "", faultf(faultUnsent, "%w", err)
	}
	return token, nil
}

// sendOnce sends one HTTP request with the configured headers, and the token if there is one.
func (w *httpLink) sendOnce(ctx context.Context, method string, to *url.URL, token string, body []byte,
	set func(http.Header)) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, faultf(faultUnsent, "%w", err)
	}
	if len(body) == 0 {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	}
	for k, v := range w.header {
		r.Header[k] = v
	}
	if h := w.header.Get("Host"); h != "" {
		r.Host = h
	}
	tracing.SetHeader(ctx, r.Header)
	set(r.Header)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, httpFault(err)
	}
	return resp, nil
}

// httpFault classifies an error of http.Client.Do.
func httpFault(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // drop the method and the url, which may hold credentials
	}
	var op *net.OpError
	var certErr *tls.CertificateVerificationError
	var recordErr tls.RecordHeaderError
	switch {
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, &certErr), errors.As(err, &recordErr):
		return faultf(faultUnsent, "can't be reached: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return faultf(faultLost, "closed the connection without an answer: %w", err)
	case op != nil:
		return faultf(faultLost, "the connection broke: %w", op.Err) // without the addresses
	}
	return faultf(faultLost, "%w", err)
}

// mediaType returns the media type of a response, or "".
func mediaType(r *http.Response) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		t, _, _ = strings.Cut(r.Header.Get("Content-Type"), ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	return t
}

// responseError converts a response whose status is not 2xx to an error, and closes it. A JSON-RPC
// error in its body becomes the fault's err.
func responseError(r *http.Response, inSession bool) error {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
	_ = r.Body.Close()
	f := &fault{kind: faultStatus, status: r.StatusCode}
	f.msg = fmt.Sprintf("answered %d %s", r.StatusCode, http.StatusText(r.StatusCode))
	said := ""
	if e, ok := errorIn(body); ok {
		f.err, said = e, cleanLine(e.Message, 300)
	} else if t := mediaType(r); t == "text/plain" || t == "application/json" {
		said = cleanSnippet(body, 200)
	}
	if said != "" {
		f.msg += ": " + said
	}
	if after := cleanLine(r.Header.Get("Retry-After"), 40); after != "" &&
		(r.StatusCode == 429 || r.StatusCode == 503) {
		f.msg += "; retry after " + after
	}
	challenge := cleanLine(r.Header.Get("WWW-Authenticate"), 300)
	switch {
	case r.StatusCode == http.StatusUnauthorized,
		r.StatusCode == http.StatusForbidden && strings.Contains(strings.ToLower(challenge), "insufficient_scope"):
		f.kind = faultSignIn
		if r.StatusCode == http.StatusForbidden {
			f.kind = faultScope
		}
		if challenge != "" {
			f.msg += " (" + challenge + ")"
		}
	case inSession && r.StatusCode == http.StatusNotFound,
		inSession && r.StatusCode == http.StatusBadRequest && strings.Contains(strings.ToLower(said), "session"):
		f.kind = faultSession
	}
	return f
}

// readBody reads a whole body, up to the message limit.
func (w *httpLink) readBody(r io.Reader) ([]byte, error) {
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(r, int64(w.max)+1))
	switch {
	case n > int64(w.max):
		return nil, tooLarge(w.max)
	case err != nil:
		return nil, faultf(faultLost, "closed the connection in the middle of its answer: %w", err)
	}
	return b.Bytes(), nil
}

func (w *httpLink) close() {
	if w.own != nil {
		w.own.CloseIdleConnections()
	}
}
