package mcp

import (
	"errors"
	"io"
	"sync/atomic"
)

// What a server may write before it speaks MCP, since its last message.
const (
	babbleLines = 1000
	babbleBytes = 4 << 20
)

var errBabble = errors.New("more text than a server has reason to write before it speaks MCP")

// A guard reads what a server writes, and bounds what it writes before the handshake that is no message. A program that is
// no MCP server at all may write without end.
type guard struct {
	src   io.Reader
	ready *atomic.Bool // the handshake is over: nothing is bounded any more

	first string // of the lines that are no messages
	lines int
	bytes int // read since the last message
}

// Read reads. It fails with errBabble when there was too much.
func (g *guard) Read(p []byte) (int, error) {
	if g.bytes > babbleBytes && !g.ready.Load() {
		return 0, errBabble
	}
	n, err := g.src.Read(p)
	g.bytes += n
	return n, err
}

// note counts a line, and says whether it is one too many.
func (g *guard) note(text []byte, message bool) bool {
	if message {
		g.lines, g.bytes = 0, 0
		return false
	}
	if len(text) == 0 || g.ready.Load() {
		return false
	}
	if g.first == "" {
		g.first = snippet(text, 100)
	}
	g.lines++
	return g.lines > babbleLines
}
