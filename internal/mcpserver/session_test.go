package mcpserver

import (
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
			if !table.reserve() {
				return false
			}
			table.opened(id, ann, func() {})
			table.end(id)
			return true
		}
		if !open("a") || !open("b") || open("c") {
			t.Fatal("two sessions and no more")
		}
		if table.begin("a", eve) || !table.begin("a", ann) {
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
		table.end("a")
		time.Sleep(59 * time.Minute)
		if table.begin("a", ann); isClosed("a") {
			t.Error("closed too early")
		}
		table.end("a")
		time.Sleep(59 * time.Minute)
		if isClosed("a") {
			t.Error("a request starts the hour anew")
		}
		if !open("d") {
			t.Error("no place")
		}
		table.remove("d")
		table.stop()
		if !isClosed("a") || isClosed("d") || table.reserve() {
			t.Error("stop closes what is open, and nothing opens any more")
		}
	})
}
