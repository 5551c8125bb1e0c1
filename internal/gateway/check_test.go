package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/approval"
	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Large arguments are checked a few at a time, with turns for each principal. Small ones don't wait
// for them.
func TestLargeArgumentsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := policy.Starter("open")
		p, err := policy.New(policy.Config{Files: []policy.File{f}})
		if err != nil {
			t.Fatal(err)
		}
		cat := catalog.New(catalog.Config{})
		cat.Set(catalog.Source{
			Name:   "shop",
			Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(false, "fine"), nil }),
			Tools:  []*tool.Tool{{Name: "put", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		})
		g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate), Audit: audit.New(audit.Config{Store: audit.NewMemory()})})
		if err != nil {
			t.Fatal(err)
		}
		large := `{"text":"` + strings.Repeat("x", largeChecks) + `"}`
		call := func(ctx context.Context, who, args string) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := g.Call(ctx, &tool.Call{Path: "shop.put", Principal: tool.Principal{ID: who}, Arguments: json.RawMessage(args)})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		for range maxChecks { // checks in progress
			if err := g.checks.Enter(t.Context(), "eve"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		left, waits := call(ctx, "eve", large), call(t.Context(), "ann", large)
		if err := <-call(t.Context(), "bob", `{}`); err != nil {
			t.Errorf("a small call: %v", err)
		}
		select {
		case err := <-waits:
			t.Errorf("a large call did not wait: %v", err)
		default:
		}
		cancel()
		if err := <-left; !tool.AsError(err).Unsent {
			t.Errorf("a call whose client left while it waited: %v", err)
		}
		g.checks.Leave("eve")
		if err := <-waits; err != nil {
			t.Error(err)
		}
		for range maxChecks - 1 {
			g.checks.Leave("eve")
		}
		if under, waiting := g.checks.Load(); under != 0 || waiting != 0 {
			t.Errorf("%d checks are left, %d wait", under, waiting)
		}
	})
}
