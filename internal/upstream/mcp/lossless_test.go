//go:build unix

package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// Numbers that a careless parser changes.
var oddNumbers = []string{"0", "-0", "1.0", "1e0", "1E+2", "9007199254740993", "-9223372036854775809",
	"18446744073709551616",
	"123456789012345678901234567890", "1e400", "-1e-400", "0.1000", "1.7976931348623157e309", "5e-324"}

// Unusual parts of JSON strings.
var oddPieces = []string{"a", "é", "\\u00e9", "\\u2028", "\u2028", "\\n", "\\/", "/", "\\\"", "\\\\", "<", "\\u003c",
	"&", "😀", "\\ud83d\\ude00", "\\ud83d", "\\u0000", "\x7f", "data:", "id:", " "}

// jsonText generates JSON text in all syntactic variants.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		max := 6
		if depth == 0 {
			max = 3
		}
		switch rapid.IntRange(0, max).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
		case 1:
			return rapid.SampledFrom(oddNumbers).Draw(t, "number")
		case 2, 3:
			return stringText(t)
		case 4:
			items := rapid.SliceOfN(jsonText(depth-1), 0, 4).Draw(t, "items")
			return "[" + space(t) + strings.Join(items, ","+space(t)) + "]"
		}
		return objectText(t, depth-1)
	})
}

func stringText(t *rapid.T) string {
	return `"` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(oddPieces), 0, 6).Draw(t, "pieces"), "") + `"`
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\t ", "  "}).Draw(t, "space")
}

// objectText generates an object: unknown members, duplicate members, content of unknown types.
func objectText(t *rapid.T, depth int) string {
	var members []string
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		members = append(members, stringText(t)+space(t)+":"+space(t)+jsonText(max(depth, 0)).Draw(t, "value"))
	}
	return "{" + space(t) + strings.Join(members, ","+space(t)) + "}"
}

func resultText(t *rapid.T) string {
	members := []string{`"_meta":` + objectText(t, 1)}
	if rapid.Bool().Draw(t, "content") {
		members = append(members, `"content":[{"type":"hologram","n":`+jsonText(2).Draw(t, "block")+`},`+
			objectText(t, 1)+`]`)
	}
	if rapid.Bool().Draw(t, "structured") {
		members = append(members, `"structuredContent":`+objectText(t, 3))
	}
	for range rapid.IntRange(0, 3).Draw(t, "more") {
		members = append(members, `"x-`+rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "name")+`" : `+
			jsonText(3).Draw(t, "value"))
	}
	return "{" + strings.Join(members, ","+space(t)) + "}"
}

// A rawSSE is the scripted server over HTTP+SSE.
type rawSSE struct {
	mu     sync.Mutex
	stream chan string
}

func (p *rawSSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		c := make(chan string, 100)
		p.mu.Lock()
		p.stream = c
		p.mu.Unlock()
		send := stream(w)
		send("event: endpoint\ndata: ?here\n\n")
		for {
			select {
			case line := <-c:
				send("data: %s\n\n", strings.TrimSpace(line))
			case <-r.Context().Done():
				return
			}
		}
	}
	var m rawMessage
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	p.mu.Lock()
	defer p.mu.Unlock()
	(&rawPeer{out: chanWriter(p.stream)}).handle(m)
}

// A chanWriter is an io.Writer that sends its writes to a channel.
type chanWriter chan string

func (c chanWriter) Write(b []byte) (int, error) { c <- string(b); return len(b), nil }

// rawWays returns the ways to reach the scripted server, whose tool echo returns its arguments
// unchanged.
func rawWays(t *testing.T) map[string]mcp.Config {
	old := httptest.NewServer(&rawSSE{})
	t.Cleanup(func() { old.CloseClientConnections(); old.Close() })
	return map[string]mcp.Config{
		"stdio":        self(t, "raw:"),
		"stdio 2026":   self(t, "raw:modern"),
		"http json":    {URL: (&rawWeb{asJSON: true}).serve(t), Type: "http"},
		"http stream":  {URL: (&rawWeb{}).serve(t), Type: "http"},
		"http 2026":    {URL: (&rawWeb{mode: "modern"}).serve(t), Type: "http"},
		"http and sse": {URL: old.URL, Type: "sse"},
	}
}

// TestLossless checks that arguments and results pass byte for byte over every transport.
func TestLossless(t *testing.T) {
	for name, cfg := range rawWays(t) {
		t.Run(name, func(t *testing.T) {
			r := start(t, mcp.Hasten(cfg))
			r.Ready(t)
			rapid.Check(t, func(rt *rapid.T) { echoes(rt, t, r, resultText(rt)) })
		})
	}
}

func echoes(rt *rapid.T, t *testing.T, r *upstreamtest.Running, text string) {
	res, err := r.Do(t.Context(), "echo", text)
	if err != nil {
		rt.Fatalf("echo %s: %v", text, err)
	}
	if string(res.Raw) != text {
		rt.Fatalf("out and in:\n%s\n%s", text, res.Raw)
	}
}

// TestLineBreaks checks arguments that span several lines. Over stdio a message is one line, so
// white space between tokens is replaced by other white space.
func TestLineBreaks(t *testing.T) {
	const args = "{\n\t\"content\": [],\r\n \"s\": \"a\\nb\"\n}"
	for _, mode := range []string{"raw:", "raw:modern"} {
		t.Run(mode, func(t *testing.T) {
			r := start(t, mcp.Hasten(self(t, mode)))
			r.Ready(t)
			res, err := r.Do(t.Context(), "echo", args)
			if err != nil {
				t.Fatalf("Do: %v", err)
			}
			if want := strings.NewReplacer("\n", " ", "\r", " ").Replace(args); string(res.Raw) != want {
				t.Errorf("got %q, want %q", res.Raw, want)
			}
		})
	}
}

// BenchmarkCall measures sequential and parallel calls of a tool that does nothing, over stdio and
// HTTP.
func BenchmarkCall(b *testing.B) {
	web := httptest.NewServer(&rawWeb{asJSON: true})
	b.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	for name, cfg := range map[string]mcp.Config{"stdio": self(b, "raw:"), "http": {URL: web.URL, Type: "http"}} {
		for _, size := range []int{10, 10_000, 1_000_000} {
			args := `{"content":[],"x":"` + strings.Repeat("x", size) + `"}`
			b.Run(fmt.Sprintf("%s/%dB", name, size), func(b *testing.B) {
				r := start(b, cfg)
				r.Ready(b)
				b.SetBytes(int64(2 * len(args)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := r.Do(b.Context(), "echo", args); err != nil {
						b.Fatalf("Do: %v", err)
					}
				}
			})
		}
		b.Run(name+"/parallel", func(b *testing.B) {
			r := start(b, cfg)
			r.Ready(b)
			b.SetParallelism(16)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := r.Do(b.Context(), "echo", `{"content":[]}`); err != nil {
						b.Errorf("Do: %v", err)
						return
					}
				}
			})
		})
	}
}
