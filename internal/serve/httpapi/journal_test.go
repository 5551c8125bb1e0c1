package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

var journalBegan = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)

// journals holds five executions of "", ex_1 being the newest. The even ones failed, ex_1 is
// running.
type journals struct{}

func (journals) Execution(string) (*execution.Execution, bool) { return nil, false }

func (journals) info(n int) execution.Info {
	i := execution.Info{ID: fmt.Sprintf("ex_%d", n), State: journal.Done,
		Started: journalBegan.Add(time.Duration(-n) * time.Minute), Calls: 3, Language: "python"}
	i.Ended = i.Started.Add(time.Second)
	switch {
	case n == 1:
		i.State, i.Ended = journal.Running, time.Time{}
	case n%2 == 0:
		i.State, i.Session = journal.Failed, "work"
	}
	return i
}

func (j journals) Executions(_ context.Context, p tool.Principal, q journal.Query) (out []execution.Info, _ error) {
	past := q.Before == ""
	for n := 1; n <= 5 && len(out) < q.Max(); n++ {
		i := j.info(n)
		if past && (len(q.States) == 0 || slices.Contains(q.States, i.State)) &&
			(q.Session == "" || q.Session == i.Session) {
			out = append(out, i)
		}
		past = past || q.Before == i.ID
	}
	return out, nil
}

func (j journals) Details(_ context.Context, p tool.Principal, id string) (*execution.Details, error) {
	var n int
	if fmt.Sscanf(id, "ex_%d", &n); n < 1 || n > 5 {
		return nil, tool.Errorf(tool.NotFound, "no execution %q", id)
	}
	at := journalBegan
	d := &execution.Details{Info: j.info(n), Program: "the program", Value: json.RawMessage("9007199254740993"),
		Console: []execution.Line{{Level: "log", Text: "hi"}}}
	d.Calls = []journal.Call{
		{N: 1, Tool: "gh.read", Arguments: json.RawMessage(`{"n":9007199254740993}`), Sent: at,
			Ended: at.Add(time.Second), MS: 1000, Bytes: 7, Order: 1, Value: json.RawMessage(`"v"`), Decision: "allow"},
		{N: 2, Tool: "gh.write", Sent: at, Ended: at, Error: execution.NotMade + "denied", Unsent: true},
		{N: 3, Tool: "gh.write", Sent: at, Arguments: json.RawMessage(`"` + strings.Repeat("x", 20_000) + `"`)},
	}
	if d.State == journal.Failed {
		d.Error = &execution.Failure{Kind: "exception", Message: "Error: no\nmore", Line: 3}
	}
	return d, nil
}

func (j journals) Watch(ctx context.Context, p tool.Principal, id string, tell func(*execution.Details) error) error {
	d, err := j.Details(ctx, p, id)
	for err == nil {
		if err = tell(d); err == nil {
			d.Notes = append(d.Notes, "something happened")
		}
	}
	return err
}

func (j journals) Replay(ctx context.Context, p tool.Principal, id string, o execution.ReplayOptions) (
	*execution.Replayed, error) {
	d, err := j.Details(ctx, p, id)
	if err != nil {
		return nil, err
	}
	r := &execution.Replayed{Execution: id, State: "done", Same: true, Value: d.Value, Calls: d.Calls[:2]}
	if o.Until > 0 {
		r.State, r.Calls = "stopped", d.Calls[:o.Until]
	}
	if o.Program != "" {
		r.State, r.Same, r.Differs = "diverged", false, "it calls gh.other"
	}
	return r, nil
}

func TestExecutions(t *testing.T) {
	h := httptest.NewServer(server(t, nil).Loopback())
	defer h.Close()
	c, ctx := &api.Client{Base: h.URL}, t.Context()
	ids := func(f api.ExecutionFilter) (out []string, next string) {
		page, err := c.Executions(ctx, f)
		if err != nil {
			t.Fatalf("Executions: %v", err)
		}
		for _, e := range page.Executions {
			out = append(out, e.ID)
		}
		return out, page.Next
	}
	for name, tt := range map[string]struct {
		f    api.ExecutionFilter
		want string
	}{
		"all":            {api.ExecutionFilter{}, "[ex_1 ex_2 ex_3 ex_4 ex_5] "},
		"a page":         {api.ExecutionFilter{Limit: 2}, "[ex_1 ex_2] ex_2"},
		"the last page":  {api.ExecutionFilter{Limit: 2, Before: "ex_3"}, "[ex_4 ex_5] "},
		"a state":        {api.ExecutionFilter{States: []string{"failed"}}, "[ex_2 ex_4] "},
		"states, a page": {api.ExecutionFilter{States: []string{"running", "done"}, Limit: 2}, "[ex_1 ex_3] ex_3"},
		"a session":      {api.ExecutionFilter{Session: "work"}, "[ex_2 ex_4] "},
		"since": {api.ExecutionFilter{Since: journalBegan.Add(-3 * time.Minute), Limit: 5},
			"[ex_1 ex_2 ex_3] "},
	} {
		if got, next := ids(tt.f); fmt.Sprint(got, " ", next) != tt.want {
			t.Errorf("%s: %v %q, want %s", name, got, next, tt.want)
		}
	}
	for _, bad := range []string{"state=broken", "limit=0", "limit=1001", "limit=x", "since=yesterday", "limits=1"} {
		resp, err := http.Get(h.URL + api.Prefix + "/executions?" + bad)
		if err != nil {
			t.Fatalf("http.Get: %v", err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("bad = %s, resp.Status = %s, want resp.StatusCode == http.StatusBadRequest", bad, resp.Status)
		}
	}
}

func TestExecutionJournal(t *testing.T) {
	h := httptest.NewServer(server(t, nil).Loopback())
	defer h.Close()
	c, ctx := &api.Client{Base: h.URL}, t.Context()
	d, err := c.Journal(ctx, "ex_3")
	if err != nil {
		t.Fatalf("Journal: %v", err)
	}
	var states []string
	for _, call := range d.Calls {
		states = append(states, call.State)
	}
	if fmt.Sprint(states) != "[done not made unknown]" || string(d.Calls[0].Arguments) != `{"n":9007199254740993}` ||
		d.Calls[2].Arguments != nil || string(d.Value) != "9007199254740993" ||
		d.Calls[1].Result != "" || d.Program != "the program" || len(d.Calls[0].Result) != 64 ||
		d.Calls[0].Value != nil {
		t.Errorf("states = %s, d = %+v", states, d)
	}
	if going, err := c.Journal(ctx, "ex_1"); err != nil || going.Calls[2].State != api.CallPending ||
		going.Ended != nil {
		t.Errorf("going = %v, err = %v, want err == nil && going.Calls[2].State == api.CallPending && "+
			"going.Ended == nil", going, err)
	}
	if failed, err := c.Journal(ctx, "ex_2"); err != nil || failed.Error == nil || failed.Problem != "Error: no" {
		t.Errorf("failed = %v, err = %v, want err == nil && failed.Error != nil && failed.Problem == "+
			"\"Error: no\"", failed, err)
	}
	if news, err := c.Watch(ctx, "ex_1", d.Version); err != nil || news.Version == d.Version {
		t.Errorf("news = %v, err = %v, want err == nil && news.Version != d.Version", news, err)
	}
	if call, err := c.Call(ctx, "ex_3", 3); err != nil || len(call.Arguments) != 20_002 {
		t.Errorf("call = %v, err = %v, want err == nil && len(call.Arguments) == 20_002", call, err)
	}
	if call, err := c.Call(ctx, "ex_3", 1); err != nil || string(call.Value) != `"v"` {
		t.Errorf("call = %v, err = %v, want err == nil && string(call.Value) == `\"v\"`", call, err)
	}
	for _, err := range []error{
		last(c.Call(ctx, "ex_3", 4)), last(c.Journal(ctx, "ex_9")), last(c.Watch(ctx, "ex_9", "x")),
		last(c.Replay(ctx, "ex_9", api.ReplayRequest{})), last(c.Call(ctx, "ex_9", 1)),
	} {
		if kind(err) != api.NotFound {
			t.Errorf("err = %v, want kind(err) == api.NotFound", err)
		}
	}
}

func last[T any](_ T, err error) error { return err }

func TestExecutionReplay(t *testing.T) {
	h := httptest.NewServer(server(t, nil).Loopback())
	defer h.Close()
	c, ctx := &api.Client{Base: h.URL}, t.Context()
	if r, err := c.Replay(ctx, "ex_3", api.ReplayRequest{}); err != nil || !r.Same || r.State != api.ReplayDone ||
		string(r.Value) != "9007199254740993" {
		t.Errorf("r = %v, err = %v, want err == nil && r.Same && r.State == api.ReplayDone && "+
			"string(r.Value) == \"9007199254740993\"", r, err)
	}
	if r, err := c.Replay(ctx, "ex_3", api.ReplayRequest{Until: 3}); err != nil || r.State != api.ReplayStopped ||
		len(r.Calls) != 3 {
		t.Errorf("r = %v, err = %v, want err == nil && r.State == api.ReplayStopped && len(r.Calls) == 3", r, err)
	}
	if r, err := c.Replay(ctx, "ex_3", api.ReplayRequest{Program: "another"}); err != nil || r.Same ||
		r.Differs == "" || r.State != api.ReplayDiverged {
		t.Errorf("r = %v, err = %v, want err == nil && !r.Same && r.Differs != \"\" && r.State == "+
			"api.ReplayDiverged", r, err)
	}
	if _, err := c.Replay(ctx, "ex_3", api.ReplayRequest{Until: -1}); kind(err) != api.Invalid {
		t.Errorf("err = %v, want kind(err) == api.Invalid", err)
	}
}

func TestStopExecution(t *testing.T) {
	h := httptest.NewServer(server(t, nil).Loopback())
	defer h.Close()
	c, ctx := &api.Client{Base: h.URL}, t.Context()
	for id, want := range map[string]string{"ex_1": "", "ex_2": api.Conflict, "ex_9": api.NotFound} {
		if err := c.StopExecution(ctx, id); (err == nil) != (want == "") || err != nil && kind(err) != want {
			t.Errorf("id = %s, err = %v, want (err == nil) == (want == \"\") && (err == nil || "+
				"kind(err) == want)", id, err)
		}
	}
}

func (j journals) Past(ctx context.Context, p tool.Principal, id string) (*execution.Execution, error) {
	d, err := j.Details(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return &execution.Execution{ID: d.ID, State: execution.State(d.State), Value: d.Value, Console: d.Console}, nil
}

func (j journals) Stop(ctx context.Context, p tool.Principal, id string) error {
	d, err := j.Details(ctx, p, id)
	if err == nil && d.State.Ended() {
		return tool.Errorf(tool.Conflict, "execution %q has ended", id)
	}
	return err
}
