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

// TestWatchRequests checks that watch prints a request when it comes and when it is decided.
func TestWatchRequests(t *testing.T) {
	r := api.Approval{ID: "apr_a", State: api.ApprovalPending, Tool: "a.b", Arguments: json.RawMessage(`{"x":1}`),
		Digest: "d"}
	var list []api.Approval
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/apr_a") {
			json.NewEncoder(w).Encode(r)
		} else {
			json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(s.Close)
	var out bytes.Buffer
	w := &watcher{app: &app{Process: Process{Out: &out, Err: &out}}, seen: map[string]*watched{},
		requests: map[string]api.Approval{}}
	for _, step := range []struct {
		list []api.Approval
		want string
	}{
		{[]api.Approval{r}, `request apr_a: pending a.b: {"x":1}`}, {[]api.Approval{r}, ""},
		{nil, `request apr_a: denied a.b: {"x":1} by me`}, {nil, ""},
	} {
		out.Reset()
		if list = step.list; len(list) == 0 {
			r.State, r.DecidedBy = "denied", "me"
		}
		if err := w.printRequests(t.Context(), &api.Client{Base: s.URL}); err != nil {
			t.Fatalf("printRequests: %v", err)
		}
		if got := out.String(); step.want == "" && got != "" || !strings.Contains(got, step.want) {
			t.Errorf("with %d requests it prints %q, want %q", len(list), got, step.want)
		}
	}
}
