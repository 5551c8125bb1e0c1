package console

import (
	"bytes"
	"fmt"
	"net/http"
)

// A Stream sends server-sent events.
type Stream struct {
	w     http.ResponseWriter
	begun bool
}

// NewStream returns a Stream to w.
func NewStream(w http.ResponseWriter) *Stream { return &Stream{w: w} }

// SendEvent sends one event. An error means that the browser has gone.
func (t *Stream) SendEvent(event, id string, data []byte) error {
	return t.writeText(formatEvent(event, id, data))
}

// formatEvent returns the text of an event.
func formatEvent(event, id string, data []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s\nevent: %s\n", id, event)
	for line := range bytes.Lines(append(data, '\n')) {
		b.WriteString("data: ")
		b.Write(line)
	}
	b.WriteString("\n")
	return b.Bytes()
}

// ping is a comment, which browsers ignore.
const ping = ": \n\n"

// SendPing keeps proxies from closing the connection.
func (t *Stream) SendPing() error { return t.writeText([]byte(ping)) }

func (t *Stream) writeText(b []byte) error {
	if !t.begun {
		t.begun = true
		t.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		t.w.WriteHeader(http.StatusOK)
	}
	if _, err := t.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(t.w).Flush()
}
