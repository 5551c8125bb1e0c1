package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A Secret is a value that programs use without seeing it. They put a placeholder into a header,
// and the value replaces it when the request leaves.
type Secret struct {
	Name    string   // of the placeholder
	Secret  string   // name by which the value is known to Config.Secrets
	Hosts   []string // to which it is sent, by HTTPS only; in lower case
	Methods []string // of requests that it is sent with; empty: any
	Path    string   // of such requests, or of a folder that contains them; empty: any
	Header  string   // that has the placeholder, in canonical form
}

// Secrets resolves the values of secrets.
type Secrets interface {
	// ResolveNames returns the values of named secrets. They are masked until the same user has
	// others.
	ResolveNames(ctx context.Context, user string, names []string) (map[string]string, error)
}

// placeholderStart begins all placeholders.
const placeholderStart = "biplane-secret-"

// Placeholder returns the text that a program uses instead of a secret.
func Placeholder(name string) string { return placeholderStart + name }

// placeholders matches placeholders.
var placeholders = lazily.Regexp(placeholderStart + `[A-Za-z0-9_]*`)

// An answer to a request with a secret is read before it is passed on.
const (
	maxScrubbed = 32 << 20  // its size
	maxHeld     = 128 << 20 // the size of all of them together, which principals share
)

type principalKey struct{}

// WithPrincipal returns a context for requests of a principal with an ID. Do needs none.
func WithPrincipal(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, principalKey{}, id)
}

// insertSecrets replaces the placeholders in the headers of a request by values. It returns a
// Masker of these, or nil if there are none. A placeholder in a place other than its own is an
// error.
func (c *Client) insertSecrets(r *http.Request) (*mask.Masker, error) {
	var used *mask.Masker
	for name, values := range r.Header {
		for i, v := range values {
			plain, encode := decodeCredentials(name, v)
			if !strings.Contains(plain, placeholderStart) {
				continue
			}
			var failure error
			out := placeholders.Get().ReplaceAllStringFunc(plain, func(p string) string {
				value, err := c.resolveSecret(r, http.CanonicalHeaderKey(name), strings.TrimPrefix(p, placeholderStart))
				if err != nil {
					failure = err
					return p
				}
				if used == nil {
					used = mask.New()
				}
				used.Add(value)
				return value
			})
			if failure != nil {
				return nil, tool.NotSent(failure)
			}
			if strings.ContainsAny(out, "\r\n\x00") {
				return nil, tool.NotSent(tool.Errorf(tool.Invalid, "the secret for the header %s has a line break: it "+
					"can't be sent in a header", name))
			}
			values[i] = encode(out)
			used.Add(values[i])
		}
	}
	if used != nil {
		r.Header.Del("Accept-Encoding") // the transport decodes what it asks for
		r.Header.Del("Range")           // a part of the secret would not be found in the answer
		r.Header.Del("If-Range")
	}
	return used, nil
}

// decodeCredentials returns the text of a header in which placeholders are searched, and a function
// that encodes it again: the user and password of Basic authentication are in base64.
func decodeCredentials(name, value string) (plain string, encode func(string) string) {
	scheme, rest, ok := strings.Cut(value, " ")
	if ok && strings.EqualFold(scheme, "basic") && strings.EqualFold(name, "authorization") {
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			return string(raw), func(s string) string {
				return scheme + " " + base64.StdEncoding.EncodeToString([]byte(s))
			}
		}
	}
	return value, func(s string) string { return s }
}

// resolveSecret returns the value for a placeholder in a header of a request.
func (c *Client) resolveSecret(r *http.Request, header, name string) (string, error) {
	i := slices.IndexFunc(c.cfg.Inserted, func(s Secret) bool { return s.Name == name })
	if i < 0 || c.cfg.Secrets == nil {
		return "", tool.Errorf(tool.Denied, "the configuration has no secret %q (network.secrets)", Placeholder(name))
	}
	s := c.cfg.Inserted[i]
	var wrong string
	switch {
	case r.URL.Scheme != "https":
		wrong = "by HTTPS"
	case !slices.Contains(s.Hosts, r.URL.Hostname()):
		wrong = "to " + strings.Join(s.Hosts, ", ")
	case len(s.Methods) > 0 && !slices.Contains(s.Methods, r.Method):
		wrong = "with the methods " + strings.Join(s.Methods, ", ")
	case !s.coversPath(r.URL.EscapedPath()):
		wrong = "to paths below " + s.Path
	case header != s.Header:
		wrong = "in the header " + s.Header
	default:
		// Each stays masked, whichever is used next. Servers may have one placeholder for several.
		user := "network.secrets." + s.Name + " of " + s.Secret
		all, err := c.cfg.Secrets.ResolveNames(r.Context(), user, []string{s.Secret})
		return all[s.Secret], err
	}
	return "", tool.Errorf(tool.Denied, "the secret %s is only sent %s: the request was not made", name, wrong)
}

// coversPath reports whether a path is that of the secret, or below it.
func (s *Secret) coversPath(path string) bool {
	rest, ok := strings.CutPrefix(path, s.Path)
	return ok && (rest == "" || s.Path == "" || strings.HasSuffix(s.Path, "/") || rest[0] == '/')
}

// scrubAnswer removes the secrets of a request from its answer.
func (c *Client) scrubAnswer(ctx context.Context, resp *http.Response, used *mask.Masker) error {
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return tool.Errorf(tool.Unavailable, "the server encoded its answer (%s) although that was not asked for: the "+
			"secret of the request can't be removed from it", text.Cut(e, 40))
	}
	if resp.StatusCode == http.StatusPartialContent {
		return tool.Errorf(tool.Unavailable, "the server answered with a part of its content (206) although that "+
			"was not asked for: the secret of the request can't be removed from a part")
	}
	for _, values := range resp.Header {
		for i, v := range values {
			values[i] = used.Text(v)
		}
	}
	who, _ := ctx.Value(principalKey{}).(string)
	body, release, err := c.held.ReadAll(who, io.LimitReader(resp.Body, maxScrubbed+1))
	var over *tool.Error
	switch {
	case errors.As(err, &over):
		release()
		return &tool.Error{Kind: over.Kind, Msg: over.Msg, RetryAfter: over.RetryAfter} // the request was sent
	case err != nil:
		release()
		return tool.Errorf(tool.Unavailable, "the answer ended early: %w", err)
	case len(body) > maxScrubbed:
		release()
		return tool.Errorf(tool.Limit, "an answer to a request with a secret has at most %s: ask for less at a time",
			text.Size(maxScrubbed))
	}
	clean := used.MaskJSON(body)
	resp.Body = &heldBody{Reader: bytes.NewReader(clean), held: c.held, who: who, size: int64(len(body))}
	resp.Header.Del("Content-Length")
	resp.ContentLength = int64(len(clean))
	return nil
}

// A heldBody is the body of an answer that counts as held until it is closed.
type heldBody struct {
	io.Reader
	held *queue.Shares
	who  string
	size int64 // of what was read
	once sync.Once
}

// Close ends the counting.
func (b *heldBody) Close() error {
	b.once.Do(func() { b.held.Release(b.who, b.size) })
	return nil
}

// sendWithSecrets inserts the values of a request's placeholders, sends it with a function, and
// removes the values from the answer.
func (c *Client) sendWithSecrets(r *http.Request, by http.RoundTripper) (*http.Response, error) {
	used, err := c.insertSecrets(r)
	if err != nil {
		return nil, err
	}
	resp, err := by.RoundTrip(r)
	switch {
	case used == nil:
		return resp, err
	case err != nil: // it may quote an invalid answer
		if clean := used.Text(err.Error()); clean != err.Error() {
			err = tool.Errorf(tool.Unavailable, "%s: %s", r.URL.Host, clean)
		}
		return nil, err
	}
	from := resp.Body
	defer from.Close()
	if err := c.scrubAnswer(r.Context(), resp, used); err != nil {
		return nil, err
	}
	return resp, nil
}

// A secretTransport is the transport of a Client's requests.
type secretTransport struct {
	client *Client
	http.RoundTripper
}

// RoundTrip sends a request with the values of its placeholders.
func (t secretTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.client.sendWithSecrets(r.Clone(r.Context()), t.RoundTripper)
}

// CloseIdleConnections closes idle connections.
func (t secretTransport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
