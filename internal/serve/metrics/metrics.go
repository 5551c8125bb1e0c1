// Package metrics counts events, and writes metrics in Prometheus' text format.
package metrics

import (
	"bytes"
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

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Registry.
type Config struct {
	Version string // version of Biplane
	Catalog *catalog.Catalog
	Gauges  Gauges
}

// Gauges returns figures when metrics are collected.
type Gauges interface {
	// UpstreamStates returns the states of upstreams, by name.
	UpstreamStates() map[string]tool.State
	// ExecutionLoad returns the number of executions.
	ExecutionLoad() (running, queued int)
	// PendingApprovals returns the number of requests that wait for a person, up to a bound.
	PendingApprovals() int
	// HasReloadProblem reports whether a changed configuration is not in force.
	HasReloadProblem() bool
	// CheckpointFailures returns how often each destination of checkpoints has failed in a row.
	CheckpointFailures() map[string]int
}

// A Registry counts calls and executions, their outcomes and their durations. Labels are only names
// of upstreams, kinds and states. Values that an agent chooses must not become time series, nor be
// visible to those who can read metrics.
type Registry struct {
	cfg        Config
	calls      *counter // by outcome and upstream
	inFlight   atomic.Int64
	duration   *histogram // by upstream
	executions *histogram // by state
}

// unknown is the upstream of a call of an unknown tool.
const unknown = "unknown"

// New returns an empty Registry.
func New(cfg Config) *Registry {
	return &Registry{
		cfg: cfg,
		calls: newCounter("biplane_calls_total", "Completed tool calls by agents and programs, by upstream (biplane: "+
			"search, execute, resume) and outcome (ok, tool_error, or the kind of error).", "outcome", "upstream"),
		duration: newHistogram("biplane_call_duration_seconds",
			"Duration of tool calls, including their records in the audit log.", "upstream"),
		// A series that exists from the start has a rate from the first event on.
		executions: newHistogram("biplane_execution_duration_seconds",
			"Duration of completed executions, by state: done, failed or interrupted.", "state",
			string(execution.Done), string(execution.Failed), string(execution.Interrupted)),
	}
}

// A CallMeasure measures a call.
type CallMeasure struct {
	of       *Registry
	upstream string
	began    time.Time
}

// BeginCall begins to measure a call of the tool with a path. The call is in flight until
// LeaveFlight.
func (r *Registry) BeginCall(path string) CallMeasure {
	m := CallMeasure{of: r, upstream: unknown, began: time.Now()}
	if e, err := r.cfg.Catalog.View().Resolve(path); err == nil {
		m.upstream = e.Tool.Upstream
	}
	r.inFlight.Add(1)
	return m
}

// LeaveFlight is called when the call is over, even if it panicked.
func (m CallMeasure) LeaveFlight() { m.of.inFlight.Add(-1) }

// CountCall counts the call with its outcome.
func (m CallMeasure) CountCall(res *tool.Result, err error) {
	m.of.duration.observeDuration(m.upstream, time.Since(m.began).Seconds())
	m.of.calls.addOne(classifyOutcome(res, err), m.upstream)
}

// classifyOutcome classifies the outcome of a call.
func classifyOutcome(res *tool.Result, err error) string {
	switch {
	case err != nil:
		return string(tool.AsError(err).Kind)
	case res != nil && res.IsError:
		return "tool_error"
	}
	return "ok"
}

// CountExecution counts an execution that has ended.
func (r *Registry) CountExecution(e *execution.Execution) {
	r.executions.observeDuration(string(e.State), time.Since(e.Started).Seconds())
}

// Handler serves the metrics in Prometheus' text format.
func (r *Registry) Handler(log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var b bytes.Buffer
		r.writeAll(&b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if _, err := w.Write(b.Bytes()); err != nil {
			log.DebugContext(req.Context(), "metrics not collected", "error", err)
		}
	})
}

// writeAll writes the counters, the current gauges, and the metrics of Go and the process.
func (r *Registry) writeAll(w *bytes.Buffer) {
	writeFamily(w, "biplane_build_info", "gauge", "Always 1; the labels name the version and the build.")
	fmt.Fprintf(w, "biplane_build_info{go=%s,platform=%s,version=%s} 1\n", quoteLabel(runtime.Version()),
		quoteLabel(runtime.GOOS+"/"+runtime.GOARCH), quoteLabel(r.cfg.Version))
	r.calls.writeSeries(w)
	r.duration.writeSeries(w)
	writeFamily(w, "biplane_calls_in_flight", "gauge", "Tool calls in progress.")
	fmt.Fprintf(w, "biplane_calls_in_flight %d\n", max(r.inFlight.Load(), 0))
	r.executions.writeSeries(w)
	running, queued := r.cfg.Gauges.ExecutionLoad()
	writeFamily(w, "biplane_executions", "gauge", "Executions in progress, by state: queued or running.")
	fmt.Fprintf(w, "biplane_executions{state=%s} %d\n", quoteLabel(string(execution.Running)), running)
	fmt.Fprintf(w, "biplane_executions{state=%s} %d\n", quoteLabel(string(execution.Queued)), queued)
	writeFamily(w, "biplane_upstream_state", "gauge", "1 for the current state of an upstream, 0 for its other states.")
	states := r.cfg.Gauges.UpstreamStates()
	for _, name := range slices.Sorted(maps.Keys(states)) {
		for _, s := range []tool.State{tool.Connecting, tool.Ready, tool.Degraded, tool.Down, tool.NeedsSignIn} {
			v := 0
			if s == states[name] {
				v = 1
			}
			state := strings.NewReplacer(" ", "_", "-", "_").Replace(string(s))
			fmt.Fprintf(w, "biplane_upstream_state{state=%s,upstream=%s} %d\n", quoteLabel(state), quoteLabel(name), v)
		}
	}
	r.writeOperations(w)
	// a global switch of the library, which is used only here: it includes the types of metrics
	figures.ExposeMetadata(true)
	figures.WriteProcessMetrics(w)
	figures.WriteFDMetrics(w)
}

// writeOperations writes what alerts of operators are about.
func (r *Registry) writeOperations(w *bytes.Buffer) {
	writeFamily(w, "biplane_approvals_pending", "gauge", "Requests that wait for a person, at most 1000.")
	fmt.Fprintf(w, "biplane_approvals_pending %d\n", r.cfg.Gauges.PendingApprovals())
	failed := 0
	if r.cfg.Gauges.HasReloadProblem() {
		failed = 1
	}
	writeFamily(w, "biplane_configuration_problem", "gauge",
		"1 if the changed configuration or its policies are not in force, because they are invalid.")
	fmt.Fprintf(w, "biplane_configuration_problem %d\n", failed)
	writeFamily(w, "biplane_checkpoint_failures", "gauge",
		"Failed attempts, since the last success, to send checkpoints of the record to a destination.")
	failures := r.cfg.Gauges.CheckpointFailures()
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		fmt.Fprintf(w, "biplane_checkpoint_failures{sink=%s} %d\n", quoteLabel(name), failures[name])
	}
}

// writeFamily writes the header of a metric.
func writeFamily(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// quoteLabel returns s as a quoted label value.
func quoteLabel(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD")) + `"`
}
