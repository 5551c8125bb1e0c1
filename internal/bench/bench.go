// Package bench measures the headline figures of this binary, side by side in one run: by really running it as an agent's
// client does, and the parts below it that have figures of their own (search, the record, sandboxes). It is offline; what
// it makes is in a temporary folder that is gone afterwards, and every process that it starts has ended.
//
// Figures of a shared or a sleepy machine say little by themselves. So what belongs together is measured in the same
// run, and each row says how it compares to the first of its group.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tiktoken-go/tokenizer"

	"github.com/biplane-dev/biplane/internal/demo"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config is what to measure, and how long.
type Config struct {
	Biplane []string // the command line that is this program; must be set. `mcp`, `run`, `version` and ServeArgs are appended
	// ServeArgs is what makes this program one of the demonstration's servers; kind and path are appended.
	ServeArgs []string
	Version   string    // of Biplane
	Quick     bool      // few rounds: shows that all works, and no figures to rely on
	Progress  io.Writer // told what goes on, line by line; nil: nobody
}

// A measure is one group of figures.
type measure struct {
	name string
	run  func(*runner, context.Context) ([]Figure, error)
}

// The groups, in the order of the report.
var measures = []measure{
	{"a process, from its start to its answer", (*runner).start},
	{"memory of a process (resident)", (*runner).memory},
	{"execute, as an agent sees it over MCP", (*runner).execute},
	{"one call of a tool of an MCP server over stdio", (*runner).calls},
	{"calls that wait, in one program", (*runner).parallel},
	{"search", (*runner).search},
	{"the record of a call: its begin and its end", (*runner).records},
	{"sandboxes", (*runner).sandboxes},
	{"what an agent reads of the tools, before it does anything", (*runner).tokens},
}

// A runner measures.
type runner struct {
	cfg   Config
	dir   string
	agent *demo.Session // with a Biplane in front of the server that measurements call
}

// Run measures. Errors are *tool.Error: Canceled where ctx was done, Unavailable where something could not be started or
// didn't do its part.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Progress == nil {
		cfg.Progress = io.Discard
	}
	rep, err := run(ctx, cfg)
	switch {
	case err == nil:
		return rep, nil
	case ctx.Err() != nil:
		return nil, tool.AsError(ctx.Err())
	}
	return nil, tool.Errorf(tool.Unavailable, "bench: %w", err)
}

func run(ctx context.Context, cfg Config) (_ *Report, err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "biplane-bench-")
	if err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &runner{cfg: cfg, dir: dir}
	if r.agent, err = r.connect(ctx, "code", demo.Bench); err != nil {
		return nil, err
	}
	defer func() {
		if e := r.agent.Close(); err == nil {
			err = e
		}
	}()
	rep := newReport(cfg)
	for _, m := range measures {
		fmt.Fprintf(cfg.Progress, "measuring: %s\n", m.name)
		figures, err := m.run(r, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		rep.add(m.name, figures)
	}
	rep.Seconds = time.Since(began).Seconds()
	return rep, nil
}

// connect starts Biplane in a mode, in front of servers of the demonstration, and waits until all their tools are there.
func (r *runner) connect(ctx context.Context, mode string, kinds ...string) (*demo.Session, error) {
	servers := map[string]any{}
	for _, kind := range kinds {
		argv := r.argv(append(append([]string{}, r.cfg.ServeArgs...), kind, filepath.Join(r.dir, "customers.db"))...)
		servers[kind] = map[string]any{"command": argv[0], "args": argv[1:]}
	}
	text, err := json.Marshal(map[string]any{"mode": mode, "policy": "open", "start_wait": "30s", "mcpServers": servers})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, mode+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	s, err := demo.Connect(ctx, r.argv("mcp", "--config", file, "--data-dir", filepath.Join(r.dir, "data-"+mode), "--log-level", "error"))
	if err != nil {
		return nil, err
	}
	// Calls and lists wait for the first connections.
	if _, err = s.Definitions(ctx); err == nil && mode == "code" {
		_, err = s.Call(ctx, "bench.read", map[string]string{"text": "ready"})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// argv is the command line of this program with args.
func (r *runner) argv(args ...string) []string {
	return append(append([]string{}, r.cfg.Biplane...), args...)
}

// rounds is n, or few where it must be quick.
func (r *runner) rounds(n int) int {
	if r.cfg.Quick {
		return max(2, n/50)
	}
	return n
}

// span is how long to do something over and over.
func (r *runner) span(d time.Duration) time.Duration {
	if r.cfg.Quick {
		return d / 20
	}
	return d
}

// tokens counts what is listed for a model: the three tools, and those of two small servers.
func (r *runner) tokens(ctx context.Context) (_ []Figure, err error) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return nil, err
	}
	direct, err := r.connect(ctx, "direct", demo.Kinds...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := direct.Close(); err == nil {
			err = e
		}
	}()
	var out []Figure
	for _, s := range []struct {
		name    string
		session *demo.Session
	}{
		{"mode direct, with the demo's two servers: %d tools", direct},
		{"mode code, however many tools there are: %d tools", r.agent},
	} {
		defs, err := s.session.Definitions(ctx)
		if err != nil {
			return nil, err
		}
		sum := 0
		for _, d := range defs {
			n, err := codec.Count(d)
			if err != nil {
				return nil, err
			}
			sum += n
		}
		out = append(out, amount(fmt.Sprintf(s.name, len(defs)), float64(sum), "tokens"))
	}
	return out, nil
}
