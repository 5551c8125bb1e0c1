package mcpserver

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSessionTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		closed := map[string]bool{}
		table := newSessions(2, time.Hour, func(id string) { mu.Lock(); closed[id] = true; mu.Unlock() })
		isClosed := func(id string) bool { synctest.Wait(); mu.Lock(); defer mu.Unlock(); return closed[id] }
		ann, eve := tool.Principal{ID: "ann"}, tool.Principal{ID: "eve"}
		open := func(id string) bool {
			if table.reserveRoom(ann) != nil {
				return false
			}
			table.addSession(id, ann, func() {})
			table.endUse(id)
			return true
		}
		if !open("a") || !open("b") || open("c") {
			t.Fatal("two sessions and no more")
		}
		if table.beginUse("a", eve) || !table.beginUse("a", ann) {
			t.Error("a session is for its owner")
		}
		time.Sleep(graceIdle)
		if !open("c") || !isClosed("b") || isClosed("a") {
			t.Error("the idle one makes room, the one in use doesn't")
		}
		time.Sleep(2 * time.Hour)
		if !isClosed("c") || isClosed("a") {
			t.Error("after an hour without requests a session ends, not while one is under way")
		}
		table.endUse("a")
		time.Sleep(59 * time.Minute)
		if table.beginUse("a", ann); isClosed("a") {
			t.Error("closed too early")
		}
		table.endUse("a")
		time.Sleep(59 * time.Minute)
		if isClosed("a") {
			t.Error("a request starts the hour anew")
		}
		if !open("d") {
			t.Error("no place")
		}
		table.removeSession("d")
		table.closeAll()
		if !isClosed("a") || isClosed("d") || table.reserveRoom(ann) == nil {
			t.Error("stop closes what is open, and nothing opens any more")
		}
	})
}

// TestSessionAfterRightsChanged checks that a session isn't continued with another token of its
// owner that has other rights: its calls would have those of the token that opened it.
func TestSessionAfterRightsChanged(t *testing.T) {
	table := newSessions(2, time.Hour, func(string) {})
	defer table.closeAll()
	ann := tool.Principal{ID: "ann", Agent: "chat", Roles: []string{"user"}, Groups: []string{"dev", "ops"},
		Scopes: []string{"mcp"}, Until: time.Unix(1, 0)}
	if err := table.reserveRoom(ann); err != nil {
		t.Fatalf("reserve: %v", err)
	}
	table.addSession("a", ann, func() {})
	renewed := ann
	renewed.Until, renewed.Groups = time.Unix(2, 0), []string{"ops", "dev"}
	if !table.beginUse("a", renewed) {
		t.Error("a renewed token with the same rights is refused")
	}
	for name, change := range map[string]func(*tool.Principal){
		"groups":  func(p *tool.Principal) { p.Groups = []string{"dev"} },
		"roles":   func(p *tool.Principal) { p.Roles = []string{"user", "approver"} },
		"scopes":  func(p *tool.Principal) { p.Scopes = []string{"mcp", "api"} },
		"agent":   func(p *tool.Principal) { p.Agent = "other" },
		"profile": func(p *tool.Principal) { p.Profile = "small" },
	} {
		other := ann
		if change(&other); table.beginUse("a", other) {
			t.Errorf("the session goes on with other %s", name)
		}
	}
}

// TestSessionsOfAGreedyPrincipal checks that when one principal has opened all available sessions,
// another can still open one. The first principal's idle sessions are closed before those of anyone
// who has fewer.
func TestSessionsOfAGreedyPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newSessions(16, time.Hour, func(string) {})
		eve, ann := tool.Principal{ID: "eve"}, tool.Principal{ID: "ann"}
		open := func(p tool.Principal, id string, idle bool) error {
			err := table.reserveRoom(p)
			if err == nil {
				table.addSession(id, p, func() {})
				if idle {
					table.endUse(id)
				}
			}
			return err
		}
		for i := range 16 {
			if err := open(eve, fmt.Sprint("eve", i), i >= 3); err != nil {
				t.Fatalf("open: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
		if err := open(eve, "more", true); err == nil ||
			!strings.Contains(err.Error(), "which is your share of the gateway's 16") {
			t.Errorf("a 17th of eve: %v", err)
		}
		for i := range 8 {
			if err := open(ann, fmt.Sprint("ann", i), true); err != nil {
				t.Fatalf("ann's %d: %v", i+1, err)
			}
		}
		if e, a := table.room.Held("eve"), table.room.Held("ann"); e+a > 18 || a < 8 {
			t.Errorf("eve has %d, ann %d", e, a)
		}
		if !table.beginUse("eve0", eve) || table.beginUse("eve3", eve) {
			t.Error("a session in use was closed, or not the one that was idle for longest")
		}
		if err := open(eve, "again", true); err == nil && table.room.Held("ann") < 8 {
			t.Error("eve took from ann, who has no more than her share")
		}
		table.closeAll()
		if used, _ := table.room.Load(); used != 0 {
			t.Errorf("%d left", used)
		}
	})
}

// TestIdleSessionOfTheNextGreediest checks that if the principal with the most sessions has no idle
// ones, an idle session of the next one is closed.
func TestIdleSessionOfTheNextGreediest(t *testing.T) {
	table := newSessions(16, time.Hour, func(string) {})
	defer table.closeAll()
	open := func(who string, n int, idle bool) (err error) {
		for i := range n {
			p := tool.Principal{ID: who}
			if err = table.reserveRoom(p); err != nil {
				return err
			}
			id := fmt.Sprint(who, i)
			if table.addSession(id, p, func() {}); idle {
				table.endUse(id)
			}
		}
		return nil
	}
	for who, n := range map[string]int{"eve": 8, "bob": 6} {
		if err := open(who, n, who == "bob"); err != nil {
			t.Fatalf("open: %v", err)
		}
	}
	if err := open("ann", 5, false); err != nil {
		t.Errorf("open: %v", err)
	}
	if e, b := table.room.Held("eve"), table.room.Held("bob"); e != 8 || b >= 6 {
		t.Errorf("eve, whose sessions are in use, has %d, bob, whose are idle, %d", e, b)
	}
}
