package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A fake has at most one request, and accepts no decision.
type fake struct{ r approval.Request }

func (f *fake) List(_ context.Context, q approval.Query) ([]approval.Request, error) {
	if q.Before != "" || f.r.ID == "" {
		return nil, nil
	}
	return []approval.Request{f.r}, nil
}

func (f *fake) Get(_ context.Context, id string) (*approval.Request, error) {
	if id != f.r.ID {
		return nil, tool.Errorf(tool.NotFound, "no request %q: biplane approvals list shows the pending ones", id)
	}
	r := f.r
	return &r, nil
}

func (f *fake) May(approval.Decider, *approval.Request) error { return nil }

func (f *fake) Decide(context.Context, approval.Decider, string, bool, string) (*approval.Request, error) {
	return nil, tool.Errorf(tool.Conflict, "it is decided")
}

var (
	ann      = tool.Principal{ID: "key:ann", Roles: []string{"approver"}}
	unknown  = &identity.Refusal{Status: http.StatusUnauthorized, Err: tool.Errorf(tool.Denied, "sign in")}
	withCode = Access{SignIn: true, Gate: gate(func(r *http.Request) (tool.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer code" {
			return tool.Principal{}, unknown
		}
		return ann, nil
	})}
	everybody = Access{Gate: gate(func(*http.Request) (tool.Principal, error) { return ann, nil })}
)

// A gate identifies callers with a function, and only bounds the size of requests.
type gate func(*http.Request) (tool.Principal, error)

func (g gate) Who(r *http.Request, _ bool) (tool.Principal, error) { return g(r) }

func (gate) ReadBody(w http.ResponseWriter, r *http.Request, _ tool.Principal, most int64) (func(), error) {
	r.Body = http.MaxBytesReader(w, r.Body, most)
	return func() {}, nil
}

func (gate) EnterLane(*http.Request, tool.Principal, Lane) (func(), error) { return func() {}, nil }

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Whatever a request contains, the pages contain no element and no address from it, and nothing in
// it is hidden.
func TestHostileRequests(t *testing.T) {
	const evil = "\"><script>alert(1)</script><a href=\"javascript:x\">\u202e\u200b"
	f := &fake{approval.Request{
		ID: "apr_1", Digest: "d", Execution: evil, Tool: evil,
		Arguments: []byte(`{"a":"\"><script>alert(1)</script>` + "\u202e" + `"}`), Principal: evil, Person: evil,
		Agent: evil, Client: evil,
		Program: evil, Policy: evil, Version: evil, Reason: evil, Labels: []string{evil},
		Findings:  []tool.Finding{{Rule: evil, Line: 1, Message: evil}},
		Approvers: []string{evil},
		Decider:   evil, Note: evil, State: approval.Pending,
	}}
	s := New(Config{Approvals: f, Program: func(context.Context, *approval.Request) string { return evil }})
	h := s.Handler(Access{SignIn: true, Gate: gate(func(*http.Request) (tool.Principal, error) {
		return tool.Principal{ID: evil, Roles: []string{"approver"}}, nil
	})})
	for _, state := range []approval.State{approval.Pending, approval.Denied} {
		f.r.State = state
		for _, path := range []string{"/approvals", "/approvals?all=true", "/approvals/apr_1", "/approvals?execution=x",
			"/approvals/" + url.PathEscape(evil), "/sign-in?next=" + url.QueryEscape(evil)} {
			w := get(h, path)
			if text := w.Body.String(); strings.Contains(text, "<script>") ||
				strings.Contains(text, `<a href="javascript`) || strings.ContainsAny(text, "\u202e\u200b") ||
				strings.Contains(text, "ZgotmplZ") || w.Code == 500 {
				t.Errorf("path = %s, w.Code = %d, text = %s", path, w.Code, text)
			}
		}
	}
	if w := get(h, "/approvals/apr_1?raw=true"); w.Body.String() != string(f.r.Arguments) ||
		w.Header().Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("w.Header() = %v", w.Header())
	}
}

func TestSessionsEnd(t *testing.T) {
	clock := wallclock.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s := New(Config{Approvals: &fake{}, Secure: true, Clock: clock})
	h := s.Handler(withCode)
	name := s.sessions.createSession("key:ann", "code")
	in := func() bool { return get(h, "/approvals", "Cookie", "__Host-biplane="+name).Code == http.StatusOK }
	if !in() {
		t.Fatal("not signed in")
	}
	if get(h, "/approvals", "Cookie", "biplane="+name).Code == http.StatusOK ||
		get(h, "/approvals", "Authorization", "Bearer code").Code == http.StatusOK {
		t.Error("a session by another cookie, or none")
	}
	for range 13 { // it is in constant use
		clock.Advance(55 * time.Minute)
		in()
	}
	if clock.Advance(10 * time.Minute); in() {
		t.Error("a session of more than 12 hours")
	}
	name = s.sessions.createSession("key:ann", "code")
	if clock.Advance(time.Hour); in() {
		t.Error("a session without use for an hour")
	}
	first := s.sessions.createSession("key:ann", "first")
	for i := range maxSessions {
		clock.Advance(time.Millisecond)
		s.sessions.createSession("key:ann", fmt.Sprint(i))
	}
	if len(s.sessions.all) != maxSessions || s.sessions.credentialOf(first) != "" {
		t.Errorf("%d sessions", len(s.sessions.all))
	}
}

// A browser that follows a link from another site doesn't send its cookie with it, and is
// redirected here once.
func TestLinksFromElsewhere(t *testing.T) {
	h := New(Config{Approvals: &fake{}}).Handler(withCode)
	w := get(h, "/approvals/apr_1", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if w.Code != http.StatusOK || w.Header().Get("Refresh") != "0; url=/approvals/apr_1" ||
		!strings.Contains(w.Body.String(), `href="/approvals/apr_1"`) {
		t.Errorf("w.Code = %d, w.Header() = %v, w.Body = %s", w.Code, w.Header(), w.Body)
	}
	if w := get(h, "/approvals/apr_1", "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusSeeOther ||
		w.Header().Get("Location") != "/sign-in?next=%2Fapprovals%2Fapr_1" {
		t.Errorf("w.Code = %d, w.Header() = %v, want w.Code == http.StatusSeeOther && "+
			"w.Header().Get(\"Location\") == \"/sign-in?next=%%2Fapprovals%%2Fapr_1\"", w.Code, w.Header())
	}
	if w := get(New(Config{Approvals: &fake{}}).Handler(everybody), "/sign-in"); w.Code != http.StatusSeeOther {
		t.Errorf("w.Code = %d, want http.StatusSeeOther", w.Code)
	}
}

// Numbers, order and repeated keys are shown as sent.
func TestArgumentsAsSent(t *testing.T) {
	got, short := indentArguments([]byte(`{"b":1.0e2,"a":9007199254740993,"a":"x\u0000"}`))
	if want := "{\n  \"b\": 1.0e2,\n  \"a\": 9007199254740993,\n  \"a\": \"x\\u0000\"\n}"; got != want || short {
		t.Errorf("got = %s, want got == want && !short", got)
	}
	if got, short := indentArguments([]byte(`"` + strings.Repeat("\u200b", maxShown/5) + `"`)); !short ||
		len(got) > maxShown {
		t.Errorf("%d bytes, cut: %v", len(got), short)
	}
}

// A flood is a list of pending requests, newest first.
type flood struct {
	fake
	all []approval.Request
}

func (f *flood) List(_ context.Context, q approval.Query) ([]approval.Request, error) {
	from := slices.IndexFunc(f.all, func(r approval.Request) bool { return r.ID == q.Before }) + 1
	return f.all[from:min(len(f.all), from+q.Max())], nil
}

// TestManyRequestsHideNoOthers checks that the page shows a request although more newer ones of
// other principals are pending than it has room for.
func TestManyRequestsHideNoOthers(t *testing.T) {
	f := &flood{}
	for i := range 2 * maxRequests {
		f.all = append(f.all, approval.Request{ID: fmt.Sprintf("apr_%d", i), Tool: "a.b", Arguments: []byte("{}"),
			Principal: fmt.Sprintf("key:eve%d", i%20), State: approval.Pending})
	}
	f.all = append(f.all, approval.Request{ID: "apr_old", Tool: "a.b", Arguments: []byte("{}"), Principal: "key:bob",
		State: approval.Pending})
	w := get(New(Config{Approvals: f}).Handler(everybody), "/approvals")
	if rows := strings.Count(w.Body.String(), `href="/approvals/apr_`); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "apr_old") || rows < maxRequests || rows > maxRequests+1 {
		t.Errorf("status %d with %d links to requests, want 200 with %d, and the oldest one", w.Code, rows, maxRequests)
	}
}
