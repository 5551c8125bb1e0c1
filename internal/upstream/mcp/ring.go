package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/upstream/plaintext"
)

const (
	ringLines = 100 // number of lines kept
	ringWidth = 400 // bytes kept of each line
)

// A ring buffer keeps the last lines of log output of a server. Their number and length are
// limited. Nothing in them can move a terminal's cursor.
type ring struct {
	secrets *mask.Masker // removes secrets; may be nil

	mu    sync.Mutex
	lines []string
	next  int
	count int // lines ever added
}

// addLine adds a line.
func (r *ring) addLine(line string) {
	line = r.secrets.Text(cleanLine(r.secrets.Text(line), ringWidth)) // escape sequences may have split a secret
	if line == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if len(r.lines) < ringLines {
		r.lines = append(r.lines, line)
		return
	}
	r.lines[r.next] = line
	r.next = (r.next + 1) % ringLines
}

// allLines returns the lines, oldest first.
func (r *ring) allLines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]string(nil), r.lines[r.next:]...), r.lines[:r.next]...)
}

// countLines returns the number of lines added so far.
func (r *ring) countLines() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// lastAfter returns the newest line added after the first n, or "".
func (r *ring) lastAfter(n int) string {
	if l := r.allLines(); len(l) > 0 && r.countLines() > n {
		return l[len(l)-1]
	}
	return ""
}

// copyLines adds the lines of src until it ends.
func (r *ring) copyLines(src io.Reader) {
	b := bufio.NewReaderSize(src, 16<<10)
	for {
		line, err := b.ReadSlice('\n')
		if len(line) > 0 {
			r.addLine(string(line))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of an overlong line
			_, err = b.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// cleanLine converts s to one printable line of at most width bytes. Escape sequences and control
// characters are removed. Bytes that are not UTF-8 become U+FFFD.
func cleanLine(s string, width int) string {
	if len(s) > 16*width {
		s = s[:16*width]
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i += plaintext.EscapeLen(s[i:])
			continue
		}
		c, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if c == '\t' || c == '\n' || c == '\r' {
			c = ' '
		}
		if isHidden(c) {
			continue
		}
		if b.Len()+utf8.RuneLen(c) > width {
			return strings.TrimSpace(b.String()) + "…"
		}
		b.WriteRune(c)
	}
	return strings.TrimSpace(b.String())
}

// isHidden reports whether c moves, reorders or hides text instead of being displayed.
func isHidden(c rune) bool { return c < ' ' || plaintext.IsHidden(c) }

// cleanSnippet returns the beginning of data as one printable line.
func cleanSnippet(data []byte, width int) string {
	return cleanLine(string(bytes.TrimSpace(data[:min(len(data), 4*width)])), width)
}
