package daemon

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newMask returns a Masker of the configuration's secrets and of the data folder's key. Upstreams
// add their own secrets and the tokens of their sign-ins. It masks:
//
//	what upstreams send              session.receive in upstream/mcp
//	what Biplane's own tools answer  masked
//	requests for approval            maskedRequests
//	the HTTP API and the pages       Hide in their configuration
//	kept arguments and results       the Mask of retention.Policy
//	the log                          the handler that assemble makes
func newMask(s *config.Config, key *secret.Key) *mask.Masker {
	m := mask.New(mask.Shape{Prefix: identity.KeyPrefix, Length: identity.KeyLength})
	m.Add(key.Texts()...)
	addSecrets(m, s)
	m.Add(s.Notify.Secrets...)
	m.AddSecrets(s.Telemetry.Headers)
	m.AddAddress(s.Telemetry.OTLP)
	c := s.Audit.Checkpoints
	m.AddAddress(c.Webhook)
	if c.Git != nil {
		m.AddAddress(c.Git.Repository)
	}
	if c.S3 != nil {
		m.AddAddress(c.S3.Endpoint)
		m.Add(c.S3.AccessKey, c.S3.SecretKey, c.S3.Token)
	}
	return m
}

// addSecrets masks the secrets of a configuration's upstreams and variables.
func addSecrets(m *mask.Masker, s *config.Config) {
	m.Add(s.Secrets.Variables...)
	for i := range s.Servers { // including disabled ones
		c := &s.Servers[i]
		m.AddSecrets(c.Env)
		m.AddSecrets(c.Headers)
		m.AddArguments(c.Args)
		m.AddAddress(c.URL)
		m.Add(c.OAuth.ClientSecret)
	}
}

// maskCaller returns a Caller that removes secrets from everything that next returns or sends:
// results, errors, progress and log messages.
func maskCaller(m *mask.Masker, next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		call := *c
		if c.Observer != nil {
			call.Observer = maskedObserver{c.Observer, m}
		}
		r, err := next.Call(ctx, &call)
		if err != nil {
			return nil, maskedError(m, err)
		}
		return maskedResult(m, r)
	})
}

// A maskedObserver removes secrets from progress and log messages.
type maskedObserver struct {
	tool.Observer
	mask *mask.Masker
}

func (o maskedObserver) OnProgress(ctx context.Context, p tool.Progress) {
	p.Message = o.mask.Text(p.Message)
	o.Observer.OnProgress(ctx, p)
}

func (o maskedObserver) OnLog(ctx context.Context, l tool.Log) {
	l.Raw = o.mask.MaskJSON(l.Raw)
	o.Observer.OnLog(ctx, l)
}

func maskedError(m *mask.Masker, err error) error {
	e := tool.AsError(err)
	text := m.Text(e.Msg)
	if text == e.Msg {
		return err
	}
	clean := *e
	clean.Msg = text
	return &clean
}

func maskedResult(m *mask.Masker, r *tool.Result) (*tool.Result, error) {
	if r == nil {
		return nil, nil
	}
	raw := m.MaskJSON(r.Raw)
	if len(raw) == len(r.Raw) && (len(raw) == 0 || &raw[0] == &r.Raw[0]) {
		return r, nil
	}
	out, err := tool.ParseResult(json.RawMessage(raw))
	if err != nil {
		return nil, tool.Errorf(tool.Internal,
			"the answer has a secret of the configuration, and can't be given without it: %w", err)
	}
	out.Simulated = r.Simulated
	return out, nil
}

// shownRequests returns the approval requests without secrets in their arguments. The calls
// themselves are sent unchanged.
func (d *Daemon) shownRequests() approval.Requests { return maskedRequests{d.approvals, d.mask} }

type maskedRequests struct {
	approval.Requests
	mask *mask.Masker
}

// List returns the requests without secrets.
func (m maskedRequests) List(ctx context.Context, q approval.Query) ([]approval.Request, error) {
	all, err := m.Requests.List(ctx, q)
	for i := range all {
		m.clean(&all[i])
	}
	return all, err
}

// Get returns a request without secrets.
func (m maskedRequests) Get(ctx context.Context, id string) (*approval.Request, error) {
	return m.maskRequest(m.Requests.Get(ctx, id))
}

// Decide decides a request, and returns it without secrets.
func (m maskedRequests) Decide(ctx context.Context, d approval.Decider, id string, approve bool,
	note string) (*approval.Request, error) {
	return m.maskRequest(m.Requests.Decide(ctx, d, id, approve, note))
}

func (m maskedRequests) maskRequest(r *approval.Request, err error) (*approval.Request, error) {
	if r == nil {
		return nil, err
	}
	clean := *r
	m.clean(&clean)
	return &clean, err
}

func (m maskedRequests) clean(r *approval.Request) {
	r.Arguments = m.mask.MaskJSON(r.Arguments)
	r.Reason, r.Note = m.mask.Text(r.Reason), m.mask.Text(r.Note)
	r.Findings = slices.Clone(r.Findings) // they are shared with the call
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Message, f.Better = m.mask.Text(f.Message), m.mask.Text(f.Better)
	}
}
