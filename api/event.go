package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"path"
	"strings"
	"time"
)

// The types of events.
const (
	EventExecution = "execution" // Subject is its id
	EventApproval  = "approval"  // Subject is the id of the request
	EventSession   = "session"   // Subject is its name
	EventUpstream  = "upstream"  // Subject is its name
	EventMissed    = "missed"    // events were lost: read the current state
)

// An Event is a change that may interest a client. It names its subject. The subject's routes
// return the details.
type Event struct {
	ID      string    `json:"id"` // to continue after it
	Type    string    `json:"type"`
	Subject string    `json:"subject,omitempty"`
	State   string    `json:"state,omitempty"` // of the subject
	Time    time.Time `json:"time"`
}

// FollowEvents calls f with each event after the one with the given id, as it happens. An empty id
// stands for the newest event. It returns when ctx is done, when f fails, or when the connection is
// lost. Then call it again with the last event's id.
func (c *Client) FollowEvents(ctx context.Context, after string, f func(Event) error) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if after != "" {
		header.Set("Last-Event-ID", after)
	}
	resp, err := c.send(ctx, http.MethodGet, "/events", header, "", http.NoBody)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var one Event
		if err := json.Unmarshal([]byte(data), &one); err != nil {
			return &Error{Internal, "biplane's event is not what this client reads: " + err.Error()}
		}
		if err := f(one); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return &Error{Canceled, "canceled"}
	}
	return &Error{Unavailable, "the connection was lost"}
}

// WithStart returns a context for Run. As soon as the execution has begun, started is called with
// its id, if nothing on the way to Biplane drops responses with status 103.
func WithStart(ctx context.Context, started func(execution string)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
			if at := header.Get("Content-Location"); at != "" {
				started(path.Base(at))
			}
			return nil
		}})
}
