package sink_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/audit/sink"
)

// A bucket is an S3 server that strictly checks signatures. It computes the signature of each
// request as received. It follows the published description of Signature Version 4 and shares no
// code with the client.
type bucket struct {
	t      *testing.T
	secret string
	now    time.Time

	mu      sync.Mutex
	objects map[string]string
	header  http.Header
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Errorf("io.ReadAll: %v", err)
	}
	if code := b.refuse(r, body); code != "" {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>no</Message></Error>", code)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[r.URL.Path], b.header = string(body), r.Header.Clone()
}

func (b *bucket) refuse(r *http.Request, body []byte) string {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return "AccessDenied"
	}
	part := map[string]string{}
	for _, p := range strings.Split(rest, ",") {
		k, v, _ := strings.Cut(strings.TrimSpace(p), "=")
		part[k] = v
	}
	date := r.Header.Get("X-Amz-Date")
	sent, err := time.Parse("20060102T150405Z", date)
	if err != nil || sent.Sub(b.now).Abs() > 15*time.Minute {
		return "RequestTimeTooSkewed"
	}
	scope := strings.Split(part["Credential"], "/")
	if len(scope) != 5 || scope[0] != "id" || scope[1] != date[:8] || scope[2] != "eu-west-1" || scope[3] != "s3" ||
		scope[4] != "aws4_request" {
		return "InvalidAccessKeyId"
	}
	names := strings.Split(part["SignedHeaders"], ";")
	if !sort.StringsAreSorted(names) {
		return "AuthorizationHeaderMalformed"
	}
	var canonical strings.Builder
	signed := map[string]bool{}
	for _, n := range names {
		v := strings.TrimSpace(r.Header.Get(n))
		if n == "host" {
			v = r.Host
		}
		signed[n] = true
		canonical.WriteString(n + ":" + v + "\n")
	}
	for n := range r.Header {
		if l := strings.ToLower(n); (strings.HasPrefix(l, "x-amz-") || l == "content-md5" || l == "content-type") &&
			!signed[l] {
			return "AccessDenied"
		}
	}
	sum := sha256.Sum256(body)
	payload := hex.EncodeToString(sum[:])
	check := md5.Sum(body)
	if !signed["host"] || r.Header.Get("X-Amz-Content-Sha256") != payload ||
		r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(check[:]) {
		return "BadDigest"
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	request := r.Method + "\n" + path + "\n\n" + canonical.String() + "\n" + part["SignedHeaders"] + "\n" + payload
	requestSum := sha256.Sum256([]byte(request))
	text := "AWS4-HMAC-SHA256\n" + date + "\n" + strings.Join(scope[1:], "/") + "\n" + hex.EncodeToString(requestSum[:])
	key := []byte("AWS4" + b.secret)
	for _, s := range append(scope[1:], text) {
		h := hmac.New(sha256.New, key)
		io.WriteString(h, s)
		key = h.Sum(nil)
	}
	if part["Signature"] != hex.EncodeToString(key) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func TestS3(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	b := &bucket{t: t, secret: "se/cret+", now: now, objects: map[string]string{}}
	srv := httptest.NewServer(b)
	defer srv.Close()
	s := &sink.S3{
		Endpoint: srv.URL, Bucket: "records", Prefix: "/team a/ü$/", Region: "eu-west-1", AccessKey: "id",
		SecretKey: "se/cret+", LockDays: 400,
		Clock: wallclock.At(now),
	}
	c := sink.Checkpoint{Origin: "biplane/k7", Size: 42, Text: note("biplane/k7", 42)}
	if err := s.Put(t.Context(), c); err != nil {
		t.Fatalf("Put: %v", err)
	}
	if got := b.objects["/records/team a/ü$/biplane-k7/00000000000000000042"]; got != c.Text {
		t.Errorf("stored %q", b.objects)
	}
	if m, d := b.header.Get("X-Amz-Object-Lock-Mode"),
		b.header.Get("X-Amz-Object-Lock-Retain-Until-Date"); m != "COMPLIANCE" || d != "2027-11-05T12:00:00Z" {
		t.Errorf("locked %q until %q", m, d)
	}
	wrong := *s
	wrong.SecretKey = "other"
	if err := wrong.Put(t.Context(), c); err == nil || !strings.Contains(err.Error(), "403 SignatureDoesNotMatch") ||
		strings.Contains(err.Error(), "other") {
		t.Errorf("a wrong secret: %v", err)
	}
	late := *s
	late.Clock = wallclock.At(now.Add(time.Hour))
	if err := late.Put(t.Context(), c); err == nil || !strings.Contains(err.Error(), "RequestTimeTooSkewed") {
		t.Errorf("a wrong clock: %v", err)
	}
}

func TestS3Errors(t *testing.T) {
	for body, want := range map[string]string{
		"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce &amp; " +
			"retry.</Message><Resource>/b</Resource></Error>": "503 SlowDown: Reduce & retry.",
		"<Error>\n  <Code> AccessDenied </Code>\n</Error>": "503 AccessDenied: ",
		"<Error><Message>no code</Message></Error>":        "503 Service Unavailable",
		"<Error><Code><b>x</b></Code></Error>":             "503 Service Unavailable",
		"<Error><Code>cut o":                               "503 Service Unavailable",
		"<Error><Code>" + strings.Repeat("x", 9000) +
			"</Code></Error>": "503 " + strings.Repeat("x", 100) + ": ",
		"<html><body>busy</body></html>": "503 Service Unavailable",
		"":                               "503 Service Unavailable",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, body) // the reader would miss it
		}))
		err := (&sink.S3{Endpoint: s.URL, Bucket: "b", AccessKey: "a", SecretKey: "s"}).Put(t.Context(),
			sink.Checkpoint{Origin: "o", Size: 1, Text: "n"})
		if err == nil || !strings.HasSuffix(err.Error(), "answered "+want) {
			t.Errorf("body = %s, err = %v, want err != nil && strings.HasSuffix(err.Error(), \"answered "+
				"\"+want)", body, err)
		}
		s.Close()
	}
}
