package api

import (
	"context"
	"time"
)

// A NoticeChannel is the state of a channel for notices.
type NoticeChannel struct {
	Name     string     `json:"name"`
	Place    string     `json:"place"` // its kind and host
	Sent     int        `json:"sent"`  // since the process started
	SentAt   *time.Time `json:"sent_at,omitempty"`
	Waiting  int        `json:"waiting"`
	Dropped  int        `json:"dropped"`         // since the process started
	Failures int        `json:"failures"`        // in a row
	Error    string     `json:"error,omitempty"` // of the last attempt
}

// A NoticeTest asks for a test of the channels.
type NoticeTest struct {
	Channel string `json:"channel,omitempty"` // empty: all
}

// A NoticeClient tests the channels for notices.
type NoticeClient struct{ client *Client }

// Notices returns the client of notices.
func (c *Client) Notices() NoticeClient { return NoticeClient{c} }

// ListChannels lists the channels for notices.
func (c NoticeClient) ListChannels(ctx context.Context) ([]NoticeChannel, error) {
	return get[[]NoticeChannel](ctx, c.client, "/notices")
}

// SendTest sends a test to one channel, or to all if the name is empty, and returns their
// states.
func (c NoticeClient) SendTest(ctx context.Context, name string) ([]NoticeChannel, error) {
	return post[[]NoticeChannel](ctx, c.client, "/notices/test", NoticeTest{Channel: name})
}
