// Package daemon assembles all parts into one value that a test can start: New, Run, Close. A
// Daemon is built from a configuration. It owns everything that outlives a request: the data
// folder, upstream connections, the engine and executions. It serves the HTTP API and MCP on a unix
// socket in the data folder, through which all other commands reach it. It can also serve them on a
// TCP address.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/ledger"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/limit"
	notices "github.com/biplane-dev/biplane/internal/control/notice"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/control/shape"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/serve/feed"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/serve/local"
	"github.com/biplane-dev/biplane/internal/serve/logs"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/serve/metrics"
	"github.com/biplane-dev/biplane/internal/serve/telemetry"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Daemon.
type Config struct {
	Settings *config.Config // nil means an empty configuration
	Source   ConfigSource   // reads the settings again; nil: they never change
	DataDir  string         // the data folder
	Key      string         // its key, from $BIPLANE_KEY; empty: the key file in the folder
	Listen   string         // address to serve besides the socket, host:port; port 0 for any; empty for none
	Version  string         // of Biplane
	Log      *slog.Logger   // nil discards
	// Engine holds the arguments that run this program as the process around the embedded engine;
	// its main must then call Engine. If empty, the engine runs in this process.
	Engine []string
	// Unprefixed lists tools without their namespace in mode direct if their names are unique.
	Unprefixed bool
	// Profile is the profile of the agent that ServeMCP serves; empty: none.
	Profile string
	// Lazy starts the upstreams on first use: a program that names one, a search, or a list of
	// tools.
	Lazy bool
	// Program is the program that this process was started to run, if any. It is parsed while the
	// other parts start.
	Program *api.RunRequest
	// Recover resumes the executions that had not ended when the previous process did.
	Recover bool

	drivers []driver         // kinds of sandboxes, for tests; nil: the kinds in the table
	clock   *wallclock.Clock // of executions and sessions, for tests; nil: the system's
}

// A Daemon is a complete Biplane process.
type Daemon struct {
	cfg       Config
	reload    *reloader // has the current settings
	log       *slog.Logger
	store     *store.Store
	keys      *identity.Keys
	audit     *audit.Log
	approvals *approval.Gate
	network   network
	mask      *mask.Masker   // removes secrets from all output
	privacy   *privacy.Guard // nil: personal data is not hidden
	limits    *limit.Limiter
	turns     *queue.Fair // for large work of the host, under any policies
	meters    meters
	sandboxes *sandboxes
	catalog   *catalog.Catalog
	shapes    *shape.Learner // of tools' results
	upstreams *upstreams
	policies  *policies
	executor  *executor.Executor
	sessions  session.Store
	index     *index
	keeper    keeper
	servers   frontends
	warm      warmUp
	life      lifecycle
}

// meters measure what calls and programs cost.
type meters struct {
	tokens  *tokens.Counter
	usage   *usage.Meter
	metrics *metrics.Registry
	tracer  *telemetry.Tracer // nil: no traces are recorded
}

// A keeper maintains the audit record.
type keeper struct {
	store    *store.Audit
	ledger   *ledger.Ledger // the record, as the API and the doctor show it
	tampered tampered
}

// frontends answer agents and people.
type frontends struct {
	mcp      *mcpserver.Server
	http     *httpapi.Server
	log      logs.Book
	notices  *notices.Notifier // to people
	expiries *expiries         // that were in a notice
	events   *feed.Book        // for clients of the API
	socket   net.Listener
	tcp      net.Listener // nil if it doesn't listen
	admin    net.Listener // for profiles and metrics; nil if it isn't configured
}

// A warmUp prepares in the background what the first program needs.
type warmUp struct {
	work  sync.WaitGroup
	first *program.Ahead // part of work; nil if no program is known yet
}

// A lifecycle holds what happens once in the life of a Daemon.
type lifecycle struct {
	started  time.Time
	stopping atomic.Bool // no new work is accepted
	resumed  sync.Once   // the executions of the previous process
	closed   sync.Once
}

// New locks the data folder, creates all parts and listens. It starts nothing; Run does. If another
// process owns the data folder, New returns a *tool.Error of kind tool.Conflict; see Owned.
func New(ctx context.Context, cfg Config) (_ *Daemon, err error) {
	if !cfg.Lazy {
		spareHeap()
	}
	if cfg.Settings == nil {
		cfg.Settings = config.Default()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Version = cmp.Or(cfg.Version, "dev")
	if cfg.drivers == nil {
		cfg.drivers = drivers
	}
	d := &Daemon{cfg: cfg, log: cfg.Log, meters: meters{tokens: &tokens.Counter{}},
		life: lifecycle{started: time.Now().UTC().Truncate(time.Second)}}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if cfg.Listen != "" {
		if err := identity.CheckExposure(cfg.Listen, cfg.Settings.Auth != nil, cfg.Settings.TLS.Private()); err != nil {
			return nil, err
		}
	}
	if p := cfg.Program; p != nil { // parsed in the background
		d.warm.first = program.NewAhead(program.Request{Source: p.Code, Language: p.Language, Session: p.Session != ""})
		d.warm.work.Go(func() { stack.Grow(); d.warm.first.Read() })
	}
	d.store, err = store.Open(ctx, store.Config{
		Path: cfg.DataDir, Owner: store.Owner{Config: cfg.Settings.File, Version: cfg.Version, Started: d.life.started},
		Log: d.log, Tampered: &d.keeper.tampered,
		Prepare: func() error { return checkKey(cfg.DataDir, cfg.Key) },
	})
	if err != nil {
		return nil, err
	}
	key, err := openKey(cfg.DataDir, cfg.Key)
	if err != nil {
		return nil, err
	}
	if err := (assembly{d, key}).createParts(ctx); err != nil {
		return nil, err
	}
	if d.servers.socket, err = local.Listen(cfg.DataDir); err != nil {
		return nil, err
	}
	if cfg.Listen != "" {
		if d.servers.tcp, err = d.listenTCP(cfg.Listen); err != nil {
			return nil, err
		}
		if d.servers.admin, err = listenAdmin(cfg.Settings.Telemetry.Admin); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// ServeConnection implements httpapi.Stdio.
func (d *Daemon) ServeConnection(ctx context.Context, c httpapi.StdioClient, rw io.ReadWriteCloser) error {
	d.upstreams.StartUpstreams()
	return d.serveConnection(ctx, c, rw, rw)
}

// Ready returns an error as long as the upstreams are connecting for the first time.
func (d *Daemon) Ready() error {
	d.upstreams.StartUpstreams()
	select {
	case <-d.upstreams.settled:
		return nil
	default:
		return tool.Errorf(tool.Unavailable, "upstreams are connecting")
	}
}

// Run runs the upstreams and serves until ctx is done. Then it accepts no new work, waits a few
// seconds for the work under way, and stops the rest. It returns when everything it started
// (upstream processes, programs, connections) is gone. It may be called only once.
func (d *Daemon) Run(ctx context.Context) error {
	d.announceStart()
	if !d.cfg.Lazy {
		d.upstreams.StartUpstreams()
	}
	upstreams, stopUpstreams := context.WithCancel(context.WithoutCancel(ctx))
	defer stopUpstreams()
	var wg sync.WaitGroup
	wg.Go(func() { d.upstreams.run(upstreams) })
	wg.Go(func() { d.keepAudit(upstreams) })
	wg.Go(func() { d.reviewNames(upstreams) })
	wg.Go(func() { d.servers.notices.SendNotices(upstreams) })
	if !d.cfg.Lazy {
		wg.Go(func() { people{d}.watchExpiries(upstreams) })
		wg.Go(func() { d.keeper.ledger.Send(upstreams) })
	}
	wg.Go(func() { d.reload.watchFiles(upstreams) })
	wg.Go(func() { d.meters.usage.Run(upstreams) })
	wg.Go(func() { d.privacy.Run(upstreams) })
	wg.Go(func() { d.shapes.Run(upstreams) })
	wg.Go(func() { d.sandboxes.own.RunKeeper(upstreams) })
	wg.Go(func() { d.upstreams.hosting.memory.RunKeeper(upstreams) })
	if !d.cfg.Lazy {
		wg.Go(func() { d.releaseAfterStart(upstreams) })
	}

	d.recover(ctx)
	failed := make(chan error, 3)
	servers := []*server{serve(d.servers.socket, d.refuseNewWork(d.servers.http.Socket()), d.log, failed)}
	if d.servers.tcp != nil {
		observed := telemetry.ObserveRequests(d.log, d.cfg.Settings.Telemetry.AccessLog, d.refuseNewWork(d.listener()))
		servers = append(servers, serve(d.servers.tcp, findClients(d.cfg.Settings.Proxies, observed), d.log, failed))
	}
	if d.servers.admin != nil {
		admin := telemetry.AdminHandler(d.meters.metrics.Handler(d.log))
		servers = append(servers, serve(d.servers.admin, admin, d.log, failed))
	}
	select {
	case <-ctx.Done():
	case <-failed: // server.stop returns the reason
	}
	errs := d.shutDown(context.WithoutCancel(ctx), servers)
	stopUpstreams()
	wg.Wait()
	return errors.Join(append(errs, d.signAudit(context.WithoutCancel(ctx)))...)
}

// drainTime is how long work under way may take to end when the daemon stops. closeTime also
// includes the time for the servers to stop.
const (
	drainTime = 5 * time.Second
	closeTime = drainTime + 3*time.Second
)

// shutDown shuts down from the outside in: it refuses new work, waits for the work under way, then
// stops what that depended on. The first server closes its listener at once, so that other
// processes wait for this one to end instead of connecting to it. The others accept connections for
// longer, to answer why they refuse.
func (d *Daemon) shutDown(ctx context.Context, servers []*server) []error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	d.life.stopping.Store(true)
	if p := d.sandboxes.previews; p != nil {
		p.server.CloseAll()
	}
	results := make([]error, len(servers))
	var stopped sync.WaitGroup
	stopped.Go(func() { results[0] = servers[0].stop(ctx) })
	draining, cancelDrain := context.WithTimeout(ctx, drainTime)
	defer cancelDrain()
	var errs []error
	// Callers that wait for a program are told that it continues in the next process. A caller
	// whose connection is cut would cancel its program.
	d.servers.mcp.Drain(draining, func() { errs = append(errs, d.executor.Close()) })
	errs = append(errs, d.servers.mcp.Close(), d.servers.http.Close())
	for i, s := range servers[1:] {
		stopped.Go(func() { results[i+1] = s.stop(ctx) })
	}
	all := make(chan struct{})
	go func() { stopped.Wait(); close(all) }()
	select {
	case <-all:
	case <-draining.Done():
	}
	// Stop the programs that still run; their callers get an error.
	errs = append(errs, d.executor.Close())
	<-all
	return append(errs, results...)
}

// refuseNewWork refuses requests that would start new work once the daemon is stopping. MCP has its
// own errors for that.
func (d *Daemon) refuseNewWork(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && !httpapi.IsMCP(r.URL.Path) && d.life.stopping.Load() {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			w.Header().Set(local.StoppingHeader, "true")
			httpapi.WriteProblem(w, tool.Errorf(tool.Unavailable,
				"biplane is stopping: send this again when it is back"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// announceStart logs what this process is and which protections it lacks.
func (d *Daemon) announceStart() {
	s := d.cfg.Settings
	config := s.File
	if config == "" {
		config = "none: no upstream tools"
	}
	d.log.Info("biplane "+d.cfg.Version, "config", config, "data", d.cfg.DataDir, "mode", s.Mode, "tier",
		s.Sandbox.Tier.String())
	d.policies.announcePolicies()
	for _, w := range s.Warnings {
		d.log.Warn(fmt.Sprintf("%s:%d:%d: %s", s.File, w.Line, w.Column, w.Message))
	}
	if d.servers.tcp != nil {
		d.log.Info("listening", "mcp", d.URL()+"/mcp", "api", d.URL()+api.Prefix, "sign-in", d.cfg.Settings.SignIn())
	}
}

// Addr returns the address that the daemon listens on; empty if there is none.
func (d *Daemon) Addr() string {
	if d.servers.tcp == nil {
		return ""
	}
	return d.servers.tcp.Addr().String()
}

// ServeStdio speaks MCP with one agent over in and out. Run must be under way.
func (d *Daemon) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	return d.serveConnection(ctx, httpapi.StdioClient{Profile: d.cfg.Profile}, in, out)
}

// Client returns a client of this daemon's socket. Run must be under way.
func (d *Daemon) Client() *api.Client { return local.Client(d.cfg.DataDir) }

// Status returns the state of the daemon.
func (d *Daemon) Status() api.Status {
	s := d.reload.settings.Load()
	view := d.catalog.View()
	engine, problem := d.policies.state()
	sinks, _ := d.keeper.ledger.Sinks()
	running, queued := d.executor.Load()
	return api.Status{
		Version: d.cfg.Version, PID: os.Getpid(), Started: d.life.started, Config: s.File, ConfigSum: s.Sum,
		DataDir: d.cfg.DataDir, Listen: d.Addr(),
		Mode: s.Mode, Policy: s.Policy, PolicyVersion: engine.Version(), PolicyProblem: problem,
		Tier: s.Sandbox.Tier.String(), Executions: running + queued, Upstreams: len(view.Upstreams()),
		Tools: len(view.Entries()), Checkpoints: sinks, Warnings: d.listWarnings(), Reload: d.reload.state.Load(),
	}
}

// Upstreams returns the state of the upstreams in the order of the configuration, once they are
// past their first connection attempt.
func (d *Daemon) Upstreams(ctx context.Context) []api.Upstream {
	d.upstreams.WaitReady(ctx)
	namespaces := map[string]string{}
	for _, u := range d.catalog.View().Upstreams() {
		namespaces[u.Name] = u.Namespace
	}
	waiting := d.upstreams.waitingHints()
	out := make([]api.Upstream, 0, len(d.upstreams.listSources()))
	for _, s := range d.upstreams.listSources() {
		snap := s.up.Snapshot()
		u := api.Upstream{
			Name: s.up.Name(), Namespace: namespaces[s.up.Name()], Type: s.kind, Target: s.target,
			State: string(snap.Health.State), Reason: snap.Health.Reason, Stale: snap.Health.Stale,
			Tools: len(snap.Tools), Protocol: snap.Protocol, Server: snap.Server, Stderr: snap.Stderr,
			Weaker: waiting[s.up.Name()], Definitions: d.upstreams.wireNotices(s),
			Sandbox: d.upstreams.describeSandbox(s),
		}
		for _, b := range snap.Broken {
			u.Broken = append(u.Broken, api.Broken{Tool: b.Tool, Reason: b.Reason})
		}
		out = append(out, u)
	}
	return out
}

// Close releases what New acquired. Run must have returned or never been called. Further calls do
// nothing.
func (d *Daemon) Close() error {
	var errs []error
	d.life.closed.Do(func() {
		d.life.stopping.Store(true)
		d.warm.work.Wait()
		for _, l := range []net.Listener{d.servers.socket, d.servers.tcp, d.servers.admin} {
			if l != nil {
				if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
					errs = append(errs, err)
				}
			}
		}
		if d.servers.mcp != nil {
			errs = append(errs, d.servers.mcp.Close())
		}
		if d.executor != nil {
			errs = append(errs, d.executor.Close())
		}
		if d.upstreams != nil {
			errs = append(errs, d.upstreams.functions.Close())
		}
		if err := d.meters.tracer.CloseTracer(); err != nil {
			d.log.Warn("the last traces were not sent", "err", err)
		}
		if d.network.client != nil {
			d.network.client.Close()
		}
		if d.policies != nil {
			d.policies.calls.StopWaiting()
		}
		if d.sandboxes != nil {
			errs = append(errs, d.sandboxes.Close())
		}
		d.keeper.tampered.close()
		if d.store != nil {
			errs = append(errs, d.store.Close())
		}
	})
	return errors.Join(errs...)
}

// FindOwner returns the process that owns the data folder, if that is why New failed.
func FindOwner(err error) (store.Owner, bool) {
	var o *store.OwnedError
	if errors.As(err, &o) {
		return o.Owner, true
	}
	return store.Owner{}, false
}
