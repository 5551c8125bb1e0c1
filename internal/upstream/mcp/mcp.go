// Package mcp makes an upstream of an MCP server: a process of ours that speaks over its standard input and output, or a
// server on the network that speaks Streamable HTTP or the older HTTP+SSE. It speaks the revisions 2026-07-28,
// 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05.
//
// Arguments and results pass through byte for byte: it frames JSON-RPC messages itself and reads of a payload only what it
// must know. It trusts a server with nothing: sizes, depths, times and numbers are bounded, and what a server does wrong
// costs that message, that tool or that call; at worst the connection, which then comes back by itself.
//
// A server that runs as our process gets an environment of its own: of ours only PATH, HOME, USER, LOGNAME, SHELL, TERM,
// TZ, the language (LANG, LANGUAGE, LC_*), the temporary folder (TMPDIR) and XDG_*; then what is configured for it.
package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A Config says how to reach one MCP server, by Command or by URL.
type Config struct {
	Name string // of the upstream; required

	Command string            // program to run; without a slash it is looked for in the server's PATH
	Args    []string          // its arguments
	Env     map[string]string // variables that it gets besides what it inherits (see the package's doc)
	Dir     string            // its working directory; "" is ours
	Environ []string          // what it inherits from, as os.Environ gives it; nil is our own environment

	URL     string            // of a server on the network, http or https
	Headers map[string]string // that every request to it carries; their values are never logged
	Auth    Auth              // signs in to it; nil, or an Authorization header: Headers are all there is
	Type    string            // "stdio", "http", "sse"; "" finds out, starting from what is given

	Timeout        time.Duration            // longest silence of a call; progress renews it; 0 is 60 s
	Timeouts       map[string]time.Duration // the same for tools by exact name
	MaxTime        time.Duration            // longest time of a call, however much progress it reports; 0 is 30 min, or Timeout if that is longer
	ConnectTimeout time.Duration            // to start it, agree on a revision and list the tools; 0 is 60 s
	MaxMessage     int                      // largest message that it may send, bytes; 0 is 64 MiB

	OnChange      func()       // told that Snapshot gives something new; called by one goroutine at a time; may be nil
	Log           *slog.Logger // nil discards
	ClientName    string       // how we introduce ourselves; "" is biplane
	ClientVersion string       // "" is dev
	HTTPClient    *http.Client // to use instead of one of our own, for example with other certificates; nil for ours

	Mask *mask.Masker // takes secrets out of all that the server says; New adds those of this configuration; nil for one of our own

	pace pace // its zero value is the usual pace
}

// An Auth gives the access tokens for one server. It is safe for concurrent use.
type Auth interface {
	// Token gives the token that requests carry now; "" when a person has to sign in. renew: the server refused what it gave
	// before, and wants another one. The error says that it can't be told now, for example because the one that would renew
	// it doesn't answer.
	Token(ctx context.Context, renew bool) (string, error)
	// Refused notes that the server answered a request that carried token (or none, "") with status, 401 or 403.
	Refused(token string, status int, h http.Header)
	// Changed receives when somebody signed in or out.
	Changed() <-chan struct{}
	// Redact takes credentials out of a text.
	Redact(s string) string
}

// A pace is how patient we are where no configuration says so. Tests that wait for impatience are quicker.
type pace struct {
	probe   time.Duration // silence to server/discover after which a server is taken for one that doesn't know it
	check   time.Duration // silence to a ping after which a server is taken for dead
	grace   time.Duration // for a process to exit after its input was closed, and again after it was asked to; see briefGrace
	spacing time.Duration // between lists of tools, however often a server says that they changed
	breaks  time.Duration // without calls, when many have failed in a row
	look    time.Duration // between looks at whether somebody has signed in by another process
}

var usualPace = pace{probe: 5 * time.Second, check: 10 * time.Second, grace: 2 * time.Second, spacing: time.Second, breaks: 5 * time.Second, look: 2 * time.Second}

// The defaults of a Config.
const (
	defaultTimeout        = time.Minute
	defaultMaxTime        = 30 * time.Minute
	defaultConnectTimeout = time.Minute
	defaultMaxMessage     = 64 << 20
)

// An Upstream is one MCP server. It implements upstream.Upstream.
type Upstream struct {
	cfg    Config
	me     identity
	kind   string // "" is not known yet: HTTP of one kind or the other
	url    *url.URL
	header http.Header
	env    []string
	ring   *ring
	log    *slog.Logger
	notify chan struct{} // capacity 1: Snapshot has something new
	probes chan *session // capacity 1: is it still there?

	mu       sync.Mutex
	running  bool
	closed   bool
	current  *session // nil when not connected
	known    profile  // what worked last time
	attempts int      // failed since the last good connection
	next     time.Time
	wake     chan struct{} // closed and replaced when any of the above changes
	breaker  breaker
	snap     upstream.Snapshot
	broken   string // why the list may be stale though connected
	warned   string // the reason that the log has a warning of, since the last connection
}

var _ upstream.Upstream = (*Upstream)(nil)

// New checks the configuration. Nothing is started before Run.
func New(cfg Config) (*Upstream, error) {
	u := &Upstream{notify: make(chan struct{}, 1), probes: make(chan *session, 1), wake: make(chan struct{})}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	u.cfg, u.log = cfg, cfg.Log
	u.me = identity{Name: cfg.ClientName, Version: cfg.ClientVersion}
	u.kind, u.url, u.header = cfg.Type, cfg.address(), cfg.headers()
	if u.header.Get("Authorization") != "" { // whoever wrote it means it
		u.cfg.Auth = nil
	}
	environ := cfg.Environ
	if environ == nil {
		environ = os.Environ()
	}
	u.env = childEnv(environ, cfg.Env)
	u.cfg.addSecrets()
	u.ring = &ring{secrets: u.cfg.Mask}
	u.snap.Health = tool.Health{State: tool.Connecting, Reason: "not connected yet: try again in a moment"}
	return u, nil
}

// Name is the upstream's name in the configuration.
func (u *Upstream) Name() string { return u.cfg.Name }

// Snapshot says how the upstream is now.
func (u *Upstream) Snapshot() upstream.Snapshot {
	u.mu.Lock()
	s := u.snap
	u.mu.Unlock()
	s.Stderr = u.ring.all()
	return s
}

// Run connects and stays connected until ctx is done; then it returns nil, when everything it started is gone.
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
	told.Go(func() { u.tell(stop) })
	u.supervise(ctx)
	u.update(func() {
		u.closed = true
		u.snap.Health = tool.Health{State: tool.Down, Reason: "closed", Stale: len(u.snap.Tools) > 0}
	})
	close(stop)
	told.Wait()
	return nil
}

// tell calls OnChange when there is something new, until stop is closed.
func (u *Upstream) tell(stop <-chan struct{}) {
	onChange := u.cfg.OnChange
	if onChange == nil {
		onChange = func() {}
	}
	for {
		select {
		case <-u.notify:
			onChange()
		case <-stop:
			onChange() // it is closed now
			return
		}
	}
}

// update changes the state under the lock and tells everybody who waits for a change.
func (u *Upstream) update(change func()) {
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

// supervise connects, serves, and comes back, until ctx is done.
func (u *Upstream) supervise(ctx context.Context) {
	for {
		var lived time.Duration
		s, list, err := u.connect(ctx)
		if err == nil {
			began := time.Now()
			u.attach(s, list)
			err = u.serve(ctx, s, list)
			lived = time.Since(began)
		}
		if ctx.Err() != nil { // whatever it was, it is not why this ends
			err = faultf(faultClosed, "closed")
		}
		wait := u.failed(err, lived)
		if s != nil {
			s.close()
		}
		if ctx.Err() != nil || !u.rest(ctx, wait, isFault(err, faultSignIn, faultScope)) {
			return
		}
	}
}

// rest waits before the next attempt, which comes earlier when somebody signs in or out, here or, while signIn is what it waits
// for, by another process. It is false when ctx ended first.
func (u *Upstream) rest(ctx context.Context, d time.Duration, signIn bool) bool {
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
		case <-u.cfg.Auth.Changed():
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

// changed receives when somebody signed in or out; nil where nobody can.
func (u *Upstream) changed() <-chan struct{} {
	if u.cfg.Auth == nil {
		return nil
	}
	return u.cfg.Auth.Changed()
}

// attach makes s the connection that calls use.
func (u *Upstream) attach(s *session, list *toolList) {
	u.log.Info("upstream connected", "server", s.name, "protocol", s.profile.version, "transport", s.profile.kind,
		"tools", len(list.tools), "broken", len(list.broken))
	u.update(func() {
		u.current = s
		u.known = s.profile
		u.breaker = breaker{}
		u.warned = ""
		u.snap.Protocol, u.snap.Server = s.profile.version, s.name
		u.listed(list)
	})
}

// listed takes a new list. The lock is held.
func (u *Upstream) listed(list *toolList) {
	u.snap.Tools, u.snap.Broken, u.broken = list.tools, list.broken, list.trouble
	u.snap.Health = u.health()
	u.snap.Health.Stale = list.stale && len(list.tools) > 0 // a list that never came is missing, not stale
}

// health is how a connected upstream is. The lock is held.
func (u *Upstream) health() tool.Health {
	switch {
	case u.breaker.bad():
		return tool.Health{State: tool.Degraded, Reason: "calls fail one after the other; the last one: " + u.breaker.last, Stale: u.snap.Health.Stale}
	case u.broken != "":
		return tool.Health{State: tool.Degraded, Reason: u.broken}
	}
	return tool.Health{State: tool.Ready}
}

// failed notes the end of a connection that lived so long, or that none could be made, and says how long to wait before
// the next attempt.
func (u *Upstream) failed(err error, lived time.Duration) (wait time.Duration) {
	reason := u.reason(err)
	level := slog.LevelWarn
	u.update(func() {
		if u.warned == reason {
			level = slog.LevelDebug
		}
		u.current, u.warned = nil, reason
		if lived >= longEnough {
			u.attempts = 0
		}
		state := tool.Down
		switch {
		case isFault(err, faultSession): // nothing is wrong: it forgot us, or somebody signed in or out
			level = min(level, slog.LevelInfo)
		case isFault(err, faultSignIn, faultScope):
			state, wait = tool.NeedsSignIn, signInWait
			reason = u.signIn() + "; it " + reason
		default:
			u.attempts++
			wait = retryDelay(u.attempts)
		}
		u.next = time.Now().Add(wait)
		u.snap.Health = tool.Health{State: state, Reason: reason, Stale: len(u.snap.Tools) > 0}
	})
	if !isFault(err, faultClosed) {
		u.log.Log(context.Background(), level, "upstream is not connected", "reason", reason, "next_attempt_in", wait.Round(time.Millisecond))
	}
	return wait
}

// reason is an error as one line for people, without credentials that a server may have repeated.
func (u *Upstream) reason(err error) string { return cleanLine(u.redact(err.Error()), 500) }

func (u *Upstream) redact(s string) string {
	if u.cfg.Auth != nil {
		s = u.cfg.Auth.Redact(s)
	}
	return u.cfg.Mask.Text(s)
}

// command makes the command that starts the server.
func (u *Upstream) command() (command, error) {
	path, err := lookPath(u.cfg.Command, u.cfg.Dir, u.env)
	if err != nil {
		return command{}, faultf(faultUnsent, "can't be started: %w", err)
	}
	return command{path: path, args: u.cfg.Args, env: u.env, dir: u.cfg.Dir}, nil
}

// addSecrets adds the credentials in the configuration, wherever a server might repeat them.
func (c *Config) addSecrets() {
	c.Mask.AddNamed(c.Env)
	c.Mask.AddNamed(c.Headers)
	c.Mask.AddArguments(c.Args)
	c.Mask.AddAddress(c.URL)
}
