package executor_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A puppet is a driver whose guests are small deterministic machines: a program is a list of ops,
// and the machine's whole state is a JSON object. It supports everything that a driver can do,
// fast, so that tests can check how the executor uses it. The behavior of real engines is tested
// with real engines.
type puppet struct {
	engine string       // the build; snapshots of other builds are refused
	open   atomic.Int64 // sandboxes that are not closed
	made   atomic.Int64 // sandboxes that were created
	back   atomic.Int64 // sandboxes that were restored
	forked atomic.Int64
	crash  atomic.Int64  // sandboxes created before the crash-th are lost
	spin   chan struct{} // receives each op "spin" that has started; may be nil
	plain  bool          // no snapshots
	tier   tool.Tier
	langs  []string // its runtimes; nil: all
	broken error    // the error of Probe
}

func (p *puppet) Probe(context.Context) (sandbox.Capabilities, error) {
	c := sandbox.Capabilities{Driver: "puppet", Tier: p.tier, Runtimes: p.langs, Engine: "puppet " + p.engine}
	if c.Runtimes == nil {
		c.Runtimes = []string{"js", "python"}
	}
	return c, p.broken
}

func (p *puppet) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	p.made.Add(1)
	if p.plain {
		return plainBox{p.box(machine{Runtime: spec.Runtime})}, nil
	}
	return p.box(machine{Runtime: spec.Runtime, Vars: map[string]string{}}), nil
}

// plainBox hides all methods of a box except those of sandbox.Sandbox.
type plainBox struct{ sandbox.Sandbox }

func (p *puppet) box(m machine) *puppetBox {
	p.open.Add(1)
	return &puppetBox{p: p, m: m, closed: make(chan struct{}), born: p.made.Load() + p.back.Load()}
}

func (p *puppet) Restore(_ context.Context, spec sandbox.Spec, snapshot []byte) (sandbox.Sandbox, error) {
	engine, state, ok := bytes.Cut(snapshot, []byte{'\n'})
	if !ok {
		return nil, errors.New("this is no snapshot")
	}
	if string(engine) != p.engine {
		return nil, &sandbox.EngineError{Snapshot: string(engine), Engine: p.engine}
	}
	var m machine
	if err := json.Unmarshal(state, &m); err != nil {
		return nil, err
	}
	if m.Runtime != spec.Runtime {
		return nil, fmt.Errorf("a snapshot of %s for %s", m.Runtime, spec.Runtime)
	}
	p.back.Add(1)
	return p.box(m), nil
}

// A machine is the state of a guest.
type machine struct {
	Runtime string
	Vars    map[string]string
	Ops     []op
	Out     []string
	Wants   map[int64]bool // calls and files that are not answered
	Failed  string         // error of a call or file that was answered with one
	Asleep  bool
	Active  bool // a program is under way
	Next    int64
	Seed    string
	Heard   int // number of lines
}

// An op is one step of a program. The program waits until all earlier calls are answered, unless
// Stray is set.
type op struct {
	Set   string        `json:"set,omitempty"` // "name=value"; "name=+value" appends the value
	Get   string        `json:"get,omitempty"` // adds the variable to the value
	Call  string        `json:"call,omitempty"`
	Stray bool          `json:"stray,omitempty"` // a call that no one awaits
	File  *sandbox.File `json:"file,omitempty"`
	Ask   bool          `json:"ask,omitempty"` // blocking call or file operation
	Sleep float64       `json:"sleep,omitempty"`
	Timer float64       `json:"timer,omitempty"`
	Fail  string        `json:"fail,omitempty"`
	Spin  bool          `json:"spin,omitempty"` // runs until it is stopped
	Seed  bool          `json:"seed,omitempty"` // adds the program's seed to the value
	Emit  string        `json:"emit,omitempty"`
}

type puppetBox struct {
	p      *puppet
	m      machine
	mu     sync.Mutex
	once   sync.Once
	closed chan struct{}
	runs   sync.WaitGroup
	bad    bool
	born   int64
}

func (b *puppetBox) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.runs.Wait()
		b.p.open.Add(-1)
	})
	return nil
}

func (b *puppetBox) Snapshot(context.Context) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bad {
		return nil, errors.New("a snapshot after an error")
	}
	raw, err := json.Marshal(b.m)
	return append([]byte(b.p.engine+"\n"), raw...), err
}

func (b *puppetBox) Fork(ctx context.Context) (sandbox.Sandbox, error) {
	s, err := b.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var m machine
	if err := json.Unmarshal(s[len(b.p.engine)+1:], &m); err != nil {
		return nil, err
	}
	b.p.forked.Add(1)
	return b.p.box(m), nil
}

func (b *puppetBox) Run(ctx context.Context, cmd *sandbox.Cmd) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.closed:
		return -1, errors.New("the sandbox is closed")
	default:
	}
	if b.bad {
		return -1, errors.New("a Run after an error")
	}
	if b.p.crash.Load() > b.born {
		b.bad = true
		return -1, fmt.Errorf("run a puppet: %w", &sandbox.CrashError{Reason: "was killed"})
	}
	b.runs.Add(1)
	defer b.runs.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	var pumped error
	go func() {
		defer close(done)
		pumped = b.pump(ctx, cmd)
	}()
	var err error
	select {
	case <-done:
		err = pumped
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-b.closed:
		err = errors.New("the sandbox is closed")
	}
	cancel(err)
	if c, ok := cmd.Guest.(io.Closer); ok {
		_ = c.Close()
	}
	if err != nil {
		b.bad = true
		<-done
		return -1, fmt.Errorf("run a puppet: %w", err)
	}
	b.bad = !cmd.Keep
	return 0, nil
}

func (b *puppetBox) pump(ctx context.Context, cmd *sandbox.Cmd) (err error) {
	defer func() {
		if err != nil {
			defer func() { recover() }()
		}
	}()
	in := bufio.NewReader(cmd.Guest)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var h sandbox.HostMessage
		if err := json.Unmarshal(line, &h); err != nil {
			return err
		}
		if err := b.hear(ctx, cmd, &h); err != nil {
			return err
		}
	}
}

func say(w io.Writer, m sandbox.GuestMessage) error {
	raw, err := tool.Marshal(m)
	if err == nil {
		_, err = w.Write(append(raw, '\n'))
	}
	return err
}

func (b *puppetBox) hear(ctx context.Context, cmd *sandbox.Cmd, h *sandbox.HostMessage) error {
	m := &b.m
	m.Heard++
	switch {
	case h.Run != nil:
		m.Ops, m.Out, m.Failed, m.Active, m.Asleep, m.Seed = nil, nil, "", true, false, h.Run.Seed
		if err := json.Unmarshal([]byte(h.Run.Code), &m.Ops); err != nil {
			return say(cmd.Guest,
				sandbox.GuestMessage{Fail: &sandbox.Fail{Error: sandbox.GuestError{Message: err.Error()}}})
		}
	case h.Answer != nil:
		if !m.Wants[h.Answer.ID] {
			m.Vars[fmt.Sprint("late", h.Answer.ID)] = string(h.Answer.Value) + answerError(h.Answer)
			return nil
		}
		delete(m.Wants, h.Answer.ID)
		m.answered(h.Answer)
	case h.Wake != nil:
		m.Asleep = false
	}
	return b.step(ctx, cmd)
}

func answerError(a *sandbox.Answer) string {
	if a.Error == nil {
		return ""
	}
	return "!" + a.Error.Kind + " " + a.Error.Code
}

func (m *machine) answered(a *sandbox.Answer) {
	if a.Error != nil {
		m.Failed = a.Error.Code + " " + a.Error.Message
		return
	}
	m.Vars["_"] = string(a.Value)
}

// step runs until the program has to wait.
func (b *puppetBox) step(ctx context.Context, cmd *sandbox.Cmd) error {
	m := &b.m
	if !m.Active || len(m.Wants) > 0 || m.Asleep {
		return nil
	}
	for len(m.Ops) > 0 && m.Failed == "" {
		o := m.Ops[0]
		m.Ops = m.Ops[1:]
		if wait, err := b.do(ctx, cmd, o); wait || err != nil {
			return err
		}
	}
	m.Active = false
	if m.Failed != "" {
		return say(cmd.Guest, sandbox.GuestMessage{Fail: &sandbox.Fail{Error: sandbox.GuestError{Name: "Error",
			Message: m.Failed}}})
	}
	value, err := tool.Marshal(strings.Join(m.Out, ","))
	if err != nil {
		return err
	}
	return say(cmd.Guest, sandbox.GuestMessage{Done: &sandbox.Done{Value: value}})
}

func (b *puppetBox) do(ctx context.Context, cmd *sandbox.Cmd, o op) (wait bool, err error) {
	m := &b.m
	switch {
	case o.Set != "":
		k, v, _ := strings.Cut(o.Set, "=")
		if more, ok := strings.CutPrefix(v, "+"); ok {
			v = m.Vars[k] + more
		}
		m.Vars[k] = v
	case o.Get != "":
		m.Out = append(m.Out, m.Vars[o.Get])
	case o.Seed:
		m.Out = append(m.Out, m.Seed)
	case o.Emit != "":
		return false, say(cmd.Guest, sandbox.GuestMessage{Emit: &sandbox.Emit{Handle: o.Emit}})
	case o.Fail != "":
		m.Failed = o.Fail
	case o.Spin:
		if b.p.spin != nil {
			b.p.spin <- struct{}{}
		}
		<-ctx.Done()
		return false, context.Cause(ctx)
	case o.Timer != 0:
		m.Asleep = true
		return true, say(cmd.Guest, sandbox.GuestMessage{Timer: &sandbox.Timer{MS: o.Timer}})
	case o.Call != "", o.File != nil, o.Sleep != 0:
		return b.request(ctx, cmd, o)
	}
	return false, nil
}

func (b *puppetBox) request(ctx context.Context, cmd *sandbox.Cmd, o op) (wait bool, err error) {
	m := &b.m
	m.Next++
	var g sandbox.GuestMessage
	switch {
	case o.Call != "":
		g.Call = &sandbox.GuestCall{ID: m.Next, Path: o.Call, Args: json.RawMessage(`{}`)}
	case o.File != nil:
		f := *o.File
		f.ID, g.File = m.Next, &f
	default:
		g.Sleep = &sandbox.Sleep{MS: o.Sleep}
	}
	if o.Ask || o.Sleep != 0 {
		q, err := tool.Marshal(g)
		if err != nil {
			return false, err
		}
		var h sandbox.HostMessage
		if err := json.Unmarshal(cmd.Ask(ctx, q), &h); err != nil || h.Answer == nil {
			return false, errors.Join(errors.New("no answer"), err, context.Cause(ctx))
		}
		m.answered(h.Answer)
		return false, nil
	}
	if !o.Stray {
		if m.Wants == nil {
			m.Wants = map[int64]bool{}
		}
		m.Wants[m.Next] = true
	}
	return !o.Stray, say(cmd.Guest, g)
}

// verbatim is a Preparer that passes the program's text to the puppet unchanged.
type verbatim struct{}

func (verbatim) Prepare(q program.Request) (*program.Program, error) {
	p := &program.Program{Runtime: "js", Code: q.Source, Name: program.FileName, Source: q.Source}
	if q.Language == "python" {
		p.Runtime = "python"
	}
	return p, nil
}

func ops(list ...op) string {
	raw, err := tool.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func writeTo(path, text string) op {
	return op{File: &sandbox.File{Op: "write", Path: path, Data: text}}
}
func readOf(path string) op { return op{File: &sandbox.File{Op: "read", Path: path}} }
