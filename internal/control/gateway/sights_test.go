package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A goroutine may find a sight whose creator has not computed it yet, and then computes it first.
func TestSightThatIsNotWorkedOutYet(t *testing.T) {
	whole := catalog.New(catalog.Config{}).View()
	all := func() func(*catalog.Entry) bool { return func(*catalog.Entry) bool { return true } }
	p := tool.Principal{ID: "local:ann"}
	s := &sights{whole: whole, by: queue.NewCache[string, *sight](maxSeen, 0)}
	s.by.Put(p.ID, string(p.AppendKey(nil)), &sight{made: time.Now()}, 0)
	done := make(chan *catalog.View, 1)
	go func() { done <- s.get(p, whole, true, all) }()
	select {
	case v := <-done:
		if v == nil {
			t.Error("it sees nothing at all")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it waits for itself")
	}
}

// A principal with many client names doesn't evict the views of others, which would have to be
// computed again.
func TestSightsOfAGreedyPrincipal(t *testing.T) {
	whole := catalog.New(catalog.Config{}).View()
	var s sights
	made := map[string]int{}
	see := func(p tool.Principal) {
		s.get(p, whole, false, func() func(*catalog.Entry) bool {
			made[p.ID]++
			return func(*catalog.Entry) bool { return true }
		})
	}
	see(tool.Principal{ID: "ann"})
	for i := range 2 * maxSeen {
		see(tool.Principal{ID: "eve", Client: fmt.Sprint(i)})
	}
	see(tool.Principal{ID: "ann"})
	if made["ann"] != 1 || made["eve"] != 2*maxSeen {
		t.Errorf(`made = %v, want made["ann"] == 1 && made["eve"] == 2*maxSeen`, made)
	}
}
