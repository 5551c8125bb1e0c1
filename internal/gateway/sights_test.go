package gateway

import (
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A second goroutine finds what the first has put there, and is to work it out before the first does.
func TestSightThatIsNotWorkedOutYet(t *testing.T) {
	whole := catalog.New(catalog.Config{}).View()
	all := func() func(*catalog.Entry) bool { return func(*catalog.Entry) bool { return true } }
	p := tool.Principal{ID: "local:ann"}
	s := &sights{whole: whole, by: map[string]*sight{keyOf(p): {made: time.Now()}}}
	done := make(chan *catalog.View, 1)
	go func() { done <- s.get(p, whole, true, all) }()
	select {
	case v := <-done:
		if v == nil {
			t.Error("it sees nothing at all")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for itself")
	}
}
