package approval_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// askOnce makes a call from outside whose client gives up at once.
func askOnce(t *testing.T, g *approval.Gate, a *approval.Ask) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := wait(ctx, g, a)
	synctest.Wait()
	cancel()
	<-w.done
	return w.err
}

// However many requests of others are newer, a principal's pending calls are counted exactly.
func TestTheBoundCountsOldRequests(t *testing.T) {
	scenario(t, "many others", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		for i := range approval.MaxWaiting {
			if err := askOnce(t, g, ask("", "1", fmt.Sprintf(`{"n": %d}`, i))); tool.AsError(err).Kind == tool.Limit {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		for i := range 1100 {
			a := ask("", "1", fmt.Sprintf(`{"n": %d}`, i))
			a.Call.Principal.ID = fmt.Sprintf("key:%d", i/50)
			if err := askOnce(t, g, a); tool.AsError(err).Kind == tool.Limit {
				t.Fatalf("another's call %d: %v", i, err)
			}
		}
		if err := askOnce(t, g, ask("", "1", `{"n": -1}`)); tool.AsError(err).Kind != tool.Limit {
			t.Errorf("a call over the bound: %v, want an error of kind %s", err, tool.Limit)
		}
		if err := askOnce(t, g, ask("", "1", `{"n": 7}`)); tool.AsError(err).Kind == tool.Limit {
			t.Errorf("a call that was requested before: %v", err)
		}
		time.Sleep(25 * time.Hour) // all have expired, though no one has listed them
		if err := askOnce(t, g, ask("", "1", `{"n": -1}`)); tool.AsError(err).Kind == tool.Limit {
			t.Errorf("a call after the others expired: %v", err)
		}
	})
}

// An approved call that its client never repeats expires with its request. Approved calls of
// programs, and requests that are not over, stay.
func TestUnusedApprovalsLapse(t *testing.T) {
	var changes []string
	store := approvaltest.NewMemory()
	record := recorder{change: func(r approval.Request) { changes = append(changes, r.ID+" "+string(r.State)) }}
	scenario(t, "lapse", approval.Config{Store: store, Expires: time.Hour, Recorder: record},
		func(t *testing.T, g *approval.Gate) {
			ids := map[string]string{}
			add := func(name, execution string, approve bool) {
				a := ask(execution, name, fmt.Sprintf(`{"n": %q}`, name))
				ctx, stop := context.WithCancelCause(t.Context())
				w := wait(ctx, g, a)
				for _, r := range pending(t, g) {
					if r.Call == name {
						ids[name] = r.ID
					}
				}
				stop(errShutdown)
				<-w.done
				if approve {
					decide(t, g, ids[name], true)
				}
			}
			add("pending", "", false)
			add("approved", "", true)
			add("program", "ex_1", true)
			time.Sleep(30 * time.Minute)
			add("young", "", true)
			time.Sleep(30 * time.Minute)
			changes = nil
			if err := g.ExpireRequests(t.Context()); err != nil {
				t.Fatalf("ExpireRequests: %v", err)
			}
			for name, want := range map[string]approval.State{"pending": approval.Expired,
				"approved": approval.Withdrawn, "program": approval.Approved, "young": approval.Approved} {
				r, err := g.Get(t.Context(), ids[name])
				if err != nil || r.State != want {
					t.Errorf("%s: %+v, %v, want %s", name, r, err, want)
				}
				if name == "approved" && (r.Decider != "local:bob" || r.Note == "" || r.Decided.IsZero()) {
					t.Errorf("the withdrawn approval is %+v, want its decider and a note", r)
				}
			}
			if len(changes) != 2 {
				t.Errorf("changes: %q, want 2", changes)
			}
		})
}

// One run ends all requests whose time is over, however many there are.
func TestManyRequestsLapse(t *testing.T) {
	store := approvaltest.NewMemory()
	scenario(t, "many", approval.Config{Store: store, Expires: time.Hour}, func(t *testing.T, g *approval.Gate) {
		const many = 1100
		for i := range many {
			a := ask("", "1", fmt.Sprintf(`{"n": %d}`, i))
			a.Call.Principal.ID = fmt.Sprintf("key:%d", i)
			_ = askOnce(t, g, a)
		}
		time.Sleep(2 * time.Hour)
		if err := g.ExpireRequests(t.Context()); err != nil {
			t.Fatalf("ExpireRequests: %v", err)
		}
		q, ended := approval.Query{States: []approval.State{approval.Expired}, Limit: 1000}, 0
		for {
			page, err := store.List(t.Context(), q)
			if err != nil {
				t.Fatalf("List: %v", err)
			}
			if len(page) == 0 {
				break
			}
			ended += len(page)
			q.Before = page[len(page)-1].ID
		}
		if ended != many {
			t.Errorf("%d requests expired, want %d", ended, many)
		}
	})
}

// A list whose newest requests have expired goes on with the older ones: the configured time was
// longer when they were made.
func TestListSkipsExpiredRequests(t *testing.T) {
	store := approvaltest.NewMemory()
	scenario(t, "list", approval.Config{Store: store, Expires: time.Hour}, func(t *testing.T, g *approval.Gate) {
		_ = askOnce(t, approval.New(approval.Config{Store: store}), ask("", "1", `{"n": 0}`))
		for n := range 3 {
			_ = askOnce(t, g, ask("", "2", fmt.Sprintf(`{"n": "%d"}`, n)))
		}
		time.Sleep(time.Hour)
		q := approval.Query{States: []approval.State{approval.Pending}, Limit: 2}
		if all, err := g.List(t.Context(), q); err != nil || len(all) != 1 || all[0].Call != "1" {
			t.Errorf("pending: %+v, %v, want the oldest request", all, err)
		}
	})
}

// A lapsing is a store in which an approval is withdrawn just before its call uses it.
type lapsing struct{ *approvaltest.Memory }

func (s lapsing) Move(ctx context.Context, id string, from, to approval.State, d approval.Decision) (bool, error) {
	if to == approval.Made {
		lapse := approval.Decision{Time: time.Now(), Note: "too late"}
		if _, err := s.Memory.Move(ctx, id, from, approval.Withdrawn, lapse); err != nil {
			return false, err
		}
	}
	return s.Memory.Move(ctx, id, from, to, d)
}

// A call whose approval is withdrawn at the last moment is not made, and its error says why.
func TestApprovalLapsesBeforeItsUse(t *testing.T) {
	scenario(t, "lapse", approval.Config{Store: lapsing{approvaltest.NewMemory()}},
		func(t *testing.T, g *approval.Gate) {
			w := wait(t.Context(), g, ask("", "1", `{}`))
			decide(t, g, pending(t, g)[0].ID, true)
			w.ends(t, `was withdrawn ("too late"): call again`)
		})
}
