package daemon

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/serve/local"
)

// TestStopNamesWhatDoesNotEnd checks that stop doesn't wait forever for a request whose handler
// ignores cancellation.
func TestStopNamesWhatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		p := &local.InProcess{Log: slog.New(slog.DiscardHandler),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/stuck" {
					w.WriteHeader(http.StatusOK)
					<-stuck
				}
			})}
		done := make(chan error, 1)
		r := &running{&Daemon{}, p, func() { done <- nil }, done}
		for _, path := range []string{"/ends", "/stuck"} {
			resp, err := (&http.Client{Transport: p}).Get("http://localhost" + path)
			if err != nil {
				t.Fatalf("Get: %v", err)
			}
			defer resp.Body.Close()
		}
		if err := r.stop(); err == nil || !strings.Contains(err.Error(), "did not: GET /stuck") ||
			strings.Contains(err.Error(), "/ends") {
			t.Errorf("it says %v", err)
		}
		close(stuck)
		p.Wait()

		r.done <- nil
		r.cancel = func() {}
		if err := r.stop(); err != nil {
			t.Errorf("with nothing under way: %v", err)
		}
	})
}
