package daemon

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A tampered records which rows of the database were changed without the key of the data folder.
// Such rows grant nothing.
type tampered struct {
	mu     sync.Mutex
	d      *Daemon       // nil until the record is open
	events []audit.Event // found before the record was open
	closed bool
	wg     sync.WaitGroup // for events being recorded
}

// tamperedKinds maps tables to the kinds of their audit events.
var tamperedKinds = map[string]audit.Kind{
	"api_key": audit.KindKey, "approval": audit.KindApproval, "session_label": audit.KindSession,
	"skill": audit.KindSession, "upstream_token": audit.KindSignIn, "tool_hint": audit.KindTool,
	"stored_secret": audit.KindKey,
}

// RecordTampering records that a row was changed. It doesn't wait, because its callers hold the
// store.
func (t *tampered) RecordTampering(table, row string, err error) {
	kind := tamperedKinds[table]
	if kind == "" {
		kind = audit.KindConfiguration
	}
	msg := tool.AsError(err).Msg
	e := audit.Event{
		Kind: kind, Principal: identity.LocalUser(), Subject: audit.Subject{Name: row}, Outcome: audit.Failed,
		ErrorKind: tool.Conflict,
		Decision:  audit.Decision{Effect: "refused", Policy: "seal", Reason: msg},
		Detail:    map[string]string{"action": "tampered", "table": table},
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.d == nil {
		t.events = append(t.events, e)
		return
	}
	t.record(e)
}

// startRecording records the tampering found before the record was open, and any found from now on.
func (t *tampered) startRecording(d *Daemon) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.d = d
	for _, e := range t.events {
		t.record(e)
	}
	t.events = nil
}

// record records an event in the background. The caller holds t.mu.
func (t *tampered) record(e audit.Event) {
	d := t.d
	d.log.Error("the database was changed without the key of the data folder", "table", e.Detail["table"], "row",
		e.Subject.Name, "says", e.Decision.Reason)
	if t.closed {
		return
	}
	t.wg.Go(func() {
		if _, err := d.audit.Event(context.Background(), e); err != nil {
			d.log.Error("change of the database not recorded", "err", err)
		}
	})
}

// close waits until everything is recorded. Later findings are only logged.
func (t *tampered) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}
