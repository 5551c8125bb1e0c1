package mcpserver_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// BenchmarkCall measures the overhead of this package per call: from the client's bytes to the Door
// and back.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		res := tool.Text(false, strings.Repeat("x", size))
		call := `{"name":"up_echo","arguments":{"text":"` + strings.Repeat("y", size) + `"}}`
		cfg := config(nil, mcpserver.Code)
		cfg.Door = tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return res, nil })
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			b.Run(fmt.Sprintf("stdio/%s/%dB", version, size), func(b *testing.B) {
				p := startStdio(b, mcpserver.New(cfg), version)
				for b.Loop() {
					p.call(b, "tools/call", call)
				}
			})
			b.Run(fmt.Sprintf("http/%s/%dB", version, size), func(b *testing.B) {
				s := mcpserver.New(cfg)
				srv := httptest.NewServer(s.Handler())
				defer srv.Close()
				defer s.Close()
				p := dial(b, srv.URL, version)
				for b.Loop() {
					p.call(b, "tools/call", call)
				}
			})
		}
	}
}

// BenchmarkList measures tools/list with a catalog of 1,000 upstream tools in mode Direct.
func BenchmarkList(b *testing.B) {
	cfg := config(newDoor(), mcpserver.Direct)
	listed := upstreamTools()
	for len(listed) < 1000 {
		listed = append(listed, listed[:2]...)
	}
	cfg.Catalog = upstreams{list: func() []mcpserver.Listed { return listed }}
	p := startStdio(b, mcpserver.New(cfg), "2026-07-28")
	for b.Loop() {
		p.call(b, "tools/list", "")
	}
}
