package mcp

import (
	"errors"
	"io"
	"sync/atomic"
)

// Limits of what a server may write before it speaks MCP, since its last message.
const (
	babbleLines = 1000
	babbleBytes = 4 << 20
)

var errBabble = errors.New("too much text before the first MCP message")

// A guard reads the output of a server. Before the handshake is over, it limits output that is not
// a message: a program that is no MCP server may write without end.
type guard struct {
	src   io.Reader
	ready *atomic.Bool // the handshake is over: no limits apply

	first string // first line that is not a message
	lines int
	bytes int // read since the last message
}

// Read reads from src. It fails with errBabble when the limit is exceeded.
func (g *guard) Read(p []byte) (int, error) {
	if g.bytes > babbleBytes && !g.ready.Load() {
		return 0, errBabble
	}
	n, err := g.src.Read(p)
	g.bytes += n
	return n, err
}

// exceedsLimit counts a line, and reports whether the limit is exceeded.
func (g *guard) exceedsLimit(text []byte, message bool) bool {
	if message {
		g.lines, g.bytes = 0, 0
		return false
	}
	if len(text) == 0 || g.ready.Load() {
		return false
	}
	if g.first == "" {
		g.first = cleanSnippet(text, 100)
	}
	g.lines++
	return g.lines > babbleLines
}
