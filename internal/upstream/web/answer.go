package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// ReadAnswer reads and closes the body of a response, of at most the given number of bytes.
func ReadAnswer(ctx context.Context, resp *http.Response, to *url.URL, most int) ([]byte, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, ExplainFailure(ctx, to, err)
	case len(text) > most:
		return nil, &tool.Error{Kind: tool.Limit, Answered: true,
			Msg: fmt.Sprintf("the server answered with over %d MiB: ask for less", most>>20)}
	}
	return text, nil
}

// ExplainFailure returns the error of a request without an answer.
func ExplainFailure(ctx context.Context, to *url.URL, err error) error {
	err = HideAddress(err)
	var e *tool.Error
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		e := *tool.AsError(context.Cause(ctx))
		if e.Kind == tool.Timeout {
			e.Msg = "the server did not answer in time; whether the request took effect is unknown"
		}
		return &e
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return &tool.Error{Kind: tool.Unavailable, Unsent: true, Err: err, Msg: to.Host + " can't be reached: " +
			err.Error()}
	}
	return &tool.Error{Kind: tool.Unavailable, Err: err,
		Msg: to.Host + ": " + err.Error() + "; whether the request took effect is unknown"}
}

// HideAddress returns an error of a client without the address, which may have credentials.
func HideAddress(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// shownHeaders are the headers of answers that programs need; others begin with a prefix below.
var shownHeaders = []string{"content-type", "content-location", "content-range", "content-language", "deprecation",
	"etag", "last-modified", "link", "location", "ratelimit", "ratelimit-policy", "request-id", "retry-after",
	"sunset", "x-next-page", "x-page", "x-per-page", "x-request-id", "x-total", "x-total-count", "x-total-pages"}

var shownPrefixes = []string{"ratelimit-", "x-ratelimit-", "x-rate-limit-"}

// SelectHeaders returns the headers of an answer that programs need, by lower-case names.
func SelectHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for name, values := range h {
		lower := strings.ToLower(name)
		if slices.Contains(shownHeaders, lower) ||
			slices.ContainsFunc(shownPrefixes, func(s string) bool { return strings.HasPrefix(lower, s) }) {
			out[lower] = strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		}
	}
	return out
}

// MayRetry reports whether a request may be sent again later: the server says that it did nothing,
// or a repetition has no further effect.
func MayRetry(status int, h http.Header, repeats bool) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return repeats || h.Get("Retry-After") != ""
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return repeats
	}
	return false
}

// maxRetryAfter is the longest wait that is believed.
const maxRetryAfter = 24 * time.Hour

// RetrySeconds parses Retry-After: seconds or a date (RFC 9110, section 10.2.3). It returns 0 if
// there is none.
func RetrySeconds(h http.Header, now time.Time) int {
	var d time.Duration
	s := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.Atoi(s); err == nil {
		d = time.Duration(min(n, 1<<20)) * time.Second
	} else if t, err := http.ParseTime(s); err == nil {
		d = t.Sub(now)
	}
	return int((min(max(d, 0), maxRetryAfter) + time.Second - 1) / time.Second)
}
