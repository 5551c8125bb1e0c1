package config

import (
	"encoding/base64"
	"net"
	"net/mail"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/notice"
)

// maxChannels is the maximum number of channels.
const maxChannels = 20

// A Notify holds the channels that notices are sent to.
type Notify struct {
	Routes []notice.Route
	// Secrets are the addresses and passwords of the channels.
	Secrets []string
}

// ShowNotify returns the channels in a printable form, without secrets.
func (n *Notify) ShowNotify() map[string]string {
	out := map[string]string{}
	for _, r := range n.Routes {
		kinds := make([]string, len(r.Kinds))
		for i, k := range r.Kinds {
			kinds[i] = string(k)
		}
		if out[r.Name] = r.Channel.DescribePlace(); len(kinds) > 0 {
			out[r.Name] += ": " + strings.Join(kinds, ", ")
		}
	}
	return out
}

// readNotify reads the channels by name.
func readNotify(r *reader, n *node, to *Notify) {
	r.eachEntry(n, "notify", func(k, v *node) {
		what := "notify." + clipText(k.text)
		if len(to.Routes) == maxChannels {
			r.addProblem(k, "notify has more than %d channels", maxChannels)
			return
		}
		c := channel{}
		r.readObject(v, what, key{
			"webhook": func(n *node) { c.notePlace(n); c.webhook = r.readAddress(n, what+".webhook") },
			"slack":   func(n *node) { c.notePlace(n); c.slack = r.readAddress(n, what+".slack") },
			"teams":   func(n *node) { c.notePlace(n); c.teams = r.readAddress(n, what+".teams") },
			"smtp":    func(n *node) { c.notePlace(n); c.mail.Server = r.readText(n, what+".smtp") },
			"secret":  func(n *node) { c.secret = r.readText(n, what+".secret") },
			"tls": func(n *node) {
				c.mail.TLS = r.oneOf(n, what+".tls", notice.StartTLS, notice.Implicit, notice.NoTLS)
			},
			"user":       func(n *node) { c.mail.User = r.readText(n, what+".user") },
			"password":   func(n *node) { c.mail.Password = r.readText(n, what+".password") },
			"from":       func(n *node) { c.mail.From = readMailbox(r, n, what+".from") },
			"to":         func(n *node) { c.mail.To = readMailboxes(r, n, what+".to") },
			"kinds":      func(n *node) { c.kinds = readKinds(r, n, what+".kinds") },
			"per_minute": func(n *node) { c.rate = r.readCount(n, what+".per_minute", 1, 600) },
		})
		if len(c.places) != 1 {
			r.addProblem(k, "%s needs exactly one of webhook, slack, teams and smtp", what)
			return
		}
		if c.webhook != "" && len(c.secret) < 16 {
			r.addProblem(k, "%s.secret must have at least 16 characters: the receiver checks signatures with it", what)
		}
		if coded, ok := strings.CutPrefix(c.secret, "whsec_"); ok {
			if _, err := base64.StdEncoding.DecodeString(coded); err != nil {
				r.addProblem(k, "%s.secret must be base64 after whsec_", what)
			}
		}
		if c.mail.Server != "" {
			c.checkMail(r, k, what)
		}
		to.Routes = append(to.Routes, notice.Route{Name: k.text, Channel: c.newChannel(), Kinds: c.kinds, Rate: c.rate})
		to.Secrets = append(to.Secrets, c.secret, c.mail.Password, c.slack, c.teams, c.webhook)
	})
}

// A channel is one entry of notify.
type channel struct {
	webhook, slack, teams, secret string
	mail                          notice.Mail
	kinds                         []notice.Kind
	rate                          int
	places                        []*node
}

// notePlace notes that the entry says where its notices go.
func (c *channel) notePlace(n *node) { c.places = append(c.places, n) }

// newChannel returns the channel of a checked entry.
func (c *channel) newChannel() notice.Channel {
	switch {
	case c.webhook != "":
		return &notice.Webhook{URL: c.webhook, Secret: c.secret}
	case c.slack != "":
		return &notice.Slack{URL: c.slack}
	case c.teams != "":
		return &notice.Teams{URL: c.teams}
	}
	return &c.mail
}

// checkMail reports what is wrong with an entry for e-mail.
func (c *channel) checkMail(r *reader, k *node, what string) {
	host, port, err := net.SplitHostPort(c.mail.Server)
	if err != nil || host == "" || port == "" {
		r.addProblem(k, "%s.smtp must be a server and a port, like mail.example.com:587", what)
	}
	if c.mail.From == "" || len(c.mail.To) == 0 {
		r.addProblem(k, "%s needs from and to: addresses", what)
	}
	if c.mail.TLS == notice.NoTLS && !identity.IsLoopback(host) {
		r.addProblem(k, "%s.tls: none is only for a server on this machine, such as localhost:25", what)
	}
	if (c.mail.User == "") != (c.mail.Password == "") {
		r.addProblem(k, "%s needs both user and password, or none of them", what)
	}
}

// readMailbox reads the address of a mailbox.
func readMailbox(r *reader, n *node, what string) string {
	s := r.readText(n, what)
	if a, err := mail.ParseAddress(s); err != nil || a.Address != s || strings.ContainsAny(s, "\r\n<>\" ") {
		r.addProblem(n, "%s must be an address like biplane@example.com, not %q", what, clipText(s))
	}
	return s
}

func readMailboxes(r *reader, n *node, what string) (out []string) {
	if n.kind != listNode {
		return []string{readMailbox(r, n, what)}
	}
	for _, e := range n.list {
		out = append(out, readMailbox(r, e, "each of "+what))
	}
	return out
}

// readKinds reads the kinds of notices that a channel gets.
func readKinds(r *reader, n *node, what string) (out []notice.Kind) {
	for _, s := range r.readTexts(n, what) {
		if !slices.Contains(notice.ListKinds(), s) {
			r.addProblem(n, "%s: %q is not one of %s", what, clipText(s), strings.Join(notice.ListKinds(), ", "))
		}
		out = append(out, notice.Kind(s))
	}
	return out
}
