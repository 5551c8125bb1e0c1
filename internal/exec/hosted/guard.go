package hosted

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A guard decides on the connections of a server. It is a sandbox.Traffic.
type guard struct {
	*traffic.Traffic
	client *egress.Client
}

// newGuard returns the guard of a server.
func newGuard(s *Server, g *Gate) *guard {
	return &guard{traffic.NewTraffic(traffic.Config{Owner: s, Hosts: g.Hosts, Door: g.Door,
		Name: s.host.ownPrincipal().ID + "." + strings.ToLower(rand.Text()[:8])}), g.Client}
}

// CallNetwork calls one of Biplane's tools for the network. The server's own client makes the
// connection.
func (g *guard) CallNetwork(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	if x := egress.ExchangeFrom(ctx); x != nil {
		ctx = egress.WithExchange(ctx, ownExchange{x, g.client})
	}
	return g.Traffic.CallNetwork(ctx, name, arguments)
}

// An ownExchange makes an exchange by the client of one server.
type ownExchange struct {
	egress.Exchange
	client *egress.Client
}

// MakeExchange makes the exchange.
func (x ownExchange) MakeExchange(ctx context.Context, _ *egress.Client, u *url.URL) (*tool.Result, error) {
	return x.Exchange.MakeExchange(ctx, x.client, u)
}

// DescribeCaller implements traffic.Owner.
func (s *Server) DescribeCaller() tool.Call {
	g := s.host.cfg.Gate
	return tool.Call{Principal: s.host.ownPrincipal(), By: &tool.Program{Sandbox: s.host.ownPrincipal().ID,
		Tier: tool.Process, Serving: &tool.Serving{Hosts: g.Reach, Grantor: g.Grantor}}}
}

// KeepLabels implements traffic.Owner. The labels of a server's results are those of its tools.
func (s *Server) KeepLabels(context.Context, []string) (more bool, err error) { return false, nil }

// AddNote implements traffic.Owner: the note is on the server's standard error.
func (s *Server) AddNote(text string) { s.streams.addNote(text) }
