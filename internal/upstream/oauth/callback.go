package oauth

import (
	"context"
	"fmt"
	"html"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	callbackPath = "/callback"
	maxCallback  = 16 << 10 // bytes of an authorization response
)

// A callback is the redirect target of a sign-in: a port of 127.0.0.1 (RFC 8252 section 7.3) that
// is open during the flow.
type callback struct {
	flow     *Flow
	listener net.Listener
	server   *http.Server
	wg       sync.WaitGroup
	once     sync.Once
}

func listenCallback(f *Flow, port int) (*callback, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil && port != 0 {
		return nil, tool.Errorf(tool.Unavailable, "can't listen on the configured redirect_port: %w", err)
	} else if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "can't listen on any port of this machine for the redirect: %w", err)
	}
	b := &callback{flow: f, listener: l}
	b.server = &http.Server{Handler: b, ReadTimeout: 10 * time.Second, WriteTimeout: codeTime + 10*time.Second,
		IdleTimeout: 10 * time.Second, MaxHeaderBytes: maxCallback}
	b.server.SetKeepAlivesEnabled(false)
	b.wg.Go(func() { _ = b.server.Serve(l) }) // it ends with the flow
	return b, nil
}

func (b *callback) redirectURL() string { return "http://" + b.listener.Addr().String() + callbackPath }

// close stops the server. It lets a response in progress complete.
func (b *callback) close() {
	b.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if b.server.Shutdown(ctx) != nil {
			_ = b.server.Close()
		}
	})
	b.wg.Wait()
}

// ServeHTTP handles the authorization response.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet || r.URL.Path != callbackPath || r.Host != b.listener.Addr().String() {
		w.WriteHeader(http.StatusNotFound)
		writePage(w, "Nothing is here.", "")
		return
	}
	if err := b.flow.handleResponse(r.URL.Query()); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		writePage(w, "Not signed in", tool.AsError(err).Msg)
		return
	}
	writePage(w, "Signed in to "+b.flow.c.cfg.Name, "You can close this window, and go back to where you came from.")
}

// writePage writes a page. Text from servers is escaped.
func writePage(w http.ResponseWriter, title, text string) {
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%[1]s</title><body style=\"font:16px/1.5 "+
		"system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 1em\"><h1>%[1]s</h1><p>%[2]s\n",
		html.EscapeString(title), html.EscapeString(text))
}
