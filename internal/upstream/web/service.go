package web

import (
	"context"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
	"github.com/biplane-dev/biplane/internal/upstream"
)

// A Notify is called when an upstream's Snapshot has changed.
type Notify func()

// A Config holds the settings that all kinds of APIs have.
type Config struct {
	Name        string        // of the upstream; required
	Timeout     time.Duration // of one call; default 60 s
	LoadTimeout time.Duration // of the description; default 60 s
	MaxAnswer   int           // bytes of one answer; default 16 MiB
	Version     string        // of Biplane, for User-Agent

	SignIn SignIn // nil: no one signs in
	Advice string // how to sign in; empty: the usual command

	OnChange Notify       // may be nil
	Log      *slog.Logger // nil discards
	Mask     *mask.Masker // removes secrets from answers; nil: a new one
}

func (cfg *Config) setDefaults() {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.LoadTimeout == 0 {
		cfg.LoadTimeout = time.Minute
	}
	if cfg.MaxAnswer == 0 {
		cfg.MaxAnswer = 16 << 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Mask == nil {
		cfg.Mask = mask.New()
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func() {}
	}
	cfg.Log = cfg.Log.With("upstream", cfg.Name)
}

// An API is one kind of API. T holds the operations that its description becomes.
type API[T any] interface {
	// LoadAPI reads the description. Of the Snapshot, Health is ignored.
	LoadAPI(ctx context.Context) (T, upstream.Snapshot, error)
	// SendCall sends the request of a call, and returns its result.
	SendCall(ctx context.Context, operations T, c *tool.Call) (*tool.Result, error)
}

// maxAtOnce is the number of concurrent requests of one upstream. Principals share them.
const maxAtOnce = 64

// A Service runs an API. It implements upstream.Upstream.
type Service[T any] struct {
	Config  Config
	Clients *Clients
	Tokens  *Tokens
	api     API[T]
	turns   *queue.Fair
	end     chan struct{} // closed when Run ends

	mu      sync.Mutex
	running bool
	loaded  *T // nil before the description is loaded
	snap    upstream.Snapshot
	wake    chan struct{} // closed and replaced when the state changes
}

// NewService returns a Service for an API. Nothing is read before Run.
func NewService[T any](cfg Config, api API[T]) *Service[T] {
	cfg.setDefaults()
	s := &Service[T]{Config: cfg, Clients: NewClients(), api: api, turns: queue.New(maxAtOnce, math.MaxInt),
		end: make(chan struct{}), wake: make(chan struct{})}
	s.Tokens = NewTokens(s.Clients, cfg.Mask)
	s.snap.Health = tool.Health{State: tool.Connecting,
		Reason: "its description is not loaded yet: try again in a moment"}
	return s
}

// Name returns the upstream's name in the configuration.
func (s *Service[T]) Name() string { return s.Config.Name }

// Snapshot returns the current state of the upstream.
func (s *Service[T]) Snapshot() upstream.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snap
}

// firstRetry and lastRetry are the delays before the description is loaded again.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Run loads the description, again after failures, until ctx is done.
func (s *Service[T]) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.running
	s.running = true
	s.mu.Unlock()
	if again {
		return tool.Errorf(tool.Conflict, "upstream %q: Run was called before", s.Config.Name)
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := s.loadAPI(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		reason := CleanLine(s.Config.Mask.Text(err.Error()), 500)
		s.Config.Log.Warn("description not loaded", "reason", reason, "next_attempt_in", wait)
		s.setState(func() { s.snap.Health = tool.Health{State: tool.Down, Reason: reason} })
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	s.watchSignIn(ctx)
	close(s.end)
	s.setState(func() {
		s.snap.Health = tool.Health{State: tool.Down, Reason: "closed", Stale: len(s.snap.Tools) > 0}
	})
	s.Clients.closeIdle()
	return nil
}

func (s *Service[T]) loadAPI(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.Config.LoadTimeout)
	defer cancel()
	began := time.Now()
	operations, snap, err := s.loadSafely(ctx)
	if err != nil {
		return err
	}
	s.Config.Log.Info("description loaded", "server", snap.Server, "tools", len(snap.Tools), "broken", len(snap.Broken),
		"took", time.Since(began).Round(time.Millisecond))
	snap.Health = s.checkSignIn(ctx)
	s.setState(func() { s.loaded, s.snap = &operations, snap })
	return nil
}

// loadSafely turns a panic into an error: descriptions are not trusted, and may hit a defect of the
// libraries that read them.
func (s *Service[T]) loadSafely(ctx context.Context) (operations T, snap upstream.Snapshot, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Config.Log.Error("reading a description panicked", "panic", p, "stack", string(debug.Stack()))
			err = tool.Errorf(tool.Internal, "its description can't be read: it hits a defect of a library")
		}
	}()
	return s.api.LoadAPI(ctx)
}

// setState changes the state under the lock, wakes waiting calls and notifies the owner.
func (s *Service[T]) setState(change func()) {
	s.mu.Lock()
	change()
	close(s.wake)
	s.wake = make(chan struct{})
	s.mu.Unlock()
	s.Config.OnChange()
}

// awaitLoad returns the operations, and waits while the description is being loaded.
func (s *Service[T]) awaitLoad(ctx context.Context) (*T, error) {
	for {
		s.mu.Lock()
		loaded, h, wake := s.loaded, s.snap.Health, s.wake
		s.mu.Unlock()
		switch {
		case h.State == tool.Down:
			return nil, tool.Errorf(tool.Unavailable, "upstream %q is down: %s", s.Config.Name, h.Reason)
		case loaded != nil:
			return loaded, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, tool.AsError(context.Cause(ctx))
		}
	}
}

// Call makes a call when the description is loaded and the principal's turn has come.
func (s *Service[T]) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if c.Tool == nil {
		return nil, tool.Errorf(tool.Internal, "upstream %q: the call names no tool", s.Config.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Config.Timeout)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-s.end:
			stop(tool.Errorf(tool.Unavailable,
				"upstream %q is being closed; whether the request took effect is unknown", s.Config.Name))
		case <-ctx.Done():
		}
	}()
	res, err := s.callInTurn(ctx, c)
	if err != nil {
		e := *tool.AsError(err)
		e.Msg = CleanLine(s.Config.Mask.Text(c.Tool.Path()+": "+e.Msg), 2000)
		return nil, &e
	}
	return tool.ParseResult(s.Config.Mask.MaskJSON(res.Raw))
}

func (s *Service[T]) callInTurn(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	operations, err := s.awaitLoad(ctx)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	if err := s.turns.Enter(ctx, c.Principal.ID); err != nil {
		return nil, tool.NotSent(err)
	}
	defer s.turns.Leave(c.Principal.ID)
	return s.api.SendCall(ctx, *operations, c)
}
