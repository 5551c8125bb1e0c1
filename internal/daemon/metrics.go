package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Metrics are what a Prometheus server collects: how many calls and executions there were, how they ended and how long
// they took. Labels are names of upstreams, kinds and states only: nothing that an agent chooses may become a time
// series, or be read by whoever may read figures.
type metrics struct {
	registry   func() *prometheus.Registry // made when it is first asked for: most processes end before anybody collects
	view       func() *catalog.View
	calls      *prometheus.CounterVec   // by upstream and outcome
	duration   *prometheus.HistogramVec // by upstream
	inFlight   prometheus.Gauge
	executions *prometheus.HistogramVec // by state
}

// unknown is the upstream of a call that names no tool.
const unknown = "unknown"

// How long calls and executions take, in seconds: from an echo to what a person has to approve.
var callBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// newMetrics makes metrics of one daemon. view, states and load are asked when figures are collected.
func newMetrics(version string, view func() *catalog.View, states func() map[string]tool.State, load func() (running, queued int)) *metrics {
	m := &metrics{
		view: view,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "biplane_calls_total", Help: "Calls at the door that have ended, from agents and from inside programs, by upstream (biplane: search, execute, resume) and outcome (ok, tool_error, or the kind of error).",
		}, []string{"upstream", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "biplane_call_duration_seconds", Help: "How long calls took at the door, the record of them included.", Buckets: callBuckets,
		}, []string{"upstream"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "biplane_calls_in_flight", Help: "Calls at the door that are under way.",
		}),
		executions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "biplane_execution_duration_seconds", Help: "How long executions took that have ended, by state: done, failed or interrupted.", Buckets: callBuckets,
		}, []string{"state"}),
	}
	for _, s := range []execution.State{execution.Done, execution.Failed, execution.Interrupted} {
		m.executions.WithLabelValues(string(s)) // a series that is there from the start has a rate from the first event on
	}
	m.registry = sync.OnceValue(func() *prometheus.Registry { return m.registered(version, states, load) })
	return m
}

// registered makes the registry of what is counted, what is asked, and what Go and the system say of this process.
func (m *metrics) registered(version string, states func() map[string]tool.State, load func() (running, queued int)) *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "biplane_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": label(version), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH},
	})
	build.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(m.calls, m.duration, m.inFlight, m.executions, build, newMoment(states, load),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// counted counts the calls that go to next.
func (m *metrics) counted(next tool.Caller) tool.Caller {
	return tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		upstream := unknown
		if e, err := m.view().Resolve(c.Path); err == nil {
			upstream = label(e.Tool.Upstream)
		}
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		start := time.Now()
		res, err := next.Call(ctx, c)
		m.duration.WithLabelValues(upstream).Observe(time.Since(start).Seconds())
		m.calls.WithLabelValues(upstream, outcome(res, err)).Inc()
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

// ended notes an execution that has ended.
func (m *metrics) ended(e *execution.Execution) {
	m.executions.WithLabelValues(string(e.State)).Observe(time.Since(e.Started).Seconds())
}

// handler serves the figures in Prometheus' text format.
func (m *metrics) handler(log *slog.Logger) http.Handler {
	collected := sync.OnceValue(func() http.Handler {
		return promhttp.HandlerFor(m.registry(), promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { collected().ServeHTTP(w, r) })
}

// label makes s one that Prometheus takes: a label that isn't UTF-8 would be a panic.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// A moment collects what is so at the moment of collecting.
type moment struct {
	states    func() map[string]tool.State
	load      func() (running, queued int)
	upstream  *prometheus.Desc
	executing *prometheus.Desc
}

func newMoment(states func() map[string]tool.State, load func() (running, queued int)) *moment {
	return &moment{
		states: states, load: load,
		upstream:  prometheus.NewDesc("biplane_upstream_state", "1 for the state that an upstream is in, 0 for the others.", []string{"upstream", "state"}, nil),
		executing: prometheus.NewDesc("biplane_executions", "Executions that have not ended, by state: queued or running.", []string{"state"}, nil),
	}
}

// Describe tells of the figures (prometheus.Collector).
func (m *moment) Describe(to chan<- *prometheus.Desc) {
	to <- m.upstream
	to <- m.executing
}

// Collect gives the figures (prometheus.Collector).
func (m *moment) Collect(to chan<- prometheus.Metric) {
	running, queued := m.load()
	to <- prometheus.MustNewConstMetric(m.executing, prometheus.GaugeValue, float64(running), string(execution.Running))
	to <- prometheus.MustNewConstMetric(m.executing, prometheus.GaugeValue, float64(queued), string(execution.Queued))
	for name, is := range m.states() {
		for _, s := range []tool.State{tool.Connecting, tool.Ready, tool.Degraded, tool.Down, tool.NeedsSignIn} {
			v := 0.0
			if s == is {
				v = 1
			}
			to <- prometheus.MustNewConstMetric(m.upstream, prometheus.GaugeValue, v, label(name), strings.NewReplacer(" ", "_", "-", "_").Replace(string(s)))
		}
	}
}
