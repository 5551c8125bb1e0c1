package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// many is how many calls come at once to the record.
const many = 64

// records measures the record in a store on the disk where temporary files are.
func (r *runner) records(ctx context.Context) (_ []Figure, err error) {
	s, err := store.Open(ctx, store.Config{Path: filepath.Join(r.dir, "data-records")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	log := audit.New(audit.Config{Store: s.Audit()})
	yes, no := true, false
	answer := tool.Text(false, "done")
	var out []Figure
	for _, c := range []struct {
		name     string
		readOnly *bool
		workers  int
	}{
		{"on the disk before the call leaves, one after the other", &no, 1},
		{fmt.Sprintf("on the disk before the call leaves, %d at once", many), &no, many},
		{"of tools that only read, one after the other", &yes, 1},
		{fmt.Sprintf("of tools that only read, %d at once", many), &yes, many},
	} {
		call := &tool.Call{
			ID: "call", Path: "bench.write", Arguments: []byte(`{"text":"x"}`), Principal: tool.Principal{ID: "local:bench"},
			Tool: &tool.Tool{Upstream: "bench", Name: "write", Annotations: tool.Annotations{ReadOnly: c.readOnly}},
		}
		do := func() error {
			e, err := log.Begin(ctx, call, "allow")
			if err != nil {
				return err
			}
			return e.End(ctx, answer, nil)
		}
		f := Figure{Name: c.name}
		if c.workers == 1 {
			took, err := repeat(ctx, r.rounds(200), do)
			if err != nil {
				return nil, err
			}
			f = times(c.name, took)
		}
		if f.PerSecond, err = rate(ctx, c.workers, r.span(700*time.Millisecond), do); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// sandboxes measures new sandboxes, without the rest of an execution.
func (r *runner) sandboxes(ctx context.Context) (_ []Figure, err error) {
	d, err := wasm.New(wasm.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Probe(ctx); err != nil {
		return []Figure{{Name: "made and destroyed", Skipped: err.Error()}}, nil
	}
	var out []Figure
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"made and destroyed", func() error {
			s, err := d.Create(ctx, sandbox.Spec{})
			if err != nil {
				return err
			}
			return s.Close()
		}},
		{"made, an empty program run in it, destroyed", func() error { return empty(ctx, d) }},
	} {
		took, err := repeat(ctx, r.rounds(300), c.do)
		if err != nil {
			return nil, err
		}
		f := times(c.name, took)
		if f.PerSecond, err = rate(ctx, runtime.GOMAXPROCS(0), r.span(700*time.Millisecond), c.do); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// empty runs the smallest program in a fresh sandbox.
func empty(ctx context.Context, d sandbox.Driver) (err error) {
	s, err := d.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	first, err := tool.Marshal(sandbox.HostMessage{Run: &sandbox.Run{Code: "(async () => 1)", Name: "program.js"}})
	if err != nil {
		return err
	}
	over := make(chan struct{})
	g := &guest{in: bytes.NewReader(append(first, '\n')), over: over, end: sync.OnceFunc(func() { close(over) })}
	if _, err := s.Run(ctx, &sandbox.Cmd{Guest: g}); err != nil {
		return err
	}
	if !bytes.Contains(g.said, []byte(`"done"`)) {
		return fmt.Errorf("the guest said %.200q", g.said)
	}
	return nil
}

// A guest is the stream of a guest that is told one thing, and answers with one line.
type guest struct {
	in   io.Reader
	said []byte
	over <-chan struct{} // closed when it has answered, or was stopped
	end  func()          // closes over
}

// Read gives what the guest is told; the end comes when it has answered.
func (g *guest) Read(p []byte) (int, error) {
	n, err := g.in.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	<-g.over
	return 0, io.EOF
}

// Write takes what the guest says.
func (g *guest) Write(p []byte) (int, error) {
	g.said = append(g.said, p...)
	if bytes.IndexByte(g.said, '\n') >= 0 {
		g.end()
	}
	return len(p), nil
}

// Close ends the stream: also where the guest was stopped before it answered.
func (g *guest) Close() error {
	g.end()
	return nil
}
