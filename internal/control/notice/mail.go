package notice

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Modes of encryption between Biplane and a mail server.
const (
	StartTLS = "starttls" // the default: the connection is encrypted before anything else is sent
	Implicit = "implicit" // TLS from the first byte, usually on port 465
	NoTLS    = "none"     // not encrypted; for servers on this machine only
)

// Mail sends notices by SMTP.
type Mail struct {
	Server         string // host:port
	TLS            string // StartTLS, Implicit or NoTLS
	User, Password string // empty: none
	From           string // an address
	To             []string
	Roots          *x509.CertPool // nil: the system's
}

// DescribePlace returns the kind of the channel and its server.
func (m *Mail) DescribePlace() string { return "smtp " + m.Server }

// SendNotice sends a notice. ctx must end at some time.
func (m *Mail) SendNotice(ctx context.Context, n *Notice) error {
	c, err := m.dialServer(ctx)
	if err != nil {
		return m.explainError(err)
	}
	defer c.Close()
	if err := m.sendMessage(c, m.writeMessage(n)); err != nil {
		return m.explainError(err)
	}
	return nil
}

// dialServer returns an encrypted and authenticated connection to the server.
func (m *Mail) dialServer(ctx context.Context) (_ *smtp.Client, err error) {
	host, _, err := net.SplitHostPort(m.Server)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "%s: the server must be host:port", m.DescribePlace())
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Server)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	// SendNotice must end with ctx, whatever the server does. The caller cancels it in any case.
	raw := conn
	context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) }) // it may be closed by now
	secure := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: m.Roots}
	if m.TLS == Implicit {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return nil, err
	}
	if m.TLS == StartTLS || m.TLS == "" {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return nil, tool.Errorf(tool.Invalid, "%s does not offer STARTTLS, and nothing is sent without "+
				"encryption: set tls: implicit, or use another server", m.DescribePlace())
		}
		if err := c.StartTLS(secure); err != nil {
			return nil, err
		}
	}
	if m.User != "" {
		if err := c.Auth(smtp.PlainAuth("", m.User, m.Password, host)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// sendMessage sends one message to all recipients.
func (m *Mail) sendMessage(c *smtp.Client, text []byte) error {
	if err := c.Mail(m.From); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := c.Rcpt(to); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the message is accepted
	return nil
}

// writeMessage returns a notice as a message. What comes from outside is encoded, so it can't add
// headers.
func (m *Mail) writeMessage(n *Notice) []byte {
	var b bytes.Buffer
	host := m.From[strings.LastIndexByte(m.From, '@')+1:]
	for _, h := range [][2]string{
		{"From", m.From}, {"To", strings.Join(m.To, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", "Biplane: "+n.FormatTitle())},
		{"Date", n.Time.Format(time.RFC1123Z)}, {"Message-ID", "<" + n.ID + "@" + host + ">"},
		{"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(h[0] + ": " + strings.NewReplacer("\r", "", "\n", "").Replace(h[1]) + "\r\n")
	}
	b.WriteString("\r\n")
	lines := []string{n.FormatTitle() + "."}
	if at := n.FindPlace(); at != "" {
		lines = append(lines, at)
	}
	if more := n.FormatOmission(); more != "" {
		lines = append(lines, more)
	}
	q := quotedprintable.NewWriter(&b)
	// A bytes.Buffer returns no errors.
	_, _ = q.Write([]byte(strings.Join(lines, "\r\n\r\n") + "\r\n"))
	_ = q.Close()
	return b.Bytes()
}

// explainError returns an error whose kind shows if another attempt may succeed. Answers 5xx of a
// mail server are permanent.
func (m *Mail) explainError(err error) error {
	var own *tool.Error
	if errors.As(err, &own) {
		return err
	}
	kind := tool.Unavailable
	if e := (*textproto.Error)(nil); errors.As(err, &e) && e.Code/100 == 5 {
		kind = tool.Invalid
	}
	return &tool.Error{Kind: kind, Msg: m.DescribePlace() + ": " + tool.VisibleLine(err.Error()), Err: err}
}
