package network

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
)

// A gate is the host's end of the network of one sandbox.
type gate struct {
	cfg       Config
	authority *authority
	pins      *pins
	names     *net.UDPConn
	tcp       []*net.TCPListener // in the order of package netns, from LongName on
}

// DescribeSetup returns the setup for the sandbox.
func (g *gate) DescribeSetup() netns.Setup {
	return netns.Setup{Ports: g.cfg.Ports, Authorities: g.authority.encodePEM() + g.cfg.Authorities,
		Environment: append(listVariables(), g.cfg.Variables...)}
}

// AttachListeners accepts the sandbox's listeners.
func (g *gate) AttachListeners(files []*os.File) error {
	defer func() {
		for _, f := range files {
			_ = f.Close() // the listeners are copies
		}
	}()
	if len(files) != netns.FirstPort+len(g.cfg.Ports) {
		return errors.New("the sandbox passed out another number of listeners than it should")
	}
	for i, f := range files {
		if i == netns.Names {
			c, err := net.FilePacketConn(f)
			if err != nil {
				return err
			}
			udp, ok := c.(*net.UDPConn)
			if !ok {
				return errors.Join(errors.New("the sandbox's name server is no UDP socket"), c.Close())
			}
			g.names = udp
			continue
		}
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		tcp, ok := l.(*net.TCPListener)
		if !ok {
			return errors.Join(errors.New("a listener of the sandbox is no TCP socket"), l.Close())
		}
		g.tcp = append(g.tcp, tcp)
	}
	return nil
}

// CloseListeners closes the listeners.
func (g *gate) CloseListeners() error {
	var errs []error
	if g.names != nil {
		errs = append(errs, g.names.Close())
	}
	for _, l := range g.tcp {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// OpenTraffic serves the sandbox until close is called.
func (g *gate) OpenTraffic(ctx context.Context, t sandbox.Traffic) (close func()) {
	if t == nil {
		t = noTraffic{}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &service{gate: g, traffic: t, conns: map[net.Conn]struct{}{}}
	s.http = s.newServer(ctx)
	s.queue = &connQueue{conns: make(chan net.Conn), done: ctx.Done()}
	past, never := time.Unix(1, 0), time.Time{}
	_ = g.names.SetDeadline(never) // fails only if it is closed: then reading fails, too
	for _, l := range g.tcp {
		_ = l.SetDeadline(never)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { s.serveNames(ctx, g.names) })
	for i, l := range g.tcp {
		accepting.Go(func() { s.acceptAll(ctx, l, i+1) })
	}
	s.work.Go(func() { _ = s.http.Serve(s.queue) }) // it ends when the queue does
	return func() {
		cancel()
		_ = g.names.SetDeadline(past)
		for _, l := range g.tcp {
			_ = l.SetDeadline(past)
		}
		accepting.Wait()
		s.closeConns()
		_ = s.http.Close()
		s.work.Wait()
	}
}
