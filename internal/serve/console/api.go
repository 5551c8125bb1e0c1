package console

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An API is the HTTP API, called in process. A page reads and changes everything but approvals and
// sign-ins through it, with the credential of its visitor. So the table of routes decides what a
// visitor may see and do, and nothing here does.
type API interface {
	http.Handler
	// MayUse reports whether a route accepts requests of p. The route is named by its method and
	// its path below the API's prefix: "GET /executions/{id}".
	MayUse(p tool.Principal, route string) bool
}

// newClient returns a client of the API that acts for the visitor.
func (v *visit) newClient() *api.Client {
	return &api.Client{Base: "http://" + apiHost(v.r), HTTP: &http.Client{Transport: inProcess{v}}}
}

// apiHost returns the host that requests in process name.
func apiHost(r *http.Request) string {
	if r.Host == "" {
		return "localhost"
	}
	return r.Host
}

// mayUse reports whether the visitor may use a route of the API. It decides what a page shows; the
// route itself decides again.
func (v *visit) mayUse(route string) bool {
	return v.access.API != nil && v.access.API.MayUse(v.who, route)
}

// An inProcess passes requests to the API, and buffers their responses.
type inProcess struct{ v *visit }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.v.access.API == nil {
		return nil, errors.New("the API is not available here")
	}
	w := NewResponse()
	t.v.access.API.ServeHTTP(w, t.v.asVisitor(r))
	return &http.Response{Status: http.StatusText(w.Status), StatusCode: w.Status, Header: w.header, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(&w.Body),
		ContentLength: int64(w.Body.Len())}, nil
}

// asVisitor returns a request to the API with the credential and the address of the visitor.
func (v *visit) asVisitor(r *http.Request) *http.Request {
	r = withCredential(r, v.server.credentialOf(v.r, v.access))
	r.RemoteAddr, r.Host, r.RequestURI = v.r.RemoteAddr, v.r.Host, r.URL.RequestURI()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	return r
}

// passOn answers the visit with the API's own response to a GET, as a file to save. The page's
// security headers stay.
func (v *visit) passOn(path string, q url.Values, name string) error {
	r, err := http.NewRequestWithContext(v.r.Context(), http.MethodGet,
		"http://"+apiHost(v.r)+api.Prefix+path+"?"+q.Encode(), nil)
	if err != nil {
		return tool.Errorf(tool.Invalid, "the address is invalid: %w", err)
	}
	nameDownload(v.w.Header(), name)
	v.access.API.ServeHTTP(fileWriter{v.w}, v.asVisitor(r))
	return nil
}

// nameDownload makes the browser save the answer under a name, instead of showing it.
func nameDownload(h http.Header, name string) {
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
}

// A fileWriter shows an error instead of saving it as the file.
type fileWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (f fileWriter) WriteHeader(status int) {
	if status/100 != 2 {
		f.Header().Del("Content-Disposition")
	}
	f.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the writer that http.ResponseController uses.
func (f fileWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// A Response collects the response to a request in process. It implements http.ResponseWriter.
type Response struct {
	Status int
	Body   bytes.Buffer
	header http.Header
}

// NewResponse returns an empty response.
func NewResponse() *Response { return &Response{Status: http.StatusOK, header: http.Header{}} }

// Header implements http.ResponseWriter.
func (r *Response) Header() http.Header { return r.header }

// Write implements http.ResponseWriter.
func (r *Response) Write(p []byte) (int, error) { return r.Body.Write(p) }

// WriteHeader implements http.ResponseWriter.
func (r *Response) WriteHeader(status int) { r.Status = status }

// ownError returns an error of the API as a *tool.Error, with the same kind and text.
func ownError(err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return &tool.Error{Kind: tool.Kind(e.Kind), Msg: e.Message}
	}
	return err
}

// problemOf returns the text of an error for one part of a page, so that the others are shown.
func problemOf(err error) string {
	if err == nil {
		return ""
	}
	return tool.AsError(ownError(err)).Msg
}
