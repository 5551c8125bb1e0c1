package daemon_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// allMetrics returns the metrics of a daemon.
func allMetrics(t *testing.T, addr string) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK ||
		!strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("resp.Status = %v, resp.Header = %v, err = %v", resp.Status, resp.Header, err)
	}
	return string(text)
}

// metrics returns the metrics of a daemon, except those of the Go runtime and the process.
func metrics(t *testing.T, addr string) string {
	t.Helper()
	var b strings.Builder
	for l := range strings.Lines(allMetrics(t, addr)) {
		if strings.HasPrefix(l, "biplane_") {
			b.WriteString(l)
		}
	}
	return b.String()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "start_wait: 30s\nmcpServers: { peer: { url: '"+p.URL+
		"' }, gone: { command: /nonexistent/secretword } }")
	c := d.Client()
	execute(t, c, `await Promise.all([1, 2, 3].map((n) => callTool("peer.echo", { n })))`)
	execute(t, c, `await callTool("peer.echo", { n: "secretword" })`)
	execute(t, c, `throw new Error("secretword")`)
	execute(t, c, `for (let i = 0; i < 20; i++) await callTool("secretword.tool" + i, { secretword: 1 }).catch(() => {})`)
	got := metrics(t, d.Addr())
	for _, want := range []string{
		`biplane_calls_total{outcome="ok",upstream="peer"} 3`,
		`biplane_calls_total{outcome="ok",upstream="biplane"} 2`,
		`biplane_calls_total{outcome="tool_error",upstream="biplane"} 2`, // execute, when the program failed
		`biplane_call_duration_seconds_count{upstream="biplane"} 4`,
		`biplane_call_duration_seconds_bucket{upstream="peer",le="+Inf"}`,
		`biplane_calls_in_flight 0`,
		`biplane_execution_duration_seconds_count{state="done"} 2`,
		`biplane_execution_duration_seconds_count{state="failed"} 2`,
		`biplane_executions{state="queued"} 0`,
		`biplane_executions{state="running"} 0`,
		`biplane_upstream_state{state="ready",upstream="peer"} 1`,
		`biplane_upstream_state{state="down",upstream="peer"} 0`,
		`biplane_upstream_state{state="needs_sign_in",upstream="peer"} 0`,
		`version="test"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	// Nothing that agents send becomes a label, and unknown tools share one series.
	if strings.Contains(got, "secretword") || strings.Contains(got, "local:") || strings.Contains(got, "echo") {
		t.Error("labels hold what agents or programs sent")
	}
	if n := len(regexp.MustCompile(`(?m)^biplane_calls_total\{`).FindAllString(got, -1)); n > 5 {
		t.Errorf("%d series of calls", n)
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestMetricsFormat parses all metrics like a collector. Every family must have one type, declared
// before its samples, which must be contiguous.
func TestMetricsFormat(t *testing.T) {
	t.Parallel()
	d, _ := run(t, t.TempDir(), "")
	execute(t, d.Client(), `1`)
	sample := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:, ` +
		`?[a-zA-Z_]\w*="(?:[^"\\]|\\.)*")*\})? (\S+)$`)
	suffixes := map[string][]string{"counter": {""}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"},
		"summary": {"", "_sum", "_count"}}
	kinds, series, family, helped := map[string]string{}, map[string]bool{}, "", ""
	for line := range strings.Lines(allMetrics(t, d.Addr())) {
		line = strings.TrimSuffix(line, "\n")
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			helped, _, _ = strings.Cut(help, " ")
			continue
		}
		if typed, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(typed, " ")
			if kinds[name] != "" || suffixes[kind] == nil || helped != name {
				t.Errorf("%s: the second, after the help of another (%s), or no type", line, helped)
			}
			family, kinds[name] = name, kind
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q is no figure", line)
			continue
		}
		suffix, ok := strings.CutPrefix(m[1], family)
		if _, err := strconv.ParseFloat(m[2], 64); err != nil || !ok ||
			!slices.Contains(suffixes[kinds[family]], suffix) {
			t.Errorf("%q is not of %s, a %s (%v)", line, family, kinds[family], err)
		}
		if name := strings.TrimSuffix(line, m[2]); series[name] {
			t.Errorf("the series %q occurs twice", name)
		} else {
			series[name] = true
		}
	}
	want := map[string]string{"go_goroutines": "gauge", "go_gc_duration_seconds": "summary",
		"go_gc_pauses_seconds": "histogram", "biplane_calls_total": "counter"}
	if runtime.GOOS == "linux" {
		want["process_cpu_seconds_total"] = "counter"
	}
	for name, kind := range want {
		if kinds[name] != kind {
			t.Errorf("%s is a %q", name, kinds[name])
		}
	}
}

// await waits until n calls of meet are waiting.
func (p *peer) await(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		p.mu.Lock()
		waiting := len(p.waiting)
		p.mu.Unlock()
		if waiting == n {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d calls wait, want %d", waiting, n)
		}
	}
}

// TestMetricsInFlight reads the metrics while a program waits for a call.
func TestMetricsInFlight(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "mcpServers: { peer: { url: '"+p.URL+"' } }")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := d.Client().Run(t.Context(),
			api.RunRequest{Code: `await callTool("peer.meet", { n: 2 })`}); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	p.await(t, 1)
	got := metrics(t, d.Addr())
	// execute and the call of its program
	if !strings.Contains(got, "biplane_calls_in_flight 2\n") ||
		!strings.Contains(got, `biplane_executions{state="running"} 1`) {
		t.Errorf("got = %v", got)
	}
	execute(t, d.Client(), `await callTool("peer.meet", { n: 2 })`)
	<-done
	if got := metrics(t, d.Addr()); !strings.Contains(got, "biplane_calls_in_flight 0\n") ||
		!strings.Contains(got, `biplane_executions{state="running"} 0`) {
		t.Errorf("got = %v", got)
	}
}
