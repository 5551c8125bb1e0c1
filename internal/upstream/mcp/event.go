package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// errEventSize ends a stream with an event larger than the message limit.
var errEventSize = errors.New("a server-sent event exceeds the maximum message size")

// An event is one server-sent event (WHATWG HTML, section 9.2.6). Unlike browsers, we also want
// events without data: they carry ids and delays for resumption.
type event struct {
	name  string // "" means "message"
	id    string // of this event; "" if it set none
	retry time.Duration
	data  []byte // nil if it had no data; never reused
}

// An eventReader reads server-sent events. Its buffer is limited to max bytes.
type eventReader struct {
	r      *bufio.Reader
	max    int
	begun  bool // past the byte order mark
	skipLF bool // the last line ended in CR: a LF that follows belongs to it
	buf    []byte
}

func newEventReader(r io.Reader, maxSize int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 32<<10), max: maxSize}
}

// nextEvent returns the next event. An event truncated by the end of the stream is dropped.
func (e *eventReader) nextEvent() (event, error) {
	var ev event
	size, seen := 0, false
	for {
		line, err := e.nextLine()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if seen {
				return ev, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if size += len(value); size > e.max {
			return event{}, errEventSize
		}
		seen = ev.setField(string(field), value) || seen
	}
}

// setField sets one field and reports whether it is a known one.
func (ev *event) setField(field string, value []byte) bool {
	switch field {
	case "data":
		if ev.data == nil {
			ev.data = append(make([]byte, 0, len(value)), value...)
			return true
		}
		ev.data = append(append(ev.data, '\n'), value...)
	case "event":
		ev.name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return false
		}
		ev.id = string(value)
	case "retry":
		n, err := strconv.ParseUint(string(value), 10, 31)
		if err != nil {
			return false
		}
		ev.retry = time.Duration(n) * time.Millisecond
	default: // comments and unknown fields
		return false
	}
	return true
}

// nextLine returns the next line without its end, which may be LF, CR or CRLF. It never waits for
// the byte after a CR. The slice is valid until the next call.
func (e *eventReader) nextLine() ([]byte, error) {
	if e.buf = e.buf[:0]; cap(e.buf) > 1<<20 {
		e.buf = nil // don't keep a large buffer for the lifetime of the stream
	}
	for {
		if _, err := e.r.Peek(1); err != nil {
			return nil, err
		}
		b, _ := e.r.Peek(e.r.Buffered())
		if e.skipLF {
			e.skipLF = false
			if b[0] == '\n' {
				_, _ = e.r.Discard(1)
				continue
			}
		}
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			e.buf = append(e.buf, b...)
			_, _ = e.r.Discard(len(b))
		} else {
			e.buf = append(e.buf, b[:i]...)
			e.skipLF = b[i] == '\r'
			_, _ = e.r.Discard(i + 1)
		}
		if len(e.buf) > e.max+64 {
			return nil, errEventSize
		}
		if i >= 0 {
			break
		}
	}
	if !e.begun {
		e.begun = true
		return bytes.TrimPrefix(e.buf, []byte("\xef\xbb\xbf")), nil
	}
	return e.buf, nil
}
