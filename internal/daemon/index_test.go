package daemon

import (
	"fmt"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestTreesAreShared checks that a principal whose visible tools keep changing doesn't evict the
// declarations of others.
func TestTreesAreShared(t *testing.T) {
	t.Parallel()
	var x index
	choice := func(name string) []*catalog.Entry { return []*catalog.Entry{{Tool: &tool.Tool{Name: name}}} }
	ann := tool.Principal{ID: "ann"}
	of := choice("ann")
	kept := x.treeOf(ann, 1, of)
	for i := range 3 * maxTrees {
		x.treeOf(tool.Principal{ID: "eve"}, 1, choice(fmt.Sprint("eve", i)))
	}
	if x.treeOf(ann, 1, of) != kept {
		t.Error("ann's was dropped in favour of eve's")
	}
	if x.treeOf(tool.Principal{ID: "bob"}, 1, of) != kept {
		t.Error("bob, who sees the same tools, has another one")
	}
	if x.treeOf(ann, 2, of) == kept {
		t.Error("it is the same after the tools have changed")
	}
}
