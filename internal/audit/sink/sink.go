// Package sink takes the audit record's checkpoints to where whoever can change the record can't
// reach them: a file that is only appended to, a web address, a git repository, an S3 bucket with
// object lock. A later record that contradicts a checkpoint can then be told from the true one.
//
// A Sink that fails is tried again, for as long as it takes, and its state can be asked for.
// Nothing waits for it.
package sink

import (
	"context"
	"crypto/rand"
	"log/slog"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Checkpoint is a signed statement of what the record is at one moment (C2SP tlog-checkpoint).
type Checkpoint struct {
	Origin string // of the log
	Size   int64  // leaves of the log
	Text   string // the signed note, as it is
}

// A Sink takes checkpoints. It is used by one goroutine at a time. Put returns after the checkpoint
// has reached its place; to put one twice does no harm.
type Sink interface {
	Name() string // kind and place, without secrets
	Put(ctx context.Context, c Checkpoint) error
}

// Config is what a Sender is made of.
type Config struct {
	Make  func(context.Context) (Checkpoint, error) // makes a checkpoint of the record as it is
	Every time.Duration                             // between two; DefaultEvery when 0
	Sinks []Sink
	Log   *slog.Logger // nil: none
}

// DefaultEvery is how often a checkpoint is made.
const DefaultEvery = time.Hour

// Between two attempts, after the first failure and at most. Each attempt has putTime.
const (
	firstPause = time.Second
	mostPause  = 5 * time.Minute
	putTime    = 2 * time.Minute
)

// A State is how a Sink is.
type State struct {
	Name     string
	Sent     int64     // size of the newest checkpoint that reached it; -1: none did since this process began
	SentAt   time.Time // when
	Waiting  bool      // a newer one is to be sent
	Failures int       // attempts in a row that failed
	Error    string    // why the last one did; empty when it did not
}

// A Sender makes checkpoints and sends them. It is safe for concurrent use.
type Sender struct {
	cfg Config
	log *slog.Logger

	mu     sync.Mutex
	newest *Checkpoint
	places []*place
	wake   chan struct{} // closed, and another one made, when newest changes
	failed error         // of the last Make
}

// A place is a Sink and what became of what was sent there.
type place struct {
	sink  Sink
	state State
	turn  chan struct{} // holds one: a Sink is used by one goroutine at a time
}

// New makes a Sender. It does nothing until Run.
func New(c Config) *Sender {
	if c.Every <= 0 {
		c.Every = DefaultEvery
	}
	s := &Sender{cfg: c, log: c.Log, wake: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, k := range c.Sinks {
		s.places = append(s.places, &place{sink: k, state: State{Name: k.Name(), Sent: -1}, turn: make(chan struct{}, 1)})
	}
	return s
}

// Run makes a checkpoint now and every so often, when there is something new, and sends each to all
// sinks, until ctx is done.
func (s *Sender) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range s.places {
		wg.Go(func() { s.feed(ctx, p) })
	}
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		if _, err := s.renew(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("audit checkpoint", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			wg.Wait()
			return
		}
	}
}

// Now makes a checkpoint and sends it to all sinks, once each. It gives the checkpoint also when
// sinks fail; States says which.
func (s *Sender) Now(ctx context.Context) (Checkpoint, error) {
	c, err := s.renew(ctx)
	if err != nil {
		return c, err
	}
	var wg sync.WaitGroup
	for _, p := range s.places {
		wg.Go(func() { s.put(ctx, p, c) })
	}
	wg.Wait()
	return c, nil
}

// renew makes a checkpoint, and wakes who sends it.
func (s *Sender) renew(ctx context.Context) (Checkpoint, error) {
	c, err := s.cfg.Make(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed = err; err != nil {
		return c, err
	}
	if s.newest == nil || c.Size > s.newest.Size {
		s.newest = &c
		close(s.wake)
		s.wake = make(chan struct{})
	}
	return c, nil
}

// States says how the sinks are, in their order, and why the last checkpoint could not be made, if
// it could not.
func (s *Sender) States() ([]State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]State, 0, len(s.places))
	for _, p := range s.places {
		st := p.state
		st.Waiting = s.newest != nil && st.Sent < s.newest.Size
		out = append(out, st)
	}
	return slices.Clip(out), s.failed
}

// feed sends the newest checkpoint to one sink whenever there is one that it doesn't have.
func (s *Sender) feed(ctx context.Context, p *place) {
	pause := firstPause
	for {
		s.mu.Lock()
		c, wake, has := s.newest, s.wake, p.state.Sent
		s.mu.Unlock()
		var retry <-chan time.Time
		if c != nil && has < c.Size {
			if err := s.put(ctx, p, *c); err == nil {
				pause = firstPause
				continue
			}
			retry, pause = time.After(jitter(pause)), min(2*pause, mostPause)
		}
		select {
		case <-wake:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// put sends c to one sink, once, and remembers how that went.
func (s *Sender) put(ctx context.Context, p *place, c Checkpoint) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	done := p.state.Sent >= c.Size
	s.mu.Unlock()
	if done {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	err := p.sink.Put(patient, c)
	if err != nil && ctx.Err() != nil {
		return err // we were stopped: that says nothing of the sink
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		p.state.Failures++
		p.state.Error = tool.AsError(err).Msg
		s.log.Warn("audit checkpoint not sent", "to", p.state.Name, "size", c.Size, "failures", p.state.Failures, "err", err)
		return err
	}
	p.state.Sent, p.state.SentAt, p.state.Failures, p.state.Error = c.Size, time.Now().UTC(), 0, ""
	return nil
}

// jitter is d, up to a quarter shorter: not all come back at once.
func jitter(d time.Duration) time.Duration {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d/4)+1))
	if err != nil {
		return d
	}
	return d - time.Duration(n.Int64())
}
