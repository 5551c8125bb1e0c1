package local

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestInProcess(t *testing.T) {
	p := &InProcess{Log: slog.New(slog.DiscardHandler)}
	begun := make(chan struct{})
	p.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Path", r.Host+r.RequestURI)
		switch r.URL.Path {
		case "/wrong":
			w.WriteHeader(http.StatusConflict)
			w.Header().Set("X-Late", "yes")
		case "/broken":
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/panic":
			panic("oops")
		case "/waits":
			close(begun)
			<-r.Context().Done()
			return
		case "/nothing":
			return
		}
		io.WriteString(w, "said "+string(body))
	})
	client := &http.Client{Transport: p}
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
		broken     bool
	}{
		{"/x?y=1", "hello", 200, "said hello", false},
		{"/wrong", "", 409, "said ", false},
		{"/nothing", "", 200, "", false},
		{"/broken", "", 200, "half", true},
		{"/panic", "", 500, "", true},
	} {
		resp, err := client.Post("http://localhost"+tt.path, "text/plain", strings.NewReader(tt.body))
		if err != nil {
			t.Fatalf("tt.path = %s, err = %v, want nil", tt.path, err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || resp.Status != strconv.Itoa(tt.status)+" "+http.StatusText(tt.status) ||
			string(text) != tt.want || (err != nil) != tt.broken || resp.Header.Get("X-Late") != "" ||
			tt.status != 500 && resp.Header.Get("X-Path") != "localhost"+tt.path {
			t.Errorf("tt.path = %s, resp.StatusCode = %d, text = %q, err = %v, resp.Header = %v",
				tt.path, resp.StatusCode, text, err, resp.Header)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/waits", nil)
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	if _, err := client.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	p.work.Wait() // the handler has noticed it
}
