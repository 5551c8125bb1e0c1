package daemon_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// metrics gives the figures of a daemon, less those of the Go runtime and the process.
func metrics(t *testing.T, addr string) string {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Fatal(resp.Status, resp.Header, err)
	}
	var b strings.Builder
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, "biplane_") {
			b.WriteString(l)
		}
	}
	return b.String()
}

func TestMetrics(t *testing.T) {
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "start_wait: 100ms\nmcpServers: { peer: { url: '"+p.URL+"' }, gone: { command: /nonexistent/secretword } }")
	c := d.Client()
	execute(t, c, `await Promise.all([1, 2, 3].map((n) => callTool("peer.echo", { n })))`)
	execute(t, c, `await callTool("peer.echo", { n: "secretword" })`)
	execute(t, c, `throw new Error("secretword")`)
	execute(t, c, `for (let i = 0; i < 20; i++) await callTool("secretword.tool" + i, { secretword: 1 }).catch(() => {})`)
	got := metrics(t, d.Addr())
	for _, want := range []string{
		`biplane_calls_total{outcome="ok",upstream="peer"} 3`,
		`biplane_calls_total{outcome="ok",upstream="biplane"} 2`,
		`biplane_calls_total{outcome="tool_error",upstream="biplane"} 2`, // execute, where the program failed
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
	// Nothing that agents send becomes a label, and what names no tool is one series, not many.
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

// await waits until n calls of meet wait for others.
func (p *peer) await(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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

// TestMetricsInFlight looks while a program waits for a call.
func TestMetricsInFlight(t *testing.T) {
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "mcpServers: { peer: { url: '"+p.URL+"' } }")
	done := make(chan struct{})
	go func() {
		defer close(done)
		execute(t, d.Client(), `await callTool("peer.meet", { n: 2 })`)
	}()
	p.await(t, 1)
	got := metrics(t, d.Addr())
	// execute, and the call of its program.
	if !strings.Contains(got, "biplane_calls_in_flight 2\n") || !strings.Contains(got, `biplane_executions{state="running"} 1`) {
		t.Error(got)
	}
	execute(t, d.Client(), `await callTool("peer.meet", { n: 2 })`)
	<-done
	if got := metrics(t, d.Addr()); !strings.Contains(got, "biplane_calls_in_flight 0\n") || !strings.Contains(got, `biplane_executions{state="running"} 0`) {
		t.Error(got)
	}
}
