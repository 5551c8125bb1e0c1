package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
)

// A LogLine is one line of the log of the process, without secrets.
type LogLine struct {
	Line  int64     `json:"line"` // number of the line since the process started
	Time  time.Time `json:"time"`
	Level string    `json:"level"` // "INFO", "WARN", "ERROR"
	Text  string    `json:"text"`  // "msg=..." and its attributes
}

// ReadLogs returns the lines of the log after the line with a given number, oldest first. The
// process keeps the newest 2,000. If there are none and wait is set, it waits for one, for up to 50
// seconds.
func (c *Client) ReadLogs(ctx context.Context, after int64, wait bool) ([]LogLine, error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "wait": {strconv.FormatBool(wait)}}
	return get[[]LogLine](ctx, c, "/logs?"+q.Encode())
}

// ReadDocument returns the OpenAPI document of the API.
func (c *Client) ReadDocument(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/openapi.json")
}
