package form

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// TestAnsweredFormsAreShared checks that a user with many answered forms doesn't displace those of
// other users.
func TestAnsweredFormsAreShared(t *testing.T) {
	clock := wallclock.At(time.Unix(1, 0))
	d := New(Config{Clock: clock})
	d.room = queue.NewShares("forms", "remembered", 20)
	until := clock.Now().Add(time.Hour)
	for i := range 20 {
		if err := d.use("eve", fmt.Sprint(i), until); err != nil {
			t.Fatalf("use: %v", err)
		}
	}
	if err := d.use("eve", "one more", until); tool.AsError(err).Kind != tool.Limit ||
		!strings.Contains(err.Error(), "your share") {
		t.Errorf("eve's 21st: %v", err)
	}
	if err := d.use("ann", "ann's", until); err != nil {
		t.Errorf("ann: %v", err)
	}
	if err := d.use("ann", "ann's", until); tool.AsError(err).Kind != tool.Conflict {
		t.Errorf("the same form again: %v", err)
	}
	clock.Set(until)
	if err := d.use("eve", "later", until.Add(time.Hour)); err != nil {
		t.Errorf("an hour later: %v", err)
	}
	if len(d.used) != 1 || d.room.Held("eve") != 1 {
		t.Errorf("%d are remembered, %d of eve", len(d.used), d.room.Held("eve"))
	}
}
