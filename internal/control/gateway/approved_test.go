package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An approvedWorld is what may change while a call waits for approval.
type approvedWorld struct {
	cat     *catalog.Catalog
	revoked atomic.Bool
	version atomic.Pointer[string]
	called  atomic.Int32
}

func (w *approvedWorld) CurrentVersion() string { return *w.version.Load() }

func (w *approvedWorld) ExplainDenial(tool.Principal, *tool.Tool) string {
	if w.revoked.Load() {
		return "key ci was revoked"
	}
	return ""
}

// TestApprovedCallIsCheckedAgain checks that an approved call is not made if, by then, the policies
// have changed, the tool is gone or has changed, or the caller may no longer call anything.
func TestApprovedCallIsCheckedAgain(t *testing.T) {
	send := func(w *approvedWorld, description string) {
		w.cat.Set(catalog.Source{
			Name: "mail", Health: tool.Health{State: tool.Ready},
			Tools: []*tool.Tool{{Name: "send", Description: description,
				InputSchema: json.RawMessage(`{"type":"object"}`)}},
			Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
				w.called.Add(1)
				return tool.Text(false, "sent"), nil
			}),
		})
	}
	other := "other"
	for name, c := range map[string]struct {
		change func(*approvedWorld)
		says   string // empty: it is made
	}{
		"nothing":    {func(*approvedWorld) {}, ""},
		"key":        {func(w *approvedWorld) { w.revoked.Store(true) }, "key ci was revoked"},
		"policies":   {func(w *approvedWorld) { w.version.Store(&other) }, "policies have changed"},
		"definition": {func(w *approvedWorld) { send(w, "Sends to all") }, "has changed since"},
		"gone":       {func(w *approvedWorld) { w.cat.Remove("mail") }, "not there any more"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &approvedWorld{cat: catalog.New(catalog.Config{})}
				send(w, "Sends to one")
				e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
					Text: []byte(`@ask("people") permit (principal, action, resource);`)}}})
				if err != nil {
					t.Fatalf("policy.New: %v", err)
				}
				version := e.Version()
				w.version.Store(&version)
				people := approval.New(approval.Config{Store: approvaltest.NewMemory()})
				ledger := audittest.NewLog()
				g, err := gateway.New(gateway.Config{
					Catalog: w.cat, Policy: e, Approval: people, Audit: ledger, Log: slog.New(slog.DiscardHandler),
					InForce: w, Credentials: w,
				})
				if err != nil {
					t.Fatalf("gateway.New: %v", err)
				}
				ended := make(chan error, 1)
				go func() {
					_, err := g.Call(t.Context(),
						&tool.Call{ID: "ex_1.1", By: &tool.Program{Execution: "ex_1"}, Path: "mail.send",
							Arguments: json.RawMessage(`{}`),
							Principal: tool.Principal{ID: "key:ci", Agent: "ci", Person: "local:ann"}})
					ended <- err
				}()
				synctest.Wait()
				all, err := people.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}})
				if err != nil || len(all) != 1 {
					t.Fatalf("all = %+v, err = %v, want err == nil && len(all) == 1", all, err)
				}
				c.change(w)
				if _, err := people.Decide(t.Context(), approval.Decider{Principal: tool.Principal{ID: "local:bob"},
					Any: true}, all[0].ID, true, ""); err != nil {
					t.Fatalf("Decide: %v", err)
				}
				err = <-ended
				if c.says == "" {
					if err != nil || w.called.Load() != 1 {
						t.Errorf("%v, %d calls", err, w.called.Load())
					}
					want := map[string]string{"person": "local:ann", "request": all[0].ID, "approved_by": "local:bob"}
					if r, err := ledger.Records(t.Context(), audit.Query{}); err != nil || len(r) != 1 ||
						!maps.Equal(r[0].Detail, want) {
						t.Errorf("on record: %+v, %v; want the detail %v", r, err, want)
					}
					return
				}
				if e := tool.AsError(err); e == nil || e.Kind != tool.Denied || !strings.Contains(e.Msg, c.says) ||
					w.called.Load() != 0 {
					t.Errorf("%v, %d calls", err, w.called.Load())
				}
			})
		})
	}
}
