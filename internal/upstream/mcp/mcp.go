// Package mcp implements an upstream for an MCP server. The server is a child process that speaks
// over its standard input and output, or a server on the network that speaks Streamable HTTP or the
// older HTTP+SSE. The package supports the revisions 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26
// and 2024-11-05.
//
// Arguments and results pass through byte for byte: the package frames JSON-RPC messages itself and
// parses only the parts of a payload that it needs. It does not trust servers. Sizes, depths, times
// and counts are limited. A server's error affects only that message, that tool or that call; at
// worst the connection, which is then reopened.
//
// A server that runs as a child process gets its own environment. It inherits only PATH, HOME,
// USER, LOGNAME, SHELL, TERM, TZ, the language (LANG, LANGUAGE, LC_*), the temporary folder
// (TMPDIR) and XDG_*. The configured variables are added.
package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A Config says how to reach one MCP server, by Command or by URL.
type Config struct {
	Name string // of the upstream; required

	Command string            // program to run; without a slash it is searched in the server's PATH
	Args    []string          // its arguments
	Env     map[string]string // variables in addition to the inherited ones (see the package doc)
	Dir     string            // its working directory; "" is the current one
	Environ []string          // the environment it inherits from, in the form of os.Environ
	// Launcher starts the server instead of a child process; Command, Args, Env and Dir are then
	// only known to it. Nil: a child process.
	Launcher Launcher

	URL     string            // of a server on the network, http or https
	Headers map[string]string // headers of every request to it; their values are never logged
	// Auth signs in to the server. If it is nil, or Headers has an Authorization header, only
	// Headers are sent.
	Auth Auth
	Type string // "stdio", "http", "sse"; "" detects the type

	Timeout  time.Duration            // longest silence of a call; progress resets it; default 60 s
	Timeouts map[string]time.Duration // the same for individual tools, by exact name
	// MaxTime is the longest duration of a call, even if it reports progress. The default is 30
	// min, or Timeout if that is longer.
	MaxTime        time.Duration
	ConnectTimeout time.Duration // to start it, negotiate a revision and list the tools; default 60 s
	MaxMessage     int           // largest message that it may send, in bytes; default 64 MiB

	// Questions declares to servers of revisions before 2026-07-28 that the clients of calls can be
	// asked. Since 2026-07-28 each call declares what its client can be asked.
	Questions bool

	// OnChange is called when Snapshot has changed, by one goroutine at a time. It may be nil.
	OnChange   func()
	Updates    UpdateObserver // observes updates of watched resources; may be nil
	Log        *slog.Logger   // nil discards
	Client     Implementation // sent to servers; the zero value is biplane, version dev
	HTTPClient *http.Client   // nil uses a new client; another one may have other certificates, for example

	// Mask removes secrets from everything the server sends. New adds the secrets of this
	// configuration. If nil, a new one is used.
	Mask *mask.Masker
	OwnCredentials

	pace pace // the zero value is the usual pace
}

// OwnCredentials configures a server that is used with the credentials of one principal.
type OwnCredentials struct {
	// Advice is for users whose credentials the server refuses; empty: run biplane connect.
	Advice string
	// Masked means that Mask has the secrets of this configuration already.
	Masked bool
}

// An UpdateObserver observes the watched resources and the lists of a server. Each method is called
// by one goroutine at a time.
type UpdateObserver interface {
	// OnUpdate is called when a watched resource was updated.
	OnUpdate(uri string)
	// OnAnnouncement is called when the server announced changes of its tools, or of what else it
	// offers, but these are the same as before.
	OnAnnouncement(tools, offers bool)
}

// An Auth provides the access tokens for one server. It is safe for concurrent use.
type Auth interface {
	// Token returns the current access token, or "" if a person has to sign in. If renew is set,
	// the server refused the last token and another one is needed. An error means that the token is
	// temporarily unknown, for example because the authorization server doesn't answer.
	Token(ctx context.Context, renew bool) (string, error)
	// RecordRefusal is called when the server answered a request that carried token ("" for none)
	// with status 401 or 403.
	RecordRefusal(token string, status int, h http.Header)
	// Changes returns a channel that receives a value when a user signs in or out.
	Changes() <-chan struct{}
	// Redact removes credentials from a text.
	Redact(s string) string
}

// A pace holds timeouts that are not configurable. Tests use shorter ones.
type pace struct {
	// probe is how long to wait for the answer to server/discover before assuming that the server
	// doesn't know it.
	probe time.Duration
	check time.Duration // time without an answer to a ping after which a server is considered dead
	// grace is how long a process may take to exit after its input is closed, and again after
	// SIGTERM. See briefGrace.
	grace   time.Duration
	spacing time.Duration // minimum time between lists of tools, however often a server announces changes
	work    time.Duration // processor time that each list, and each use of one, counts as; 0: it is measured
	breaks  time.Duration // pause of calls after many consecutive failures
	look    time.Duration // interval of checks whether a user signed in through another process
}

var usualPace = pace{probe: 5 * time.Second, check: 10 * time.Second, grace: 2 * time.Second, spacing: time.Second / 2,
	breaks: 5 * time.Second, look: 2 * time.Second}

// The default values of a Config.
const (
	defaultTimeout        = time.Minute
	defaultMaxTime        = 30 * time.Minute
	defaultConnectTimeout = time.Minute
	defaultMaxMessage     = 64 << 20
)

// An Upstream is one MCP server. It implements upstream.Upstream.
type Upstream struct {
	cfg    Config
	kind   string // "" is not known yet: one of the two HTTP transports
	url    *url.URL
	header http.Header
	env    []string
	ring   *ring
	log    *slog.Logger
	notify chan struct{} // capacity 1: Snapshot has changed
	probes chan *session // capacity 1: sessions to check
	calls  chan struct{} // capacity 1: a call needs a server that rests

	watches *watches
	load    workload

	mu       sync.Mutex
	running  bool
	closed   bool
	current  *session // nil when not connected
	known    profile  // what worked last time
	attempts int      // failed attempts since the last good connection
	next     time.Time
	wake     chan struct{} // closed and replaced when any of the above changes
	resting  bool          // the server starts again when a call needs it
	breaker  breaker
	snap     upstream.Snapshot
	broken   string // why the list may be stale although connected
	warned   string // the reason last logged as a warning since the last connection
}

var _ upstream.Upstream = (*Upstream)(nil)

// New returns an Upstream after validating the configuration. Nothing is started before Run.
func New(cfg Config) (*Upstream, error) {
	u := &Upstream{watches: newWatches(), calls: make(chan struct{}, 1),
		notify: make(chan struct{}, 1), probes: make(chan *session, 1), wake: make(chan struct{})}
	if err := cfg.validateConfig(); err != nil {
		return nil, err
	}
	u.cfg, u.log = cfg, cfg.Log
	u.kind, u.url, u.header = cfg.Type, cfg.parsedURL(), cfg.httpHeaders()
	if u.header.Get("Authorization") != "" { // an explicit header overrides sign-in
		u.cfg.Auth = nil
	}
	u.env = childEnv(cfg.Environ, cfg.Env)
	u.cfg.addSecrets()
	u.ring, u.load.fixed = &ring{secrets: u.cfg.Mask}, cfg.pace.work
	u.snap.Health = tool.Health{State: tool.Connecting, Reason: "not connected yet: try again in a moment"}
	return u, nil
}

// Name returns the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.cfg.Name }

// Snapshot returns the current state of the upstream.
func (u *Upstream) Snapshot() upstream.Snapshot {
	u.mu.Lock()
	s := u.snap
	u.mu.Unlock()
	s.Stderr = u.ring.allLines()
	return s
}

// Run connects and stays connected until ctx is done. It then returns nil, once everything it
// started has ended.
func (u *Upstream) Run(ctx context.Context) error {
	u.mu.Lock()
	again := u.running
	u.running = true
	u.mu.Unlock()
	if again {
		return tool.Errorf(tool.Conflict, "upstream %q: Run was called before", u.cfg.Name)
	}
	var told sync.WaitGroup
	stop := make(chan struct{})
	told.Go(func() { u.notifyChanges(stop) })
	told.Go(func() { u.watches.notifyUpdates(stop, u.cfg.Updates, u.cfg.pace.spacing) })
	u.superviseSession(ctx)
	u.updateState(func() {
		u.closed = true
		u.snap.Health = tool.Health{State: tool.Down, Reason: "closed", Stale: len(u.snap.Tools) > 0}
	})
	close(stop)
	told.Wait()
	return nil
}

// notifyChanges calls OnChange after each change, until stop is closed.
func (u *Upstream) notifyChanges(stop <-chan struct{}) {
	onChange := u.cfg.OnChange
	if onChange == nil {
		onChange = func() {}
	}
	for {
		select {
		case <-u.notify:
			u.load.measureUse(onChange)
		case <-stop:
			onChange() // the upstream is closed now
			return
		}
	}
}

// updateState changes the state under the lock and wakes the goroutines that wait for a change.
func (u *Upstream) updateState(change func()) {
	u.mu.Lock()
	change()
	close(u.wake)
	u.wake = make(chan struct{})
	u.mu.Unlock()
	select {
	case u.notify <- struct{}{}:
	default:
	}
}

// superviseSession connects, serves and reconnects until ctx is done.
func (u *Upstream) superviseSession(ctx context.Context) {
	for {
		var lived time.Duration
		s, list, err := u.connect(ctx)
		if err == nil {
			began := time.Now()
			u.attachSession(s, list)
			err = u.serveSession(ctx, s, list)
			lived = time.Since(began)
		}
		if ctx.Err() != nil { // the error is not the reason for this end
			err = faultf(faultClosed, "closed")
		}
		wait := u.recordEnd(err, lived)
		if s != nil {
			s.close()
		}
		if isFault(err, faultResting) {
			u.awaitCall(ctx)
			wait = 0
		}
		if ctx.Err() != nil || !u.awaitRetry(ctx, wait, isFault(err, faultSignIn, faultScope)) {
			return
		}
	}
}

// awaitCall waits until a call needs the server, which rests.
func (u *Upstream) awaitCall(ctx context.Context) {
	select {
	case <-u.calls:
	case <-ctx.Done():
	}
	u.updateState(func() { u.resting = false })
}

// requestServer starts the server if it rests. u.mu is held.
func (u *Upstream) requestServer() {
	if !u.resting {
		return
	}
	select {
	case u.calls <- struct{}{}:
	default: // another call has done so
	}
}

// awaitRetry waits before the next attempt. It returns early when a user signs in or out in this
// process, or, if signInAdvice is set, signs in through another process. It returns false if ctx
// ended first.
func (u *Upstream) awaitRetry(ctx context.Context, d time.Duration, signIn bool) bool {
	if u.cfg.Auth == nil {
		return sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	look := time.NewTicker(u.cfg.pace.look)
	defer look.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-u.cfg.Auth.Changes():
			return true
		case <-look.C:
			if !signIn {
				continue
			}
			if token, err := u.cfg.Auth.Token(ctx, false); err == nil && token != "" {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// signInChanges returns a channel that receives a value when a user signs in or out, or nil without
// an Auth.
func (u *Upstream) signInChanges() <-chan struct{} {
	if u.cfg.Auth == nil {
		return nil
	}
	return u.cfg.Auth.Changes()
}

// attachSession makes s the connection that calls use.
func (u *Upstream) attachSession(s *session, list *toolList) {
	u.log.Info("upstream connected", "server", s.name, "protocol", s.profile.version, "transport", s.profile.kind,
		"tools", len(list.tools), "broken", len(list.broken))
	u.updateState(func() {
		u.current = s
		u.known = s.profile
		u.breaker = breaker{}
		u.warned = ""
		u.snap.Protocol, u.snap.Server = s.profile.version, s.name
		u.storeList(list)
	})
}

// storeList stores a new list. u.mu must be held.
func (u *Upstream) storeList(list *toolList) {
	if !sameTools(u.snap.Tools, list.tools) { // otherwise a change of the others would look like one of these
		u.snap.Tools = list.tools
	}
	if !sameOffers(u.snap.Offers, list.offers) {
		u.snap.Offers = list.offers
	}
	u.snap.Broken, u.broken = list.broken, list.trouble
	u.snap.Health = u.currentHealth()
	u.snap.Health.Stale = list.stale && len(list.tools) > 0 // a list never received is missing, not stale
}

// currentHealth returns the health of a connected upstream. u.mu must be held.
func (u *Upstream) currentHealth() tool.Health {
	switch {
	case u.breaker.isFailing():
		return tool.Health{State: tool.Degraded, Reason: "several calls failed in a row, the last one with: " +
			u.breaker.last, Stale: u.snap.Health.Stale}
	case u.broken != "":
		return tool.Health{State: tool.Degraded, Reason: u.broken}
	}
	return tool.Health{State: tool.Ready}
}

// recordEnd records the end of a connection after the duration lived, or a failed attempt. It
// returns the delay before the next attempt.
func (u *Upstream) recordEnd(err error, lived time.Duration) (wait time.Duration) {
	reason := u.formatReason(err)
	level := slog.LevelWarn
	u.updateState(func() {
		if u.warned == reason {
			level = slog.LevelDebug
		}
		u.current, u.warned = nil, reason
		if lived >= longEnough {
			u.attempts = 0
		}
		state := tool.Down
		switch {
		case isFault(err, faultSession): // not an error: the server forgot the session, or a user signed in or out
			level = min(level, slog.LevelInfo)
		case isFault(err, faultResting):
			level, state = min(level, slog.LevelInfo), tool.Ready
			u.resting, u.attempts = true, 0
			reason += "; the next call starts it"
			select {
			case <-u.calls: // for an earlier rest
			default:
			}
		case isFault(err, faultSignIn, faultScope):
			state, wait = tool.NeedsSignIn, signInWait
			reason = u.signInAdvice() + "; it " + reason
		default:
			u.attempts++
			wait = retryDelay(u.attempts)
		}
		wait = max(wait, u.load.pauseLeft(u.cfg.pace.spacing))
		u.next = time.Now().Add(wait)
		u.snap.Health = tool.Health{State: state, Reason: reason, Stale: len(u.snap.Tools) > 0 && !u.resting}
	})
	if !isFault(err, faultClosed) {
		u.log.Log(context.Background(), level, "upstream is not connected", "reason", reason, "next_attempt_in",
			wait.Round(time.Millisecond))
	}
	return wait
}

// formatReason formats an error as one line for people, without credentials that a server may have
// repeated.
func (u *Upstream) formatReason(err error) string { return cleanLine(u.redactText(err.Error()), 500) }

func (u *Upstream) redactText(s string) string {
	if u.cfg.Auth != nil {
		s = u.cfg.Auth.Redact(s)
	}
	return u.cfg.Mask.Text(s)
}

// serverCommand returns the command that starts the server.
func (u *Upstream) serverCommand() (command, error) {
	path, err := lookPath(u.cfg.Command, u.cfg.Dir, u.env)
	if err != nil {
		return command{}, faultf(faultUnsent, "can't be started: %w", err)
	}
	return command{path: path, args: u.cfg.Args, env: u.env, dir: u.cfg.Dir}, nil
}

// addSecrets adds the credentials in the configuration to the mask, since a server might repeat
// them.
func (c *Config) addSecrets() {
	if c.Masked {
		return
	}
	c.Mask.AddSecrets(c.Env)
	c.Mask.AddSecrets(c.Headers)
	c.Mask.AddArguments(c.Args)
	c.Mask.AddAddress(c.URL)
}
