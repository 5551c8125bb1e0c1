package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/tool"
)

// requests holds 2,500 requests, newest first: every tenth is ann's, the others are bob's.
type requests struct{ httpapi.Approvals }

func (requests) all() (out []approval.Request) {
	for i := 2500; i > 0; i-- {
		r := approval.Request{ID: fmt.Sprintf("apr_%d", i), Digest: fmt.Sprintf("d%d", i), Principal: "bob"}
		if i%10 == 0 {
			r.Principal = "ann"
		}
		out = append(out, r)
	}
	return out
}

func (q requests) List(_ context.Context, f approval.Query) ([]approval.Request, error) {
	all := q.all()
	if i := slices.IndexFunc(all, func(r approval.Request) bool { return r.ID == f.Before }); f.Before != "" {
		all = all[i+1:]
	}
	return all[:min(len(all), f.Max())], nil
}

func (q requests) Get(_ context.Context, id string) (*approval.Request, error) {
	for _, r := range q.all() {
		if r.ID == id {
			return &r, nil
		}
	}
	return nil, tool.Errorf(tool.NotFound, "none")
}

// Decide records its arguments in the request's note.
func (q requests) Decide(_ context.Context, _ approval.Decider, id string, approve bool,
	note string) (*approval.Request, error) {
	r, err := q.Get(context.Background(), id)
	if err == nil {
		r.Note = fmt.Sprintf("decided %t %s", approve, note)
	}
	return r, err
}

// TestDecisionsAreExplicit checks that a decision must state its value and the digest of what was
// shown.
func TestDecisionsAreExplicit(t *testing.T) {
	s := httpapi.New(httpapi.Config{Approvals: requests{},
		Principal: tool.Principal{ID: "local:ann", Roles: []string{"admin"}}})
	defer s.Close()
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{`{}`, 400, "nothing was decided"},
		{`{"note": "x"}`, 400, "nothing was decided"},
		{`{"approve": null, "digest": "d1"}`, 400, "nothing was decided"},
		{`{"approve": true}`, 400, "nothing was decided"},
		{`{"digest": "d1"}`, 400, "nothing was decided"},
		{`{"approve": true, "digest": "d2"}`, 409, "nothing was decided"},
		{`{"approve": true, "digest": ""}`, 409, "nothing was decided"},
		{`{"approve": true, "digest": "d1", "note": "x"}`, 200, "decided true x"},
		{`{"approve": false, "digest": "d1"}`, 200, "decided false"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", api.Prefix+"/approvals/apr_1", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		s.Socket().ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) ||
			tt.status != 200 && strings.Contains(w.Body.String(), "decided true") {
			t.Errorf("tt.body = %s, w.Code = %d, w.Body = %s", tt.body, w.Code, w.Body)
		}
	}
}

// TestApprovalPages checks that pages are full of requests that the caller may see, whatever is in
// between.
func TestApprovalPages(t *testing.T) {
	for _, tt := range []struct{ id, role, query, want string }{
		{"ann", "user", "limit=3", "apr_2500 apr_2490 apr_2480"},
		{"ann", "user", "limit=3&before=apr_2480", "apr_2470 apr_2460 apr_2450"},
		{"ann", "user", "limit=5&before=apr_30", "apr_20 apr_10"},
		{"eve", "user", "", ""},
		{"eve", "auditor", "limit=2&before=apr_2499", "apr_2498 apr_2497"},
		{"ann", "user", "limit=3&before=apr_2499", "not_found"},
		{"ann", "user", "before=apr_none", "not_found"},
		{"ann", "user", "limit=0", "invalid"},
		{"ann", "user", "limit=1001", "invalid"},
	} {
		s := httpapi.New(httpapi.Config{Approvals: requests{},
			Principal: tool.Principal{ID: tt.id, Roles: []string{tt.role}}})
		w := httptest.NewRecorder()
		s.Socket().ServeHTTP(w, httptest.NewRequest("GET", api.Prefix+"/approvals?"+tt.query, nil))
		var list []api.Approval
		got := ""
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			var e struct{ Error struct{ Kind string } }
			if json.Unmarshal(w.Body.Bytes(), &e) != nil {
				t.Fatalf("w.Body = %s, want json.Unmarshal(w.Body.Bytes(), &e) == nil", w.Body)
			}
			got = e.Error.Kind
		}
		for _, r := range list {
			got = strings.TrimSpace(got + " " + r.ID)
		}
		if got != tt.want {
			t.Errorf("%s (%s) ?%s: %q, want %q", tt.id, tt.role, tt.query, got, tt.want)
		}
		s.Close()
	}
}
