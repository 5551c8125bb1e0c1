// Package sink copies the audit record's checkpoints to places that an attacker who can change the
// record can't reach: an append-only file, a web address, a git repository, or an S3 bucket with
// object lock. A later record that contradicts a checkpoint is then recognizable as forged.
//
// A failing Sink is retried until it succeeds, and its state is reported. Nothing waits for it.
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

// A Checkpoint is a signed statement of the record's state (C2SP tlog-checkpoint).
type Checkpoint struct {
	Origin string // of the log
	Size   int64  // number of leaves in the log
	Text   string // the signed note, unchanged
}

// A Sink stores checkpoints. It is used by one goroutine at a time. Put returns once the checkpoint
// is stored, and is idempotent.
type Sink interface {
	Name() string // kind and place, without secrets
	Put(ctx context.Context, c Checkpoint) error
}

// A Maker makes checkpoints of the record's current state.
type Maker interface {
	MakeCheckpoint(context.Context) (Checkpoint, error)
}

// Config configures New.
type Config struct {
	Maker Maker
	Every time.Duration // interval; DefaultEvery if 0
	Sinks []Sink
	// Unsent is notified once of a Sink that has failed noted times in a row; nil: no one is.
	Unsent Recorder
	Log    *slog.Logger // nil: no logging
}

// noted is after how many failures in a row the Recorder is notified.
const noted = 5

// A Recorder is notified of checkpoints that can't be sent. It must not wait.
type Recorder interface {
	NoteUnsent(place string)
}

// DefaultEvery is the default interval between checkpoints.
const DefaultEvery = time.Hour

// Pauses between two attempts: the first, and the longest. putTime is the timeout of an attempt.
const (
	firstPause = time.Second
	mostPause  = 5 * time.Minute
	putTime    = 2 * time.Minute
)

// A State is the state of a Sink.
type State struct {
	Name     string
	Sent     int64     // size of the newest checkpoint sent; -1: none since this process began
	SentAt   time.Time // when it was sent
	Waiting  bool      // a newer one is pending
	Failures int       // number of consecutive failures
	Error    string    // error of the last attempt; empty if it succeeded
}

// A Sender makes checkpoints and sends them. It is safe for concurrent use.
type Sender struct {
	cfg Config
	log *slog.Logger

	mu     sync.Mutex
	newest *Checkpoint
	places []*place
	wake   chan struct{} // closed and replaced when newest changes
	failed error         // error of the last MakeCheckpoint
}

// A place is a Sink and its state.
type place struct {
	sink  Sink
	state State
	turn  chan struct{} // has capacity 1: a Sink is used by one goroutine at a time
}

// NewSender returns a Sender. It does nothing until Run is called.
func NewSender(c Config) *Sender {
	if c.Every <= 0 {
		c.Every = DefaultEvery
	}
	s := &Sender{cfg: c, log: c.Log, wake: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, k := range c.Sinks {
		s.places = append(s.places,
			&place{sink: k, state: State{Name: k.Name(), Sent: -1}, turn: make(chan struct{}, 1)})
	}
	return s
}

// Run makes a checkpoint now and at each interval, and sends it to all sinks if it is new, until
// ctx is done.
func (s *Sender) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range s.places {
		wg.Go(func() { s.feedSink(ctx, p) })
	}
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		if _, err := s.renewCheckpoint(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("audit checkpoint not signed", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			wg.Wait()
			return
		}
	}
}

// SendNow makes a checkpoint and sends it to all sinks, once each. It returns the checkpoint even
// if sinks fail; States reports which.
func (s *Sender) SendNow(ctx context.Context) (Checkpoint, error) {
	c, err := s.renewCheckpoint(ctx)
	if err != nil {
		return c, err
	}
	var wg sync.WaitGroup
	for _, p := range s.places {
		wg.Go(func() { s.sendOnce(ctx, p, c) })
	}
	wg.Wait()
	return c, nil
}

// renewCheckpoint makes a checkpoint, and wakes the goroutines that send it.
func (s *Sender) renewCheckpoint(ctx context.Context) (Checkpoint, error) {
	c, err := s.cfg.Maker.MakeCheckpoint(ctx)
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

// States returns the states of the sinks, in order, and the error of the last checkpoint, if it
// couldn't be made.
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

// feedSink sends each new checkpoint to one sink.
func (s *Sender) feedSink(ctx context.Context, p *place) {
	pause := firstPause
	for {
		s.mu.Lock()
		c, wake, has := s.newest, s.wake, p.state.Sent
		s.mu.Unlock()
		var retry <-chan time.Time
		if c != nil && has < c.Size {
			if err := s.sendOnce(ctx, p, *c); err == nil {
				pause = firstPause
				continue
			}
			retry, pause = time.After(addJitter(pause)), min(2*pause, mostPause)
		}
		select {
		case <-wake:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// sendOnce sends c to one sink, once, and records the result.
func (s *Sender) sendOnce(ctx context.Context, p *place, c Checkpoint) error {
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
		return err // stopping says nothing about the sink
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		p.state.Failures++
		p.state.Error = tool.AsError(err).Msg
		s.log.Warn("audit checkpoint not sent", "to", p.state.Name, "size", c.Size, "failures",
			p.state.Failures, "err", err)
		if p.state.Failures == noted && s.cfg.Unsent != nil {
			s.cfg.Unsent.NoteUnsent(p.state.Name)
		}
		return err
	}
	p.state.Sent, p.state.SentAt, p.state.Failures, p.state.Error = c.Size, time.Now().UTC(), 0, ""
	return nil
}

// addJitter returns d reduced by up to a quarter, so that retries don't coincide.
func addJitter(d time.Duration) time.Duration {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(d/4)+1))
	if err != nil {
		return d
	}
	return d - time.Duration(n.Int64())
}
