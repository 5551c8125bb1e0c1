package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The programs of one principal can't fill the queue of pending requests: another principal's
// requests are still accepted, and are listed.
func TestPrincipalsSharePendingRequests(t *testing.T) {
	scenario(t, "two principals", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		by := func(who string, n int) *approval.Ask {
			a := ask(fmt.Sprintf("ex_%s_%d", who, n/128), fmt.Sprint(n), fmt.Sprintf(`{"n": %d}`, n))
			a.Call.Principal.ID = "key:" + who
			return a
		}
		ctx, stop := context.WithCancel(t.Context())
		var eve []*waiting
		for n := range 1536 {
			eve = append(eve, wait(ctx, g, by("eve", n)))
		}
		synctest.Wait()
		refused := 0
		for _, w := range eve {
			select {
			case <-w.done:
				refused++
				if e := tool.AsError(w.err); e.Kind != tool.Limit || !e.Unsent ||
					!strings.Contains(e.Msg, "for you, which is your share of the gateway's 400") {
					t.Fatalf("refused with %v", w.err)
				}
			default:
			}
		}
		if refused != 1536-approval.MaxAsked {
			t.Errorf("%d of 1536 were refused", refused)
		}
		var ann []*waiting
		for n := range 40 {
			ann = append(ann, wait(t.Context(), g, by("ann", n)))
		}
		synctest.Wait()
		all, err := g.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}, Limit: 1000})
		if err != nil || len(all) != approval.MaxAsked+len(ann) {
			t.Fatalf("%d are listed, %v", len(all), err)
		}
		for _, r := range all {
			if r.Principal == "key:ann" {
				decide(t, g, r.ID, true)
			}
		}
		for _, w := range ann {
			w.ends(t, "")
		}
		stop()
		for _, w := range eve {
			<-w.done
		}
		again := make([]*waiting, approval.MaxAsked) // every place was returned
		for n := range again {
			again[n] = wait(t.Context(), g, by("bob", n))
		}
		for _, r := range func() []approval.Request {
			synctest.Wait()
			all, _ := g.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}, Limit: 1000})
			return all
		}() {
			decide(t, g, r.ID, true)
		}
		for _, w := range again {
			w.ends(t, "")
		}
	})
}

// A call requested before a restart is not refused after it, even if others have taken the places
// meanwhile.
func TestARestartKeepsPlaces(t *testing.T) {
	scenario(t, "restart", approval.Config{}, func(t *testing.T, _ *approval.Gate) {
		store := approvaltest.NewMemory()
		ctx, stop := context.WithCancelCause(t.Context())
		old := wait(ctx, approval.New(approval.Config{Store: store}), ask("ex_1", "1", `{}`))
		synctest.Wait()
		stop(errShutdown)
		<-old.done
		g := approval.New(approval.Config{Store: store})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		for n := range approval.MaxAsked {
			wait(ctx, g, ask("ex_2", fmt.Sprint(n), `{}`))
		}
		synctest.Wait()
		wait(ctx, g, ask("ex_3", "1", `{}`)).ends(t, "your share")
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		synctest.Wait()
		all, err := g.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}, Execution: "ex_1"})
		if err != nil || len(all) != 1 {
			t.Fatalf("%d of the old execution wait, %v", len(all), err)
		}
		decide(t, g, all[0].ID, true)
		w.ends(t, "")
	})
}
