package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/serve/local"
	"github.com/biplane-dev/biplane/internal/serve/relay"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ServeMCP speaks MCP with one agent. It owns the data folder if no other process does; otherwise
// it relays to the owner. The owner ends when its own agent is closed. Then this process replaces
// it, or relays to the one that did. The agent only sees errors for the calls that were under way.
func ServeMCP(ctx context.Context, cfg Config, in io.Reader, out io.Writer) error {
	d, owner, err := openOrFindOwner(ctx, cfg)
	if err != nil {
		return err
	}
	if d != nil {
		own := start(ctx, d)
		// Run ends the conversation once the calls under way are answered.
		defer context.AfterFunc(ctx, own.cancel)()
		err := d.ServeStdio(context.WithoutCancel(ctx), in, out)
		if ctx.Err() != nil {
			err = nil
		}
		return errors.Join(err, own.stop())
	}
	if err := sameMode(ctx, cfg, owner.PID); err != nil {
		return err
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log.Info("biplane is already running: this process relays messages to it", "pid", owner.PID)
	c := &connector{cfg, log, rand.Text()}
	return relay.Run(ctx, relay.Config{Connector: c, Drain: drainTime, Log: log}, in, out)
}

// sameMode returns an error if the owner serves agents in another mode.
func sameMode(ctx context.Context, cfg Config, pid int) error {
	s, err := requestStatus(ctx, local.Client(cfg.DataDir))
	if err != nil || cfg.Settings == nil || s.Mode == cfg.Settings.Mode {
		return nil // the owner may have ended by now: connecting to it reports that
	}
	return tool.Errorf(tool.Conflict, "data folder %s is in use by biplane process %d, which runs in mode %s, not "+
		"%s: stop that process, or use another folder with --data-dir",
		cfg.DataDir, pid, s.Mode, cfg.Settings.Mode)
}

// A connector opens and reopens the connection of one agent.
type connector struct {
	cfg  Config
	log  *slog.Logger
	name string // of the connection, known to the processes that serve it
}

// ConnectBackend returns a backend: the process that owns the data folder, or a Daemon in this
// process.
func (c *connector) ConnectBackend(ctx context.Context) (relay.Backend, error) {
	var last error
	for range 5 { // an owner may end after take has seen it
		d, _, err := openOrFindOwner(ctx, c.cfg)
		if err != nil {
			return nil, err
		}
		if d != nil {
			return c.ownBackend(ctx, d), nil
		}
		back, err := local.DialStdio(ctx, c.cfg.DataDir, c.name, c.cfg.Profile)
		if err == nil {
			return back, nil
		}
		last = err
	}
	return nil, tool.Errorf(tool.Unavailable, "the biplane process that owns the data folder takes no connection: %w",
		last)
}

// ownBackend returns a backend that is a Daemon in this process.
func (c *connector) ownBackend(ctx context.Context, d *Daemon) relay.Backend {
	own := start(ctx, d)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := httpapi.StdioClient{Connection: c.name, Profile: c.cfg.Profile, KnowsEnd: true}
		err := d.serveConnection(context.WithoutCancel(ctx), client, inR, outW)
		if err != nil {
			c.log.Error("mcp", "err", err)
		}
		outW.Close()
	}()
	return &ownBackend{PipeReader: outR, in: inW, own: own, done: done}
}

// An ownBackend is a Daemon in this process.
type ownBackend struct {
	*io.PipeReader
	in   *io.PipeWriter
	own  *running
	done chan struct{} // closed when the connection is no longer served

	once sync.Once // stops the Daemon
	err  error
}

// Write writes to the connection.
func (b *ownBackend) Write(p []byte) (int, error) { return b.in.Write(p) }

// CloseWrite closes the connection for writing.
func (b *ownBackend) CloseWrite() error { return b.in.Close() }

// Close closes the connection and stops the Daemon.
func (b *ownBackend) Close() error {
	b.once.Do(func() {
		b.in.Close()
		b.PipeReader.Close()
		b.err = b.own.stop()
		<-b.done
	})
	return b.err
}
