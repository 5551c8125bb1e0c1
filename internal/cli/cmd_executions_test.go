package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestWatchOutlivesTheProcess checks that a watch whose process ends gets the final state from the
// next process.
func TestWatchOutlivesTheProcess(t *testing.T) {
	answers := func(state string) *api.Client {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("past") {
				panic(http.ErrAbortHandler) // like a process that is gone
			}
			json.NewEncoder(w).Encode(
				api.ExecutionDetail{ExecutionInfo: api.ExecutionInfo{ID: "ex_a", State: state, MS: 7}})
		}))
		t.Cleanup(s.Close)
		return &api.Client{Base: s.URL}
	}
	for _, tt := range []struct {
		state string
		code  int
		says  string
	}{
		{api.StateDone, 0, "done after 7 ms"},
		{api.StateInterrupted, exitFailed, "interrupted after 7 ms"},
		{api.StateRunning, exitUnable, "has exited"},
	} {
		var out bytes.Buffer
		w := &watcher{app: &app{Process: Process{Out: &out, Err: &out}}, seen: map[string]*watched{}}
		args := []string{"ex_a"}
		if err := w.followAll(t.Context(), answers(api.StateRunning), args); err == nil || !w.left {
			t.Fatalf("followed to the end: %v, %v", err, w.left)
		}
		err := w.printLast(t.Context(), answers(tt.state), args)
		code := 0
		if f := (*failure)(nil); errors.As(err, &f) {
			code = f.code
		}
		if code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: code %d, %v:\n%s", tt.state, code, err, out.String())
		}
	}
}
