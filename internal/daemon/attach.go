package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/engineproc"
	"github.com/biplane-dev/biplane/internal/serve/local"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// patience is how long to wait for the owner of the data folder to start, stop or answer.
const patience = 10 * time.Second

// firstWait is how long the process of a single command waits for servers to connect, unless the
// configuration sets a time. The first run of npx or uvx downloads the server, and a process that
// gave up early would start over the next time.
const firstWait = time.Minute

// An Attachment is a connection to the Daemon of a data folder, which runs in another process or in
// this one. When the other process ends, its successor is asked, or this process becomes it.
type Attachment struct {
	Client *api.Client
	Notice string // what the user should know about the other process; may be empty

	cfg   Config
	owner http.RoundTripper // asks the other process

	mu  sync.Mutex
	own *running // nil when another process runs it
}

// Attach connects to the process that owns the data folder, or starts a Daemon here if there is
// none. That Daemon starts its upstreams on first use. Attach returns an error of kind
// tool.Conflict if the owner runs with another configuration file.
func Attach(ctx context.Context, cfg Config) (*Attachment, error) {
	cfg.Lazy = true
	if s := cfg.Settings; s != nil && !s.StartWaitSaid {
		patient := *s
		patient.StartWait = firstWait
		cfg.Settings = &patient
	}
	d, owner, err := openOrFindOwner(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a := &Attachment{cfg: cfg, owner: local.Transport(cfg.DataDir)}
	a.Client = &api.Client{Base: "http://localhost", HTTP: &http.Client{Transport: a}}
	if d != nil {
		a.own = start(ctx, d)
		return a, nil
	}
	s, err := requestStatus(ctx, a.Client)
	if err != nil {
		return nil, errors.Join(tool.Errorf(tool.Unavailable,
			"biplane process %d owns the data folder, and does not answer: %w", owner.PID, err), a.Close())
	}
	if s.Version != cfg.Version {
		a.Notice = fmt.Sprintf(
			"process %d, which answers, is biplane %s, and this is %s: stop that process to use this one", s.PID,
			s.Version, cfg.Version)
	}
	if cfg.Settings != nil && s.ConfigSum != cfg.Settings.Sum {
		a.Notice = fmt.Sprintf(
			"%s has changed since process %d, which answers, read it: stop that process to use the new one",
			s.Config, s.PID)
	}
	return a, nil
}

// RoundTrip sends a request to the Daemon. If the process that runs the Daemon ends before it
// handles the request, RoundTrip sends it to the next one.
func (a *Attachment) RoundTrip(r *http.Request) (*http.Response, error) {
	late := time.Now().Add(patience)
	for {
		if own := a.ownDaemon(); own != nil {
			return own.api.RoundTrip(r)
		}
		resp, retry, err := a.askOwner(r)
		if !retry || r.Context().Err() != nil || time.Now().After(late) {
			return resp, err
		}
		if r.GetBody != nil {
			r = r.Clone(r.Context())
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		if err := a.findSuccessor(r.Context()); err != nil {
			return nil, err
		}
	}
}

// askOwner sends a request to the other process. If that process ends, retry reports whether the
// request can be sent again: it had no effect, or only reads.
func (a *Attachment) askOwner(r *http.Request) (resp *http.Response, retry bool, err error) {
	var sent atomic.Bool
	hasBody := r.Body != nil && r.Body != http.NoBody
	repeatable := !hasBody || r.GetBody != nil
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got100Continue: func() { sent.Store(true) }})
	out := r.Clone(ctx)
	if hasBody {
		out.Header.Set("Expect", "100-continue") // the body follows once the handler reads it
	}
	resp, err = a.owner.RoundTrip(out)
	dial := (*net.OpError)(nil)
	switch {
	case err != nil && errors.As(err, &dial) && dial.Op == "dial":
		return nil, repeatable, err
	case err != nil && hasBody:
		return nil, repeatable && !sent.Load(), err
	case err != nil:
		return nil, r.Method == http.MethodGet, err
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get(local.StoppingHeader) != "":
		return resp, repeatable, nil
	}
	return resp, false, nil
}

// findSuccessor starts a Daemon here, or waits until another process owns the data folder.
func (a *Attachment) findSuccessor(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.own != nil {
		return nil
	}
	d, _, err := openOrFindOwner(ctx, a.cfg)
	if d != nil {
		a.own = start(ctx, d)
	}
	return err
}

// ownDaemon returns the Daemon that this process runs; nil if another process does.
func (a *Attachment) ownDaemon() *running {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own
}

// Connecting returns the names of the servers that this process's own Daemon is still connecting
// to.
func (a *Attachment) Connecting() []string {
	own := a.ownDaemon()
	if own == nil {
		return nil
	}
	return own.d.upstreams.listConnecting()
}

// Close stops the Daemon if this process owns it, and waits until everything it started is gone.
func (a *Attachment) Close() error {
	own := a.ownDaemon()
	if own == nil {
		return nil
	}
	return own.stop()
}

// requestStatus requests the status of a process, with a timeout of patience.
func requestStatus(ctx context.Context, c *api.Client) (*api.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.Status(ctx)
}

// A running is a Daemon whose Run has been called.
type running struct {
	d      *Daemon
	api    *local.InProcess
	cancel context.CancelFunc
	done   chan error
}

func start(ctx context.Context, d *Daemon) *running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{d, &local.InProcess{Handler: d.refuseNewWork(d.servers.http.Socket()), Log: d.log}, cancel,
		make(chan error, 1)}
	d.recover(ctx) // callers may use the Daemon as soon as start returns
	go func() { r.done <- d.Run(ctx) }()
	return r
}

// stop stops the Daemon. Requests whose callers have gone first get drainTime to end. An execution
// that is canceled with its request then ends as canceled, and the next process doesn't resume it.
// Requests that never end are abandoned and named in the error; what they depend on is closed.
func (r *running) stop() error {
	idle := make(chan struct{})
	go func() { r.api.Wait(); close(idle) }()
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
	r.cancel()
	err := <-r.done
	late.Reset(closeTime - drainTime)
	var left error
	select {
	case <-idle:
	case <-late.C:
		left = tool.Errorf(tool.Internal, "biplane ends, and requests to it did not: %s",
			strings.Join(r.api.UnderWay(), ", "))
	}
	return errors.Join(err, left, r.d.Close())
}

// openOrFindOwner returns a new Daemon, or the owner of the data folder once it answers. It waits
// up to patience for an owner that is starting or stopping.
func openOrFindOwner(ctx context.Context, cfg Config) (*Daemon, store.Owner, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		d, err := New(context.WithoutCancel(ctx), cfg)
		owner, owned := FindOwner(err)
		if !owned {
			return d, store.Owner{}, err
		}
		engineproc.Ahead().Close() // programs run in the other process
		if owner.PID != 0 {
			if err := sameConfig(cfg, owner); err != nil {
				return nil, owner, err
			}
			if conn, derr := local.Dial(ctx, cfg.DataDir); derr == nil {
				conn.Close()
				return nil, owner, nil
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(context.Cause(ctx), context.Canceled) {
				return nil, owner, tool.AsError(context.Canceled)
			}
			return nil, owner, err
		}
	}
}

// sameConfig returns an error if the owner runs with another configuration file, since its tools
// would not be the requested ones.
func sameConfig(cfg Config, o store.Owner) error {
	file := ""
	if cfg.Settings != nil {
		file = cfg.Settings.File
	}
	if file == o.Config || cfg.Lazy && strings.HasPrefix(o.Config, file+config.OnlyFolderMark) {
		return nil // a single command also asks a process that serves a folder alone
	}
	name := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	return tool.Errorf(tool.Conflict, "data folder %s is in use by biplane process %d with another configuration "+
		"(%s, not %s): stop that process, or use another folder with --data-dir",
		cfg.DataDir, o.PID, name(o.Config), name(file))
}

// Client returns a client of the process that owns a data folder.
func Client(folder string) *api.Client { return local.Client(folder) }

// Explain converts an error to the API's error type.
func Explain(err error) *api.Error {
	e := tool.AsError(err)
	if e == nil {
		return nil
	}
	return &api.Error{Kind: string(e.Kind), Message: e.Msg}
}
