// Package metrics counts what a Prometheus server collects, and writes it in that one's text format.
package metrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	figures "github.com/VictoriaMetrics/metrics"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config is what a Registry asks when figures are collected.
type Config struct {
	Version string // of Biplane
	View    func() *catalog.View
	States  func() map[string]tool.State // of upstreams, by name
	Load    func() (running, queued int) // executions
}

// A Registry has how many calls and executions there were, how they ended and how long they took. Labels are names of upstreams, kinds and states
// only: nothing that an agent chooses may become a time series, or be read by whoever may read figures.
type Registry struct {
	cfg        Config
	calls      *counter // by outcome and upstream
	inFlight   atomic.Int64
	duration   *histogram // by upstream
	executions *histogram // by state
}

// unknown is the upstream of a call that names no tool.
const unknown = "unknown"

// New makes a Registry in which nothing is counted.
func New(cfg Config) *Registry {
	return &Registry{
		cfg:      cfg,
		calls:    newCounter("biplane_calls_total", "Calls at the door that have ended, from agents and from inside programs, by upstream (biplane: search, execute, resume) and outcome (ok, tool_error, or the kind of error).", "outcome", "upstream"),
		duration: newHistogram("biplane_call_duration_seconds", "How long calls took at the door, the record of them included.", "upstream"),
		// A series that is there from the start has a rate from the first event on.
		executions: newHistogram("biplane_execution_duration_seconds", "How long executions took that have ended, by state: done, failed or interrupted.", "state",
			string(execution.Done), string(execution.Failed), string(execution.Interrupted)),
	}
}

// Counted counts the calls that go to next.
func (r *Registry) Counted(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		upstream := unknown
		if e, err := r.cfg.View().Resolve(c.Path); err == nil {
			upstream = e.Tool.Upstream
		}
		r.inFlight.Add(1)
		defer r.inFlight.Add(-1)
		start := time.Now()
		res, err := next.Call(ctx, c)
		r.duration.observe(upstream, time.Since(start).Seconds())
		r.calls.add(outcome(res, err), upstream)
		return res, err
	})
}

// outcome sorts how a call ended.
func outcome(res *tool.Result, err error) string {
	switch {
	case err != nil:
		return string(tool.AsError(err).Kind)
	case res != nil && res.IsError:
		return "tool_error"
	}
	return "ok"
}

// Ended notes an execution that has ended.
func (r *Registry) Ended(e *execution.Execution) {
	r.executions.observe(string(e.State), time.Since(e.Started).Seconds())
}

// Handler serves the figures in Prometheus' text format.
func (r *Registry) Handler(log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var b bytes.Buffer
		r.write(&b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if _, err := w.Write(b.Bytes()); err != nil {
			log.DebugContext(req.Context(), "figures were not taken", "error", err)
		}
	})
}

// write writes what is counted, what is so at this moment, and what Go and the system say of this process.
func (r *Registry) write(w *bytes.Buffer) {
	family(w, "biplane_build_info", "gauge", "Always 1; the labels say what runs.")
	fmt.Fprintf(w, "biplane_build_info{go=%s,platform=%s,version=%s} 1\n", label(runtime.Version()), label(runtime.GOOS+"/"+runtime.GOARCH), label(r.cfg.Version))
	r.calls.write(w)
	r.duration.write(w)
	family(w, "biplane_calls_in_flight", "gauge", "Calls at the door that are under way.")
	fmt.Fprintf(w, "biplane_calls_in_flight %d\n", max(r.inFlight.Load(), 0))
	r.executions.write(w)
	running, queued := r.cfg.Load()
	family(w, "biplane_executions", "gauge", "Executions that have not ended, by state: queued or running.")
	fmt.Fprintf(w, "biplane_executions{state=%s} %d\n", label(string(execution.Running)), running)
	fmt.Fprintf(w, "biplane_executions{state=%s} %d\n", label(string(execution.Queued)), queued)
	family(w, "biplane_upstream_state", "gauge", "1 for the state that an upstream is in, 0 for the others.")
	states := r.cfg.States()
	for _, name := range slices.Sorted(maps.Keys(states)) {
		for _, s := range []tool.State{tool.Connecting, tool.Ready, tool.Degraded, tool.Down, tool.NeedsSignIn} {
			v := 0
			if s == states[name] {
				v = 1
			}
			state := strings.NewReplacer(" ", "_", "-", "_").Replace(string(s))
			fmt.Fprintf(w, "biplane_upstream_state{state=%s,upstream=%s} %d\n", label(state), label(name), v)
		}
	}
	figures.ExposeMetadata(true) // a switch of all of that library, which writes nothing but these: it says their types, too
	figures.WriteProcessMetrics(w)
}

// family writes what goes before the figures of one name.
func family(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// label writes s as the value of a label, with its quotes.
func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD")) + `"`
}
