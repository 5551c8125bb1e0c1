package notice

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// answerBytes is the maximum number of bytes read from a response.
const answerBytes = 64 << 10

// A Webhook sends notices as JSON, signed as the Standard Webhooks specification says.
type Webhook struct {
	URL    string       // may contain a secret, even in its path
	Secret string       // "whsec_" and base64, or any text
	Client *http.Client // nil: a new one
}

// DescribePlace returns the kind of the channel and its host.
func (w *Webhook) DescribePlace() string { return "webhook " + addressHost(w.URL) }

// SendNotice sends a notice.
func (w *Webhook) SendNotice(ctx context.Context, n *Notice) error {
	body, err := tool.Marshal(struct {
		*Notice
		Title string `json:"title"`
	}{n, n.FormatTitle()})
	if err != nil {
		return tool.Errorf(tool.Invalid, "encode the notice: %w", err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	return postJSON(ctx, w.Client, w.DescribePlace(), w.URL, body, map[string]string{
		"Webhook-Id": n.ID, "Webhook-Timestamp": now, "Webhook-Signature": w.signBody(n.ID, now, body)})
}

// signBody returns the signature of a body. It binds the body to the notice and to the time, so
// that a receiver can refuse a message that was sent again by others.
func (w *Webhook) signBody(id, now string, body []byte) string {
	key := []byte(w.Secret)
	if coded, ok := strings.CutPrefix(w.Secret, "whsec_"); ok {
		if raw, err := base64.StdEncoding.DecodeString(coded); err == nil {
			key = raw
		}
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + now + "."))
	m.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// Slack sends notices to an incoming webhook of Slack.
type Slack struct {
	URL    string
	Client *http.Client // nil: a new one
}

// DescribePlace returns the kind of the channel and its host.
func (s *Slack) DescribePlace() string { return "slack " + addressHost(s.URL) }

// A slackBlock is a part of a Slack message.
type slackBlock struct {
	Type string    `json:"type"`
	Text slackText `json:"text"`
}

type slackText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// SendNotice sends a notice.
func (s *Slack) SendNotice(ctx context.Context, n *Notice) error {
	text := "*" + escapeSlack(n.FormatTitle()) + "*"
	if n.Link != "" {
		text += "\n<" + escapeSlack(n.Link) + "|Open in Biplane>"
	} else if n.Command != "" {
		text += "\n`" + escapeSlack(n.Command) + "`"
	}
	if more := n.FormatOmission(); more != "" {
		text += "\n" + escapeSlack(more)
	}
	body, err := tool.Marshal(struct {
		Text   string       `json:"text"`
		Blocks []slackBlock `json:"blocks"`
	}{escapeSlack(n.FormatTitle()), []slackBlock{{"section", slackText{"mrkdwn", text}}}})
	if err != nil {
		return tool.Errorf(tool.Invalid, "encode the notice: %w", err)
	}
	return postJSON(ctx, s.Client, s.DescribePlace(), s.URL, body, nil)
}

// escapeSlack escapes the characters that have a meaning in Slack's texts. The marks of bold and
// code are replaced, since Slack has no escape for them.
func escapeSlack(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "∗", "`", "'", "~", "∼").Replace(s)
}

// Teams sends notices to a workflow of Microsoft Teams, as Adaptive Cards.
type Teams struct {
	URL    string
	Client *http.Client // nil: a new one
}

// DescribePlace returns the kind of the channel and its host.
func (t *Teams) DescribePlace() string { return "teams " + addressHost(t.URL) }

type teamsMessage struct {
	Type        string            `json:"type"`
	Attachments []teamsAttachment `json:"attachments"`
}

type teamsAttachment struct {
	Type    string    `json:"contentType"`
	Content teamsCard `json:"content"`
}

type teamsCard struct {
	Schema  string        `json:"$schema"`
	Type    string        `json:"type"`
	Version string        `json:"version"`
	Body    []teamsText   `json:"body"`
	Actions []teamsAction `json:"actions,omitempty"`
}

type teamsText struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Weight string `json:"weight,omitempty"`
	Wrap   bool   `json:"wrap"`
}

type teamsAction struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	URL   string `json:"url"`
}

// SendNotice sends a notice.
func (t *Teams) SendNotice(ctx context.Context, n *Notice) error {
	card := teamsCard{Schema: "http://adaptivecards.io/schemas/adaptive-card.json", Type: "AdaptiveCard",
		Version: "1.4", Body: []teamsText{{"TextBlock", escapeMarkdown(n.FormatTitle()), "Bolder", true}}}
	if n.Link != "" {
		card.Actions = []teamsAction{{"Action.OpenUrl", "Open in Biplane", n.Link}}
	} else if n.Command != "" {
		card.Body = append(card.Body, teamsText{"TextBlock", escapeMarkdown(n.Command), "", true})
	}
	if more := n.FormatOmission(); more != "" {
		card.Body = append(card.Body, teamsText{"TextBlock", escapeMarkdown(more), "", true})
	}
	body, err := tool.Marshal(teamsMessage{"message",
		[]teamsAttachment{{"application/vnd.microsoft.card.adaptive", card}}})
	if err != nil {
		return tool.Errorf(tool.Invalid, "encode the notice: %w", err)
	}
	return postJSON(ctx, t.Client, t.DescribePlace(), t.URL, body, nil)
}

// escapeMarkdown escapes what has a meaning in Markdown.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune("\\`*_{}[]()#+!|<>~", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// postJSON sends a body to a web address, which must answer with 2xx. Redirects are not followed,
// so that notices go only to the configured address.
func postJSON(ctx context.Context, c *http.Client, name, address string, body []byte,
	header map[string]string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return tool.Errorf(tool.Invalid, "%s: the address is invalid", name)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "biplane")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	// Without a proxy, whatever the environment says. Notices are too rare to keep connections.
	own := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	if c != nil {
		own = *c
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := own.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // its text has the address, which may contain a secret
			err = u.Err
		}
		return tool.Errorf(tool.Unavailable, "%s: %v", name, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerBytes)) // a cut connection may look like a failure
	return checkStatus(name, resp)
}

// checkStatus returns an error unless a response is 2xx. It is permanent if the same request would
// be refused again.
func checkStatus(name string, resp *http.Response) error {
	status := resp.StatusCode
	if status/100 == 2 {
		return nil
	}
	e := &tool.Error{Kind: tool.Invalid,
		Msg: name + " answered " + strconv.Itoa(status) + " " + http.StatusText(status)}
	if status/100 == 5 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		e.Kind = tool.Unavailable
		if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && s < 24*3600 {
			e.RetryAfter = time.Duration(s) * time.Second
		}
	}
	return e
}

// addressHost returns the part of an address that contains no secret.
func addressHost(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return strconv.Quote("?")
	}
	return u.Scheme + "://" + u.Host
}
