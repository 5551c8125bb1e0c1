package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/approval"
	notices "github.com/biplane-dev/biplane/internal/control/notice"
	"github.com/biplane-dev/biplane/internal/serve/feed"
)

// newNotices returns the Notifier of the configured channels.
func newNotices(d *Daemon) *notices.Notifier {
	return notices.NewNotifier(notices.Config{Routes: d.cfg.Settings.Notify.Routes, Log: d.log})
}

// people are those whom notices reach.
type people struct{ *Daemon }

// noticePage returns the public URL of a page; empty if there is none.
func (d people) noticePage(path string) string {
	if base := d.publicURL(); base != "" {
		return base + path
	}
	return ""
}

// noticeRequest notifies people of a request that waits, or that no one decided on in time.
func (d people) noticeRequest(r *approval.Request) {
	n := notices.Notice{Subject: r.Tool, Principal: r.Principal, Link: d.approvalPage(r.ID),
		Command: "biplane approvals show " + r.ID}
	switch r.State {
	case approval.Pending:
		n.Kind = notices.Approval
	case approval.Expired:
		n.Kind = notices.Expiry
	default:
		return
	}
	d.servers.notices.AddNotice(n)
}

// addEvent tells clients of the API of a change.
func (d people) addEvent(kind, subject, state, principal string) {
	d.servers.events.AddEvent(feed.Entry{Principal: principal,
		Event: api.Event{Type: kind, Subject: subject, State: state, Time: time.Now().UTC()}})
}

// noteQuarantine notifies people of a quarantined tool.
func (d *Daemon) noteQuarantine(upstream, name string) {
	d.servers.notices.AddNotice(notices.Notice{Kind: notices.Quarantine, Subject: upstream + "." + name,
		Link: people{d}.noticePage("/tools"), Command: "biplane tools"})
}

// NoteBreak implements limit.BreakRecorder.
func (d people) NoteBreak(upstream string) {
	d.servers.notices.AddNotice(notices.Notice{Kind: notices.Breaker, Subject: upstream, Link: d.noticePage("/tools"),
		Command: "biplane status"})
}

// NoteUnsent implements sink.Recorder.
func (d people) NoteUnsent(place string) {
	d.servers.notices.AddNotice(notices.Notice{Kind: notices.Checkpoint, Subject: place, Link: d.noticePage("/audit"),
		Command: "biplane audit status"})
}

// channels implements httpapi.Notices.
type channels struct{ *Daemon }

// ListChannels returns the states of the channels.
func (c channels) ListChannels() []api.NoticeChannel {
	return wireChannels(c.servers.notices.ListStates())
}

// SendTest sends a test.
func (c channels) SendTest(ctx context.Context, name string) ([]api.NoticeChannel, error) {
	states, err := c.servers.notices.SendTest(ctx, name, people(c).noticePage("/"))
	return wireChannels(states), err
}

func wireChannels(states []notices.State) []api.NoticeChannel {
	out := make([]api.NoticeChannel, len(states))
	for i, s := range states {
		out[i] = api.NoticeChannel{Name: s.Name, Place: s.Place, Sent: s.Sent, Waiting: s.Waiting, Dropped: s.Dropped,
			Failures: s.Failures, Error: s.Error}
		if at := s.SentAt; !at.IsZero() {
			out[i].SentAt = &at
		}
	}
	return out
}
