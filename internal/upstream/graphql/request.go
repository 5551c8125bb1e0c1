package graphql

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"

	"github.com/biplane-dev/biplane/internal/base/tracing"
)

// Limits of the errors in an answer.
const (
	maxErrors  = 20
	maxMessage = 500 // characters
)

// A reply is a complete response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// sendRequest sends a request with its credentials and returns the complete response. If a token is
// refused, it is renewed once: the server did nothing.
func (u *Upstream) sendRequest(ctx context.Context, body []byte, most int) (*reply, error) {
	for renew := false; ; renew = true {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url.String(), bytes.NewReader(body))
		if err != nil {
			return nil, tool.NotSent(tool.Errorf(tool.Invalid, "invalid request: %w", err))
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/graphql-response+json, application/json;q=0.9")
		r.Header.Set("User-Agent", "biplane/"+u.Config.Version)
		tracing.SetHeader(ctx, r.Header)
		if err := u.addCredentials(ctx, r, renew); err != nil {
			return nil, tool.NotSent(err)
		}
		resp, err := u.Clients.ClientFor(true).Do(r)
		if err != nil {
			return nil, web.ExplainFailure(ctx, u.url, err)
		}
		text, err := web.ReadAnswer(ctx, resp, u.url, most)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized || renew || !u.cfg.Auth.IsRenewable() {
			return &reply{resp.StatusCode, resp.Header, text}, nil
		}
	}
}

// addCredentials adds the configured headers and credentials to a request.
func (u *Upstream) addCredentials(ctx context.Context, r *http.Request, renew bool) error {
	for name, v := range u.cfg.Headers {
		r.Header.Set(name, v)
		if strings.EqualFold(name, "Host") {
			r.Host = v
		}
	}
	switch c := u.cfg.Auth; {
	case c.Value != "":
		r.Header.Set("Authorization", "Bearer "+c.Value)
	case c.ClientID != "":
		to, err := url.Parse(c.TokenURL)
		if err != nil {
			return tool.Errorf(tool.Invalid, "auth.token_url is not a URL")
		}
		token, err := u.Tokens.GetToken(ctx, c, web.Grant{Endpoint: to, Trusted: true}, renew)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case c.Username != "" || c.Password != "":
		r.SetBasicAuth(c.Username, c.Password)
	}
	return nil
}

// An answer is the body of a response (GraphQL specification, section 7.1).
type answer struct {
	Data   json.RawMessage `json:"data"`
	Errors []problem       `json:"errors"`
}

// A problem is an error in an answer.
type problem struct {
	Message string `json:"message"`
	Path    []any  `json:"path,omitempty"` // names and indexes
	Code    string `json:"code,omitempty"`

	Extensions struct {
		Code any `json:"code"`
	} `json:"extensions,omitzero"`
}

func (a *answer) hasData() bool { return len(a.Data) > 0 && a.Data[0] == '{' }

// parseAnswer parses the body. A body that is not a GraphQL response has no data and no errors.
func (r *reply) parseAnswer() *answer {
	a := &answer{}
	if json.Unmarshal(r.body, a) != nil {
		return &answer{}
	}
	for i := range a.Errors {
		e := &a.Errors[i]
		e.Message = web.CleanLine(e.Message, maxMessage)
		e.Code, _ = e.Extensions.Code.(string)
		e.Code = web.CleanLine(e.Code, 80)
		e.Extensions.Code = nil
		e.Path = cleanPath(e.Path)
	}
	return a
}

// cleanPath returns the names and indexes of a path, shortened.
func cleanPath(path []any) (out []any) {
	for _, p := range path[:min(len(path), 50)] {
		switch p := p.(type) {
		case string:
			out = append(out, web.CleanLine(p, 80))
		case float64:
			out = append(out, p)
		}
	}
	return out
}

// readIntrospection returns the data of the answer to the introspection query.
func (r *reply) readIntrospection() ([]byte, error) {
	a := r.parseAnswer()
	if r.status/100 == 2 && a.hasData() && len(a.Errors) == 0 {
		return a.Data, nil
	}
	why := fmt.Sprintf("status %d", r.status)
	if len(a.Errors) > 0 {
		why += ": " + a.Errors[0].Message
	}
	return nil, fmt.Errorf("the server did not answer the introspection query (%s): "+
		"check url and auth, or set schema to a file with the schema", why)
}

// A failure is the structured content of a failed call.
type failure struct {
	Status     int               `json:"status"`
	Retryable  bool              `json:"retryable"`
	RetryAfter int               `json:"retry_after,omitempty"` // seconds
	Headers    map[string]string `json:"headers,omitempty"`
	Errors     []problem         `json:"errors,omitempty"`
	Data       json.RawMessage   `json:"data,omitempty"` // partial
}

// throttled are codes with which servers refuse a request before they do anything.
var throttled = []string{"THROTTLED", "RATE_LIMITED", "TOO_MANY_REQUESTS"}

// toResult converts a response to the result of a call. reads means that it was a query.
func (r *reply) toResult(reads bool) (*tool.Result, error) {
	a := r.parseAnswer()
	if r.status/100 == 2 && a.hasData() && len(a.Errors) == 0 {
		return web.NewResult(a.Data, nil, false, "")
	}
	f := &failure{Status: r.status, Retryable: web.MayRetry(r.status, r.header, reads),
		RetryAfter: web.RetrySeconds(r.header, time.Now()), Headers: web.SelectHeaders(r.header),
		Errors: a.Errors[:min(len(a.Errors), maxErrors)]}
	if a.hasData() {
		f.Data = a.Data
	}
	f.Retryable = f.Retryable || len(a.Errors) > 0 && !a.hasData() &&
		!slices.ContainsFunc(a.Errors, func(p problem) bool { return !slices.Contains(throttled, p.Code) })
	text := r.explainErrors(a)
	switch {
	case f.RetryAfter > 0:
		text += fmt.Sprintf("; retry after %d s", f.RetryAfter)
	case f.Retryable:
		text += "; it may be retried"
	}
	return web.NewResult(f, nil, true, text)
}

func (r *reply) explainErrors(a *answer) string {
	if len(a.Errors) == 0 {
		if r.status/100 == 2 {
			return "the server's answer has neither data nor errors: is url the address of a GraphQL endpoint?"
		}
		return fmt.Sprintf("the server answered %d %s", r.status, http.StatusText(r.status))
	}
	var lines []string
	for _, e := range a.Errors[:min(len(a.Errors), 5)] {
		line := e.Message
		if len(e.Path) > 0 {
			var path []string
			for _, p := range e.Path {
				path = append(path, fmt.Sprint(p))
			}
			line += " (at " + strings.Join(path, ".") + ")"
		}
		lines = append(lines, line)
	}
	text := strings.Join(lines, "; ")
	if n := len(a.Errors) - len(lines); n > 0 {
		text += fmt.Sprintf("; and %d more errors", n)
	}
	if a.hasData() {
		text += "; other fields have data"
	}
	return text
}
