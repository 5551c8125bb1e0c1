package notice_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/biplane-dev/biplane/internal/control/notice"
	"github.com/biplane-dev/biplane/internal/tool"
)

// hostile is a name of a tool that tries to forge parts of a message.
const hostile = "shop.<!channel|x>*[a](http://evil.example)\r\nBcc: eve@example.com\u202e"

func sample() *notice.Notice {
	return &notice.Notice{ID: "nt_1", Kind: notice.Approval, Subject: hostile, Link: "https://b.example/approvals/ap_1",
		Command: "biplane approvals show ap_1", Time: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC), Dropped: 2,
		Principal: "key:ann@example.com"}
}

// receive returns a web server that keeps the last request, and answers with a status.
func receive(t *testing.T, status int) (*httptest.Server, func() (http.Header, string)) {
	t.Helper()
	var mu sync.Mutex
	var header http.Header
	var body string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		header, body = r.Header, string(b)
		mu.Unlock()
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s, func() (http.Header, string) {
		mu.Lock()
		defer mu.Unlock()
		return header, body
	}
}

// TestWebhook checks the signature as a receiver would.
func TestWebhook(t *testing.T) {
	s, got := receive(t, 200)
	key := []byte("0123456789abcdef")
	w := &notice.Webhook{URL: s.URL + "/hook/secret", Secret: "whsec_" + base64.StdEncoding.EncodeToString(key)}
	if err := w.SendNotice(t.Context(), sample()); err != nil {
		t.Fatalf("SendNotice: %v", err)
	}
	h, body := got()
	m := hmac.New(sha256.New, key)
	m.Write([]byte("nt_1." + h.Get("Webhook-Timestamp") + "." + body))
	want := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	if h.Get("Webhook-Signature") != want || h.Get("Webhook-Id") != "nt_1" {
		t.Errorf("the signature is %s, want %s", h.Get("Webhook-Signature"), want)
	}
	var v struct {
		Kind, Title, Link string
		Dropped           int
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	if v.Kind != "approval" || !strings.HasPrefix(v.Title, "A call of shop.") || v.Dropped != 2 ||
		v.Link != "https://b.example/approvals/ap_1" {
		t.Errorf("the notice is %s", body)
	}
	if strings.Contains(body, "ann@example.com") || strings.ContainsAny(v.Title, "\r\n\u202e") {
		t.Errorf("the notice names a person, or is not printable: %s", body)
	}
	if d := w.DescribePlace(); strings.Contains(d, "secret") {
		t.Errorf("the description is %s, want no secret", d)
	}
}

// TestChats checks that names can't add links, mentions or marks to messages.
func TestChats(t *testing.T) {
	s, got := receive(t, 200)
	if err := (&notice.Slack{URL: s.URL}).SendNotice(t.Context(), sample()); err != nil {
		t.Fatalf("Slack: %v", err)
	}
	_, body := got()
	var slack struct {
		Text   string
		Blocks []struct{ Text struct{ Type, Text string } }
	}
	if err := json.Unmarshal([]byte(body), &slack); err != nil || len(slack.Blocks) != 1 {
		t.Fatalf("Slack's message is %s: %v", body, err)
	}
	text := slack.Blocks[0].Text.Text
	if strings.Contains(text, "<!") || strings.Count(text, "<") != 1 ||
		!strings.Contains(text, "<https://b.example/approvals/ap_1|Open in Biplane>") ||
		!strings.Contains(text, "2 more notices") {
		t.Errorf("Slack's text is %q", text)
	}
	if err := (&notice.Teams{URL: s.URL}).SendNotice(t.Context(), sample()); err != nil {
		t.Fatalf("Teams: %v", err)
	}
	_, body = got()
	action := `"type":"Action.OpenUrl","title":"Open in Biplane","url":"https://b.example/approvals/ap_1"`
	if !strings.Contains(body, action) ||
		strings.Contains(body, `[a](`) || !strings.Contains(body, `\\[a\\]\\(http`) {
		t.Errorf("Teams' message is %s", body)
	}
}

// TestRefusals checks which answers are final, and that redirects are not followed.
func TestRefusals(t *testing.T) {
	for status, want := range map[int]tool.Kind{200: "", 204: "", 302: tool.Invalid, 404: tool.Invalid,
		408: tool.Unavailable, 429: tool.Unavailable, 500: tool.Unavailable} {
		s, _ := receive(t, status)
		err := (&notice.Slack{URL: s.URL}).SendNotice(t.Context(), sample())
		if (err == nil) != (want == "") || err != nil && tool.AsError(err).Kind != want {
			t.Errorf("%d: %v, want the kind %q", status, err, want)
		}
		if status == 429 && tool.AsError(err).RetryAfter != 7*time.Second {
			t.Errorf("after 429, wait %s, want 7s", tool.AsError(err).RetryAfter)
		}
	}
}

// A mailbox is the backend of a real SMTP server, which accepts one user.
type mailbox struct {
	mu   sync.Mutex
	from string
	to   []string
	text string
	auth bool
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }

func (m *mailbox) AuthMechanisms() []string { return []string{sasl.Plain} }

func (m *mailbox) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "biplane" || password != "s3cret" {
			return errors.New("wrong password")
		}
		m.auth = true
		return nil
	}), nil
}

func (m *mailbox) Reset()        {}
func (m *mailbox) Logout() error { return nil }

func (m *mailbox) Mail(from string, _ *smtp.MailOptions) error {
	if !m.auth {
		return smtp.ErrAuthRequired
	}
	m.from, m.to = from, nil
	return nil
}

func (m *mailbox) Rcpt(to string, _ *smtp.RcptOptions) error {
	m.to = append(m.to, to)
	return nil
}

func (m *mailbox) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text = string(b)
	return err
}

// serveMail starts an SMTP server. Without cert, it offers no encryption.
func serveMail(t *testing.T, m *mailbox, encrypted, implicit bool) (address string, roots *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(web.Close)
	roots = x509.NewCertPool()
	roots.AddCert(web.Certificate())
	s := smtp.NewServer(m)
	s.Domain = "mail.example"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	address = l.Addr().String()
	secure := &tls.Config{Certificates: web.TLS.Certificates}
	if encrypted {
		s.TLSConfig = secure
	}
	if implicit {
		l = tls.NewListener(l, secure)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return address, roots
}

// TestMail sends notices to a real SMTP server, and refuses to send without encryption.
func TestMail(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		box := &mailbox{}
		address, roots := serveMail(t, box, true, implicit)
		m := &notice.Mail{Server: address, User: "biplane", Password: "s3cret", From: "biplane@example.com",
			To: []string{"ops@example.com", "sec@example.com"}, Roots: roots}
		if implicit {
			m.TLS = notice.Implicit
		}
		if err := m.SendNotice(t.Context(), sample()); err != nil {
			t.Fatalf("SendNotice, implicit %v: %v", implicit, err)
		}
		box.mu.Lock()
		text := box.text
		box.mu.Unlock()
		msg, err := mail.ReadMessage(strings.NewReader(text))
		if err != nil {
			t.Fatalf("mail.ReadMessage: %v\n%s", err, text)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(msg.Body))
		if err != nil {
			t.Fatalf("read the body: %v", err)
		}
		if box.from != m.From || fmt.Sprint(box.to) != "[ops@example.com sec@example.com]" ||
			msg.Header.Get("Bcc") != "" || msg.Header.Get("Message-Id") != "<nt_1@example.com>" ||
			!strings.Contains(string(body), "https://b.example/approvals/ap_1") {
			t.Errorf("the message from %s to %v is\n%s\n%s", box.from, box.to, text, body)
		}
	}
	plain, _ := serveMail(t, &mailbox{}, false, false)
	m := &notice.Mail{Server: plain, From: "b@example.com", To: []string{"o@example.com"}}
	if err := m.SendNotice(t.Context(), sample()); err == nil || tool.AsError(err).Kind != tool.Invalid ||
		!strings.Contains(err.Error(), "STARTTLS") {
		t.Errorf("without encryption: %v; want a refusal", err)
	}
	address, roots := serveMail(t, &mailbox{}, true, false)
	m = &notice.Mail{Server: address, User: "biplane", Password: "wrong-one", From: "b@example.com",
		To: []string{"o@example.com"}, Roots: roots}
	if err := m.SendNotice(t.Context(), sample()); err == nil || strings.Contains(err.Error(), "wrong-one") {
		t.Errorf("with a wrong password: %v; want an error without it", err)
	}
	m.Roots = x509.NewCertPool()
	if err := m.SendNotice(t.Context(), sample()); err == nil || tool.AsError(err).Kind != tool.Unavailable {
		t.Errorf("with an unknown certificate: %v; want an error", err)
	}
}

// TestMailStops checks that a mail server that never answers doesn't keep Biplane from closing.
func TestMailStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := l.Accept()
		cancel()
		if err == nil {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn) // until the client closes it
		}
	}()
	m := &notice.Mail{Server: l.Addr().String(), From: "b@example.com", To: []string{"o@example.com"}}
	if err := m.SendNotice(ctx, sample()); err == nil {
		t.Error("SendNotice to a server that never answers: no error")
	}
}

// A fake channel fails as often as told, then sends to a Go channel.
type recorder struct {
	fails int // guarded by the only goroutine that sends
	kind  tool.Kind
	sent  chan *notice.Notice
}

func (r *recorder) DescribePlace() string { return "recorder" }

func (r *recorder) SendNotice(_ context.Context, n *notice.Notice) error {
	if r.fails > 0 {
		r.fails--
		return tool.Errorf(r.kind, "failed")
	}
	r.sent <- n
	return nil
}

// pauses records how long a Notifier would wait.
type pauses struct {
	mu  sync.Mutex
	all []time.Duration
}

func (p *pauses) WaitFor(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, d)
	return ctx.Err()
}

// TestFairQueue checks that a principal with very many requests delays another one by one notice,
// that the queue is bounded, and that dropped notices are counted in the next one.
func TestFairQueue(t *testing.T) {
	ch := &recorder{sent: make(chan *notice.Notice)}
	n := notice.NewNotifier(notice.Config{Pauses: &pauses{}, Routes: []notice.Route{
		{Name: "a", Channel: ch}, {Name: "b", Channel: &recorder{}, Kinds: []notice.Kind{notice.Breaker}}}})
	for i := range 2000 {
		n.AddNotice(notice.Notice{Kind: notice.Approval, Subject: fmt.Sprint("eve ", i), Principal: "eve"})
	}
	n.AddNotice(notice.Notice{Kind: notice.Approval, Subject: "ann", Principal: "ann"})
	s := n.ListStates()
	if s[0].Waiting > 600 || s[0].Waiting+s[0].Dropped != 2001 || s[1].Waiting != 0 {
		t.Fatalf("the states are %+v, want at most 600 waiting, and none for the channel of another kind", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.SendNotices(ctx) }()
	first, second := <-ch.sent, <-ch.sent
	if first.Subject != "eve 0" || first.Dropped != s[0].Dropped || second.Subject != "ann" || second.Dropped != 0 {
		t.Errorf("sent %q, %d dropped, then %q, %d dropped; want eve's first with what was dropped, then ann's",
			first.Subject, first.Dropped, second.Subject, second.Dropped)
	}
	cancel()
	go func() {
		for range ch.sent {
		}
	}()
	<-done
	close(ch.sent)
}

// TestBackoff checks the pauses between attempts, and that a refused notice is not sent again.
func TestBackoff(t *testing.T) {
	p := &pauses{}
	ch := &recorder{fails: 3, kind: tool.Unavailable, sent: make(chan *notice.Notice, 2)}
	refused := &recorder{fails: 1, kind: tool.Invalid, sent: make(chan *notice.Notice, 2)}
	n := notice.NewNotifier(notice.Config{Pauses: p, Routes: []notice.Route{{Name: "a", Channel: ch, Rate: 6}}})
	r := notice.NewNotifier(notice.Config{Pauses: &pauses{}, Routes: []notice.Route{{Name: "b", Channel: refused}}})
	for _, one := range []*notice.Notifier{n, r} {
		one.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "first"})
		one.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "second"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { n.SendNotices(ctx) })
	all.Go(func() { r.SendNotices(ctx) })
	if a, b, c := <-ch.sent, <-ch.sent, <-refused.sent; a.Subject != "first" || b.Subject != "second" ||
		c.Subject != "second" {
		t.Errorf("sent %q, %q and %q; want the first again until it is sent, unless it is refused", a.Subject,
			b.Subject, c.Subject)
	}
	cancel()
	all.Wait()
	want := "[1s 2s 4s 10s"
	if got := fmt.Sprint(p.all); !strings.HasPrefix(got, want) {
		t.Errorf("the pauses are %s, want %s ...]: the attempts, then the rate", got, want)
	}
}

// TestSendTest checks that a test reports the failure of each channel.
func TestSendTest(t *testing.T) {
	ok, down := &recorder{sent: make(chan *notice.Notice, 1)}, &recorder{fails: 1, kind: tool.Unavailable}
	n := notice.NewNotifier(notice.Config{Routes: []notice.Route{{Name: "a", Channel: ok},
		{Name: "b", Channel: down}}})
	all, err := n.SendTest(t.Context(), "", "")
	if err != nil || len(all) != 2 || all[0].Error != "" || all[1].Error != "failed" {
		t.Errorf("the results are %+v, %v; want one sent and one failed", all, err)
	}
	if _, err := n.SendTest(t.Context(), "c", ""); err == nil || tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("an unknown channel: %v, want not found", err)
	}
	var none *notice.Notifier
	none.AddNotice(notice.Notice{})
	if _, err := none.SendTest(t.Context(), "", ""); err == nil {
		t.Error("a test without channels succeeds")
	}
}

// TestReplaceRoutes replaces a channel that fails while notices wait for it. Its successor sends
// them, in order, and a channel that is gone is sent none.
func TestReplaceRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails, works, gone := &recordingChannel{fail: true}, &recordingChannel{}, &recordingChannel{}
		n := notice.NewNotifier(notice.Config{Routes: []notice.Route{{Name: "a", Channel: fails, Rate: 60},
			{Name: "b", Channel: gone}}})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { n.SendNotices(ctx) })
		n.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "first"})
		n.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "second" + strings.Repeat("x", 1000) + "\n"})
		synctest.Wait()
		before := gone.count()
		n.ReplaceRoutes([]notice.Route{{Name: "a", Channel: works, Rate: 60}})
		n.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "third"})
		time.Sleep(time.Minute)
		got := works.subjects()
		if len(got) != 3 || !slices.Contains(got, "first") || !slices.Contains(got, "third") || gone.count() != before {
			t.Errorf("the new channel sent %q, want all three", got)
		}
		for _, s := range got {
			if len(s) > 200 || strings.Contains(s, "\n") {
				t.Errorf("a subject has %d bytes, want it bounded and on one line", len(s))
			}
		}
		cancel()
		work.Wait()
	})
}

// TestReplaceRoutesTwice replaces a channel twice before anything is sent. No notice is lost.
func TestReplaceRoutesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := &recordingChannel{}
		n := notice.NewNotifier(notice.Config{Routes: []notice.Route{{Name: "a", Channel: &recordingChannel{}}}})
		n.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "first"})
		n.ReplaceRoutes([]notice.Route{{Name: "a", Channel: &recordingChannel{}}})
		n.AddNotice(notice.Notice{Kind: notice.Breaker, Subject: "second"})
		n.ReplaceRoutes([]notice.Route{{Name: "a", Channel: last, Rate: 60}})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { n.SendNotices(ctx) })
		time.Sleep(time.Minute)
		if got := last.subjects(); !slices.Equal(got, []string{"first", "second"}) {
			t.Errorf("the last channel sent %q, want first and second", got)
		}
		cancel()
		work.Wait()
	})
}

// TestReplaceRoutesCountsDropped replaces a channel whose queue is full. The next notice that its
// successor sends says how many were omitted, however the replacement meets a failing one.
func TestReplaceRoutesCountsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notice.NewNotifier(notice.Config{Routes: []notice.Route{{Name: "a", Channel: &recordingChannel{fail: true},
			Rate: 60}}})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { n.SendNotices(ctx) })
		add := func(count int) {
			for range count {
				n.AddNotice(notice.Notice{Kind: notice.Approval, Subject: "a.b", Principal: "key:ann"})
			}
		}
		add(1)
		synctest.Wait() // it is being sent, and fails
		add(600)
		dropped := n.ListStates()[0].Dropped
		if dropped == 0 {
			t.Fatal("nothing was dropped")
		}
		works := &recordingChannel{}
		for _, c := range []*recordingChannel{{fail: true}, works} {
			n.ReplaceRoutes([]notice.Route{{Name: "a", Channel: c, Rate: 60}})
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		told := 0
		works.mu.Lock()
		for _, d := range works.dropped {
			told += d
		}
		works.mu.Unlock()
		state := n.ListStates()[0]
		if told != state.Dropped || told < dropped || state.Sent+state.Dropped != 601 {
			t.Errorf("%d notices were said to be omitted, %d were, %d were sent", told, state.Dropped, state.Sent)
		}
		cancel()
		work.Wait()
	})
}

// A recordingChannel records what is sent to it.
type recordingChannel struct {
	fail bool

	mu      sync.Mutex
	sent    []string
	dropped []int // of each that was sent
}

func (c *recordingChannel) DescribePlace() string { return "nowhere" }

func (c *recordingChannel) SendNotice(_ context.Context, n *notice.Notice) error {
	if c.fail {
		return tool.Errorf(tool.Unavailable, "it fails")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent, c.dropped = append(c.sent, n.Subject), append(c.dropped, n.Dropped)
	return nil
}

func (c *recordingChannel) subjects() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

func (c *recordingChannel) count() int { return len(c.subjects()) }
