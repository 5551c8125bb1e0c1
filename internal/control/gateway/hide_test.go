package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/privacy"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// vaults returns the store of personal data, on disk.
func vaults(t *testing.T) privacy.Store {
	key, err := secret.NewKey(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatalf("secret.NewKey: %v", err)
	}
	s, err := store.Open(t.Context(), store.Config{Path: t.TempDir()})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Privacy(key)
}

// TestAPersonApprovesWhatIsSent makes a call with a token that needs approval. The approver sees
// the address, which is also validated, sent and recorded. Another principal's token stays a token.
func TestAPersonApprovesWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cat := catalog.New(catalog.Config{})
		var sent []string
		cat.Set(catalog.Source{
			Name: "mail", Health: tool.Health{State: tool.Ready},
			Tools: []*tool.Tool{{Name: "send",
				InputSchema: json.RawMessage(
					`{"type":"object","properties":{"to":{"type":"string","pattern":"^[^\\[]*@"}}}`)}},
			Caller: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				sent = append(sent, string(c.Arguments))
				return tool.Text(false, "sent to Ada@Example.com"), nil
			}),
		})
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
			Text: []byte(`@ask("people") permit (principal, action == Action::"call", resource) when { context.arguments has to && context.arguments.to like "*@Example.com" };
permit (principal, action == Action::"reveal", resource);`)}}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		people, record := approval.New(approval.Config{Store: approvaltest.NewMemory()}), audittest.NewLog()
		guard := privacy.New(privacy.Config{Store: vaults(t), Log: slog.New(slog.DiscardHandler)})
		g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: people, Audit: record, Privacy: guard,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("gateway.New: %v", err)
		}
		s := guard.Sheet(t.Context(), tool.Scope{Owner: "key:ada"})
		seen := "Ada@Example.com"
		s.Text(&seen)
		s.Hide(t.Context())

		var got string
		done := make(chan error, 1)
		go func() {
			r, err := g.Call(t.Context(),
				&tool.Call{Path: "mail.send", Arguments: json.RawMessage(`{"to":"` + seen + `"}`),
					Principal: tool.Principal{ID: "key:ada"}})
			if err == nil {
				got = string(r.Raw)
			}
			done <- err
		}()
		synctest.Wait()
		all, err := people.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}})
		if err != nil || len(all) != 1 {
			t.Fatalf("all = %+v, err = %v, want err == nil && len(all) == 1", all, err)
		}
		asked, err := people.Get(t.Context(), all[0].ID)
		if err != nil || string(asked.Arguments) != `{"to":"Ada@Example.com"}` {
			t.Fatalf("the person sees %s, %v", asked.Arguments, err)
		}
		if _, err := people.Decide(t.Context(), approval.Decider{Principal: tool.Principal{ID: "local:bob"}, Any: true},
			all[0].ID, true, ""); err != nil {
			t.Fatalf("Decide: %v", err)
		}
		if err := <-done; err != nil || len(sent) != 1 || sent[0] != `{"to":"Ada@Example.com"}` ||
			!strings.Contains(got, "sent to [EMAIL_1]") {
			t.Fatalf("%v, sent %v, gave %s", err, sent, got)
		}
		records, err := record.Records(t.Context(), audit.Query{Kind: audit.KindCall})
		if err != nil || len(records) != 1 ||
			!strings.Contains(records[0].Decision.Reason, "personal data was turned back: email") {
			t.Fatalf("records = %+v, err = %v", records, err)
		}
		_, err = g.Call(t.Context(), &tool.Call{Path: "mail.send", Arguments: json.RawMessage(`{"to":"` + seen + `"}`),
			Principal: tool.Principal{ID: "key:eve"}})
		if e := tool.AsError(err); e == nil || e.Kind != tool.Invalid || len(sent) != 1 {
			t.Errorf("another principal turns a token back: %v %v", err, sent)
		}
	})
}

// TestRevealsByWhatWasRead has a policy that reveals no personal data to callers that have read
// untrusted data.
func TestRevealsByWhatWasRead(t *testing.T) {
	cat := catalog.New(catalog.Config{})
	var sent string
	cat.Set(catalog.Source{
		Name: "mail", Health: tool.Health{State: tool.Ready},
		Tools: []*tool.Tool{{Name: "send", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		Caller: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			sent = string(c.Arguments)
			return tool.Text(false, "sent"), nil
		}),
	})
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
		Text: []byte(`permit (principal, action, resource);
@id("not-then") forbid (principal, action == Action::"reveal", resource) when { context.labels.contains("untrusted") };`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	guard := privacy.New(privacy.Config{Store: vaults(t), Log: slog.New(slog.DiscardHandler)})
	g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: approval.New(approval.Config{}),
		Audit: audittest.NewLog(), Privacy: guard, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	s := guard.Sheet(t.Context(), tool.Scope{Owner: "key:ada"})
	token := "ada@example.com"
	s.Text(&token)
	s.Hide(t.Context())
	for labels, want := range map[string]string{"confidential": "ada@example.com", "untrusted": "[EMAIL_1]"} {
		if _, err := g.Call(t.Context(),
			&tool.Call{Path: "mail.send", Arguments: json.RawMessage(`{"to":"` + token + `"}`),
				Principal: tool.Principal{ID: "key:ada"}, Labels: []string{labels}}); err != nil {
			t.Fatalf("Call: %v", err)
		}
		if sent != `{"to":"`+want+`"}` {
			t.Errorf("after reading what is %s the tool was given %s", labels, sent)
		}
	}
}

// TestErrorsHideWhatTheyWrap has an upstream whose error wraps more than its text: callers see only
// the text.
func TestErrorsHideWhatTheyWrap(t *testing.T) {
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{
		Name: "mail", Health: tool.Health{State: tool.Ready},
		Tools: []*tool.Tool{{Name: "send", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
			inner := errors.New("bounced: ada@example.com")
			return nil, &tool.Error{Kind: tool.Unavailable, Msg: inner.Error(), Err: inner}
		}),
	})
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
		Text: []byte(`permit (principal, action, resource);`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	guard := privacy.New(privacy.Config{Store: vaults(t), Log: slog.New(slog.DiscardHandler)})
	g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: approval.New(approval.Config{}),
		Audit: audittest.NewLog(), Privacy: guard, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	_, err = g.Call(t.Context(), &tool.Call{Path: "mail.send", Principal: tool.Principal{ID: "key:ada"}})
	if e := tool.AsError(err); e == nil || e.Msg != "bounced: [EMAIL_1]" || errors.Unwrap(err) != nil {
		t.Errorf("%v, which wraps %v", err, errors.Unwrap(err))
	}
}

// A logKeeper keeps progress and log messages.
type logKeeper struct {
	tool.NoObserver
	got []string
}

func (k *logKeeper) OnProgress(_ context.Context, p tool.Progress) { k.got = append(k.got, p.Message) }
func (k *logKeeper) OnLog(_ context.Context, l tool.Log)           { k.got = append(k.got, string(l.Raw)) }

// TestOutputOfSandboxesIsHidden checks that models see no personal data in what a command in a
// sandbox writes, and that people do.
func TestOutputOfSandboxesIsHidden(t *testing.T) {
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{
		Name: tool.Own, Health: tool.Health{State: tool.Ready},
		Tools: []*tool.Tool{{Name: tool.SandboxPrefix + "run", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		Caller: tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			c.Observe().OnProgress(ctx, tool.Progress{Message: "ada@example.com"})
			c.Observe().OnLog(ctx, tool.Log{Raw: json.RawMessage(`{"data":"ada@example.com"}`)})
			return tool.StructuredResult(json.RawMessage(`{"out":"ada@example.com"}`), "ada@example.com")
		}),
	})
	f, _ := policy.Starter("open")
	e, err := policy.New(policy.Config{Files: []policy.File{f}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	guard := privacy.New(privacy.Config{Store: vaults(t), Log: slog.New(slog.DiscardHandler)})
	g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: approval.New(approval.Config{}),
		Audit: audittest.NewLog(), Privacy: guard, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	for _, people := range []bool{false, true} {
		o := &logKeeper{}
		ctx := t.Context()
		if people {
			ctx = tool.ForPeople(ctx)
		}
		r, err := g.Call(ctx, &tool.Call{Path: "biplane." + tool.SandboxPrefix + "run",
			Principal: tool.Principal{ID: "key:ada"}, Observer: o})
		if err != nil {
			t.Fatalf("call: %v", err)
		}
		all := strings.Join(append(o.got, string(r.Raw), string(r.Structured)), " ")
		if strings.Count(all, "ada@example.com") != map[bool]int{true: 5}[people] ||
			strings.Count(all, "[EMAIL_1]") != map[bool]int{false: 5}[people] {
			t.Errorf("for people: %v; shown: %s", people, all)
		}
	}
}
