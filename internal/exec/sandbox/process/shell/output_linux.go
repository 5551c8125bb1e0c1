package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxLine  = 16 << 10 // bytes of a console line; longer ones are split
	maxValue = 64 << 10 // bytes of standard output that become the value
	maxTail  = 5        // last lines of standard error that an error shows, of a script
	maxTrace = 20       // of another program, which may end with a stack trace
)

// readSize is how many bytes of a pipe are read at once. Go has buffers of up to 64 KiB on the
// stack of their goroutine: that would grow and be cleared, also if little is read.
const readSize = 65 << 10

// An output is standard output or standard error of a program.
type output struct {
	level string // of its console lines
	host  messenger
	rest  []byte   // an incomplete line
	size  int64    // bytes so far
	text  []byte   // the first of them
	tail  []string // last lines
	keep  int      // how many of them
}

// copyFrom sends what r has as console lines, until its end or its deadline.
func (o *output) copyFrom(r io.Reader) {
	buf := make([]byte, readSize)
	for {
		n, err := r.Read(buf)
		o.sendLines(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			break
		}
	}
	o.endLine()
}

// endLine sends the incomplete last line.
func (o *output) endLine() {
	if len(o.rest) > 0 {
		o.sendLine(o.rest)
		o.rest = nil
	}
}

// sendLines sends the complete lines of what has been written.
func (o *output) sendLines(data []byte) {
	o.size += int64(len(data))
	if room := maxValue + 1 - len(o.text); room > 0 {
		o.text = append(o.text, data[:min(room, len(data))]...)
	}
	o.rest = append(o.rest, data...)
	from := 0
	for {
		end := bytes.IndexByte(o.rest[from:], '\n')
		switch {
		case end >= 0 && end <= maxLine:
			o.sendLine(o.rest[from : from+end])
			from += end + 1
		case len(o.rest)-from > maxLine:
			end = cutRune(o.rest[from:], maxLine)
			o.sendLine(o.rest[from : from+end])
			from += end
		default:
			o.rest = append(o.rest[:0], o.rest[from:]...)
			return
		}
	}
}

// cutRune returns the largest size up to n at which b can be cut without cutting a character.
func cutRune(b []byte, n int) int {
	for i := n; i > n-4; i-- {
		if b[i]&0xc0 != 0x80 {
			return i
		}
	}
	return n
}

func (o *output) sendLine(line []byte) {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if o.tail = append(o.tail, text); len(o.tail) > o.keep {
		o.tail = o.tail[1:]
	}
	o.host.sendMessage(&sandbox.GuestMessage{Console: &sandbox.Console{Level: o.level, Text: text}})
}

// readValue returns the value of a program that wrote o: a JSON object or array, or a text without
// its last newlines. It is nil if o is empty or too large.
func (o *output) readValue() json.RawMessage {
	text := bytes.TrimRight(o.text, "\n")
	if o.size > maxValue || len(text) == 0 {
		return nil
	}
	if document := bytes.TrimSpace(text); len(document) > 0 && (document[0] == '{' || document[0] == '[') {
		var line bytes.Buffer
		if json.Compact(&line, document) == nil {
			return line.Bytes()
		}
	}
	raw, err := tool.Marshal(strings.ToValidUTF8(string(text), "\uFFFD"))
	if err != nil {
		return nil
	}
	return raw
}

// describeSize returns a note on why there is no value, or "".
func (o *output) describeSize() string {
	if o.size <= maxValue {
		return ""
	}
	return fmt.Sprintf("standard output has %d bytes, more than a value may have (%d): the console has the first "+
		"lines. Write large data to a file in ./workspace", o.size, maxValue)
}

// lastLines returns the last lines.
func (o *output) lastLines() string { return strings.Join(o.tail, "\n") }
