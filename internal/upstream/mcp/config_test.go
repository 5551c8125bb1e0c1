package mcp

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	for want, c := range map[string]Config{
		"the upstream has no name":                                      {Command: "x"},
		`upstream "a": specify a command to run or the url of a server`: {Name: "a"},
		`upstream "a": specify either a command or a url, not both`: {Name: "a", Command: "x",
			URL: "http://h"},
		`upstream "a": type "carrier pigeon" is not known: it is one of stdio, http, sse`: {Name: "a", URL: "http://h",
			Type: "carrier pigeon"},
		`upstream "a": type stdio needs a command`: {Name: "a", URL: "http://h",
			Type: "stdio"},
		`upstream "a": type sse needs a url`: {Name: "a", Command: "x",
			Type: "sse"},
		`upstream "a": the url must begin with http:// or https://`: {Name: "a", URL: "ftp://h"},
		`upstream "a": the url names no host`: {Name: "a",
			URL: "http:///mcp"},
		`upstream "a": the url can't be read`: {Name: "a",
			URL: "http://h:x y"},
		`upstream "a": headers are for servers with a url`: {Name: "a", Command: "x",
			Headers: map[string]string{"A": "b"}},
		`upstream "a": the header name "A B" is not valid`: {Name: "a", URL: "http://h",
			Headers: map[string]string{"A B": "b"}},
		`upstream "a": the header "content-type" is set by the protocol`: {Name: "a", URL: "http://h",
			Headers: map[string]string{"content-type": "b"}},
		`upstream "a": the value of header "A" contains a line break`: {Name: "a", URL: "http://h",
			Headers: map[string]string{"A": "secret\r\n"}},
		`upstream "a": the environment variable "A=" can't be set`: {Name: "a", Command: "x",
			Env: map[string]string{"A=": "b"}},
		`upstream "a": revision "2024-11-05" is not known: it is one of 2026-07-28, 2025-11-25`: {Name: "a",
			Command: "x", Client: Implementation{Revision: "2024-11-05"}},
		`upstream "a": a timeout is negative`: {Name: "a", Command: "x",
			Timeout: -1},
		`upstream "a": the timeout of tool "t" is not positive`: {Name: "a", Command: "x",
			Timeouts: map[string]time.Duration{"t": 0}},
	} {
		_, err := New(c)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestConfigTypes(t *testing.T) {
	for typ, want := range map[string]string{"": "", "http": "http", "streamable-http": "http",
		"streamableHttp": "http", "sse": "sse", "SSE": "sse"} {
		u, err := New(Config{Name: "a", URL: "https://h/mcp", Type: typ})
		if err != nil || u.kind != want {
			t.Errorf("typ = %q, u.kind = %q, err = %v, want err == nil && u.kind == want", typ, u.kind, err)
		}
	}
}

func TestChildEnv(t *testing.T) {
	got := childEnv([]string{"PATH=/bin", "HOME=/h", "SECRET=s", "LC_CTYPE=C", "LCX=no", "SHELL=() { x; }"},
		map[string]string{"HOME": "/mine", "A": ""})
	if want := []string{"A=", "HOME=/mine", "LC_CTYPE=C", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLookPath(t *testing.T) {
	env := []string{"PATH=.::relative:/usr/bin:/bin"}
	if p, err := lookPath("sh", "", env); err != nil || !strings.HasSuffix(p, "/sh") || !strings.HasPrefix(p, "/") {
		t.Errorf("p = %q, err = %v, want err == nil && strings.HasSuffix(p, \"/sh\") && "+
			"strings.HasPrefix(p, \"/\")", p, err)
	}
	for _, name := range []string{"config.go", "./config.go", "/no/such/file", "/", "no-such-command"} {
		if p, err := lookPath(name, "", env); err == nil {
			t.Errorf("%s: found %q", name, p)
		}
	}
}

// TestBreakerStates tests all states of the breaker.
func TestBreakerStates(t *testing.T) {
	now := time.Now()
	var b breaker
	allowed := func(want bool) {
		t.Helper()
		if ok, wait := b.allowCall(now, "ann"); ok != want || !ok && wait <= 0 {
			t.Fatalf("allowed %v, wait %v; want %v", ok, wait, want)
		}
	}
	for range breakAfter - 1 {
		allowed(true)
		if b.recordFailure(now, "ann", "x", time.Second) {
			t.Fatal("opened too early")
		}
	}
	allowed(true)
	b.recordSuccess()
	for range breakAfter {
		allowed(true)
		b.recordFailure(now, "ann", "x", time.Second)
	}
	allowed(false)
	now = now.Add(time.Second)
	allowed(true) // as a probe
	allowed(false)
	b.recordNoVerdict()
	allowed(true)
	b.recordFailure(now, "ann", "x", time.Second)
	if allowed(false); b.own.pause != 2*time.Second {
		t.Errorf("pause %v", b.own.pause)
	}
	for range 10 {
		now = now.Add(b.own.pause)
		allowed(true)
		b.recordFailure(now, "ann", "x", time.Second)
	}
	if b.own.pause != breakLonger || !b.isFailing() {
		t.Errorf("pause %v", b.own.pause)
	}
	now = now.Add(b.own.pause)
	allowed(true)
	if !b.recordSuccess() || b.isFailing() {
		t.Error("it did not close")
	}
	allowed(true)
	allowed(true)
}

func TestRetryDelay(t *testing.T) {
	var last time.Duration
	for n := 1; n < 100; n++ {
		d := retryDelay(n)
		if d <= 0 || d > lastRetry*5/4 || n == 1 && d > quickRetry*5/4 || n < 6 && d < last {
			t.Errorf("attempt %d waits %v", n, d)
		}
		last = d
	}
}

func TestHeaderValues(t *testing.T) {
	for in, want := range map[string]string{
		"us-west1": "us-west1", "a b": "a b", "": "", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"Hello, 世界":    "=?base64?SGVsbG8sIOS4lueVjA==?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"tab\t": "=?base64?dGFiCQ==?=",
	} {
		if got := headerValue(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	schema := `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"object",` +
		`"properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"c":{"type":"boolean","x-mcp-header":"C"}}}`
	bs, err := parseBindings([]byte(schema))
	if err != nil || len(bs) != 3 {
		t.Fatalf("bs = %v, err = %v, want err == nil && len(bs) == 3", bs, err)
	}
	for args, want := range map[string]map[string]string{
		`{"a":"x","b":{"n":42.0},"c":true}`:     {"A": "x", "N": "42", "C": "true"},
		`{"a":null,"b":{"n":9007199254740993}}`: {},
		`{"a":"\n","b":{"n":1.5},"c":false}`:    {"A": "=?base64?Cg==?=", "C": "false"},
		`{"b":7,"c":"x"}`:                       {"C": "x"},
	} {
		got := boundHeaders(bs, []byte(args))
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", args, got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: got %v, want %v", args, got, want)
			}
		}
	}
}

// Failures of one principal's calls block its calls. They block others' calls only if those fail as
// well.
func TestBreakerOfPrincipals(t *testing.T) {
	now := time.Now()
	var b breaker
	for range 3 * breakAfter {
		b.recordFailure(now, "eve", "x", time.Minute)
	}
	if ok, _ := b.allowCall(now, "eve"); ok {
		t.Error("eve's calls go on")
	}
	for _, p := range []string{"ann", "bob", "ann", "bob", "ann"} {
		if ok, _ := b.allowCall(now, p); !ok {
			t.Fatalf("%s is refused for eve's failures", p)
		}
		b.recordFailure(now, p, "y", time.Minute)
	}
	for _, p := range []string{"ann", "bob", "eve", "new"} {
		if ok, _ := b.allowCall(now, p); ok {
			t.Errorf("%s is let through to what answers nobody", p)
		}
	}
	b.recordSuccess()
	for _, p := range []string{"ann", "eve"} {
		if ok, _ := b.allowCall(now, p); !ok {
			t.Errorf("%s is refused after an answer", p)
		}
	}
}
