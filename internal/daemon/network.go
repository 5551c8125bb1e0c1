package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/exec/egress"
	sandboxnet "github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/tool"
)

// networkTools returns the tools behind a program's fetch. Only programs can call them; agents
// don't see them.
func networkTools() []*tool.Tool {
	yes, no := true, false
	schema := func(methods string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","maxLength":8192},` +
			`"method":{"type":"string","enum":[` + methods + `]},"headers":{"type":"object",` +
			`"additionalProperties":{"type":"string"}},"body":{"type":"string"},"base64":{"type":"boolean",` +
			`"description":"body is base64"}},"required":["url"],"additionalProperties":false}`)
	}
	return []*tool.Tool{
		{Upstream: tool.Own, Name: "fetch", Title: "Read from a host",
			Description: "What fetch(url) in a program calls.", InputSchema: schema(`"GET","HEAD"`),
			Annotations: tool.Annotations{ReadOnly: &yes, Idempotent: &yes}},
		{Upstream: tool.Own, Name: "send", Title: "Send to a host",
			Description: "What fetch(url, { method }) in a program calls where the method may change something.",
			InputSchema: schema(`"POST","PUT","PATCH","DELETE","OPTIONS"`),
			Annotations: tool.Annotations{ReadOnly: &no},
			// The simulated answer in a plan is generated from it.
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"status":{"const":200},` +
				`"statusText":{"const":"OK"},"url":{"type":"string","format":"uri"},"headers":{"type":"object"},` +
				`"text":{"type":"string"}},"required":["status","statusText","url","headers","text"]}`)},
		{Upstream: tool.Own, Name: "connect", Title: "Connect to a host",
			Description: "What a connection calls that a program makes itself, and whose requests are not seen.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","maxLength":8192},` +
				`"method":{"const":"CONNECT"}},"required":["url","method"],"additionalProperties":false}`),
			Annotations: tool.Annotations{ReadOnly: &no}},
	}
}

// newEngine returns how this program becomes the processes of sandboxes. The settings may be nil.
func newEngine(command []string, log *slog.Logger, s *config.Config) engine {
	var n config.Network
	if s != nil {
		n = s.Network
	}
	return engine{command: command, log: log, network: newSandboxNetwork(n, n.Secrets, log)}
}

// newSandboxNetwork returns the network of sandboxes whose programs have placeholders of secrets.
func newSandboxNetwork(n config.Network, secrets []egress.Secret, log *slog.Logger) *sandboxnet.Network {
	cfg := sandboxnet.Config{Ports: n.Ports, Authorities: string(n.Authorities), Log: log}
	for _, one := range secrets {
		cfg.Variables = append(cfg.Variables, one.Name+"="+egress.Placeholder(one.Name))
		cfg.Opened = append(cfg.Opened, one.Hosts...)
	}
	return sandboxnet.NewNetwork(cfg)
}

// A network is the Caller of the network tools.
type network struct{ client *egress.Client }

func (d assembly) newNetwork() network {
	s := d.cfg.Settings.Network
	return network{egress.New(egress.Config{Private: s.Private, Version: d.cfg.Version, Authorities: s.Authorities,
		Inserted: s.Secrets, Secrets: d.upstreams.secrets})}
}

// Call sends a program's request. Policy was checked for the same target: both use policy.TargetOf.
func (n network) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if by := c.FromProgram(); by.Execution == "" && by.Sandbox == "" {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s is for programs: call fetch in one", c.Path))
	}
	t, err := policy.TargetOf(c.Arguments)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	if x := egress.ExchangeFrom(ctx); x != nil {
		if err := c.Observe().OnLabels(nil); err != nil { // the answer reaches the program before the result does
			return nil, tool.NotSent(err)
		}
		return x.MakeExchange(egress.WithPrincipal(ctx, c.Principal.ID), n.client, t.URL)
	}
	if t.IsOpaque() {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s is for the network of sandboxes: call fetch", c.Path))
	}
	var a struct {
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Base64  bool              `json:"base64"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "fetch: %w", err))
	}
	q := egress.Request{Principal: c.Principal.ID, Method: t.Method, URL: t.URL, Header: a.Headers,
		Body: []byte(a.Body)}
	if a.Base64 {
		if q.Body, err = base64.StdEncoding.DecodeString(a.Body); err != nil {
			return nil, tool.NotSent(tool.Errorf(tool.Invalid, "fetch: the body is not valid base64: %w", err))
		}
	}
	resp, err := n.client.Do(ctx, q)
	switch e := tool.AsError(err); {
	case err == nil:
		// The arguments were counted before. If a limit is exceeded now, the next call is refused.
		m, _ := tool.MeterFrom(ctx)
		_ = m.CountBytes(0, int64(len(resp.Body)))
		return makeResponse(t, resp)
	case e.Kind == tool.Unavailable && t.Reads():
		return tool.Text(true, e.Msg), nil // one host failed, not the network: the tool stays usable for others
	default:
		return nil, err
	}
}

// makeResponse returns the result from which a program's fetch builds its Response.
func makeResponse(t *policy.Target, r *egress.Response) (*tool.Result, error) {
	v := struct {
		Status     int               `json:"status"`
		StatusText string            `json:"statusText"`
		URL        string            `json:"url"`
		Headers    map[string]string `json:"headers"`
		Text       *string           `json:"text,omitempty"`
		Base64     *string           `json:"base64,omitempty"`
	}{Status: r.Status, StatusText: r.Text, URL: t.URL.String(), Headers: r.Headers}
	if text := string(r.Body); utf8.ValidString(text) {
		v.Text = &text
	} else {
		data := base64.StdEncoding.EncodeToString(r.Body)
		v.Base64 = &data
	}
	structured, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	return tool.StructuredResult(structured)
}
