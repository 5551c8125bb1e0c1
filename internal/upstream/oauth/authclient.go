package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of requests to servers.
const (
	maxAnswer    = 256 << 10 // bytes of one answer, decompressed
	answerTime   = 15 * time.Second
	maxRedirects = 3
)

// An authClient sends requests to the servers involved in a sign-in. It trusts none of them.
type authClient struct {
	client *http.Client
	local  bool // the server is on this machine, so the other servers may be, too
}

func newAuthClient(given *http.Client, server *url.URL) *authClient {
	c := &http.Client{Timeout: answerTime, CheckRedirect: checkRedirect}
	if given != nil {
		c.Transport = given.Transport
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      true, // requests are rare, and should leave nothing open
			MaxResponseHeaderBytes: 64 << 10,
		}
	}
	return &authClient{client: c, local: isLoopback(server)}
}

// checkRedirect follows redirects within the same origin, and never sends a body twice.
func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case via[0].Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errors.New("redirected too often")
	case !sameOrigin(via[0].URL, r.URL):
		return fmt.Errorf("redirects to another origin, %s: not followed", shortLine(r.URL.Scheme+"://"+r.URL.Host))
	}
	return nil
}

// An answer is a complete response of a server.
type answer struct {
	status int
	body   []byte
}

func (a *answer) isOK() bool { return a.status/100 == 2 }

// decodeJSON decodes JSON.
func (a *answer) decodeJSON(v any) error {
	err := json.Unmarshal(a.body, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // its text repeats the value, which may be a token
		return tool.Errorf(tool.Unavailable, "the answer is invalid: its %s can't be read",
			shortLine(wrong.Field))
	}
	if err != nil {
		return tool.Errorf(tool.Unavailable, "the answer is invalid: %w", err)
	}
	return nil
}

// sendRequest sends r. The error is a *tool.Error that names only the host of the address.
func (w *authClient) sendRequest(r *http.Request) (*answer, error) {
	r.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(r)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			if ue.Timeout() && r.Context().Err() == nil {
				return nil, tool.Errorf(tool.Unavailable, "%s did not answer within %s", shortLine(r.URL.Host),
					answerTime)
			}
			err = ue.Err
		}
		if r.Context().Err() != nil {
			return nil, tool.AsError(r.Context().Err())
		}
		return nil, tool.Errorf(tool.Unavailable, "%s: %w", shortLine(r.URL.Host), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, tool.AsError(r.Context().Err())
	case err != nil:
		return nil, tool.Errorf(tool.Unavailable, "%s closed the connection in the middle of its answer: %w",
			shortLine(r.URL.Host), err)
	case len(body) > maxAnswer:
		return nil, tool.Errorf(tool.Unavailable, "%s answered with more than %d bytes", shortLine(r.URL.Host),
			maxAnswer)
	}
	return &answer{resp.StatusCode, body}, nil
}

func (w *authClient) getURL(ctx context.Context, u *url.URL) (*answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "%w", err)
	}
	return w.sendRequest(r)
}

func (w *authClient) postBody(ctx context.Context, to, contentType string, body []byte, set func(http.Header)) (*answer,
	error) {
	u, err := parseAddress("endpoint", to, w.local) // it was checked on arrival, but may have been stored since
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "%w", err)
	}
	r.Header.Set("Content-Type", contentType)
	if set != nil {
		set(r.Header)
	}
	return w.sendRequest(r)
}

// A protocolError is an error response of an authorization server (RFC 6749 section 5.2).
type protocolError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
	status      int
}

func (e *protocolError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("status %d", e.status)
	}
	if e.Description == "" {
		return shortLine(e.Code)
	}
	return shortLine(e.Code) + ": " + shortLine(e.Description)
}

// toError converts an error response to an error.
func (a *answer) toError() *protocolError {
	e := &protocolError{status: a.status}
	if json.Unmarshal(a.body, e) != nil {
		*e = protocolError{status: a.status}
	}
	return e
}

// shortLine converts text from a server to one line of limited length.
func shortLine(s string) string { return oneLine(s, 200) }

// oneLine converts s to one line of at most n characters, without control or direction characters.
func oneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r <= 0x9f || r == 0x2028 || r == 0x2029 ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > n {
		s = string(r[:n]) + "…"
	}
	return strings.TrimSpace(s)
}
