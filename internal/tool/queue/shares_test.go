package queue

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSharesOfOneAlone(t *testing.T) {
	for _, size := range []int64{1, 2, 3, 8, 100, 512} {
		s := NewShares("calls", "under way", size)
		for i := range size {
			if err := s.Acquire("ann", 1); err != nil {
				t.Fatalf("%d of %d: %v", i+1, size, err)
			}
		}
		err := s.Acquire("ann", 1)
		if e := tool.AsError(err); e == nil || e.Kind != tool.Limit ||
			!strings.Contains(e.Msg,
				fmt.Sprintf("%[1]d calls are under way for you, which is your share of the gateway's %[1]d", size)) {
			t.Errorf("over %d: %v", size, err)
		}
		if err := s.Acquire("bob", 1); err != nil {
			t.Errorf("a newcomer beside %d: %v", size, err)
		}
	}
}

// TestSharesUnderContention checks that two principals that take what they can end up with about
// the same, no matter which was first, and that room is left for a third.
func TestSharesUnderContention(t *testing.T) {
	s := NewShares("calls", "under way", 512)
	for s.Acquire("eve", 1) == nil {
	}
	for range 2000 { // whenever eve's calls end, both want the slot
		s.Release("eve", 1)
		for s.Acquire("bob", 1) == nil {
		}
		s.Acquire("eve", 1)
	}
	eve, bob := s.Held("eve"), s.Held("bob")
	if eve > bob+8 || bob > eve+8 || eve+bob < 512 {
		t.Errorf("eve has %d, bob %d", eve, bob)
	}
	for i := range 16 {
		if err := s.Acquire("cat", 1); err != nil {
			t.Errorf("newcomer's %d: %v", i+1, err)
		}
	}
	for i := 0; ; i++ { // until even newcomers are refused
		if err := s.Acquire(fmt.Sprint("k", i), 1); err != nil {
			if e := tool.AsError(err); e.Kind != tool.Unavailable ||
				!strings.Contains(e.Msg, "which is the gateway's limit for all together") {
				t.Errorf("err = %v, want e.Kind == tool.Unavailable && strings.Contains(e.Msg, \"which "+
					"is the gateway's limit for all together\")", err)
			}
			break
		}
	}
}

func TestSharesOfBytes(t *testing.T) {
	s := NewShares("bytes", "held", 1000)
	b, release, err := s.ReadAll("ann", strings.NewReader(strings.Repeat("x", 900)))
	if err != nil || len(b) != 900 || s.Held("ann") != 900 {
		t.Fatalf("len(b) = %v, err = %v, %v, want err == nil && len(b) == 900 && s.Held(\"ann\") == 900",
			len(b), err, s.Held("ann"))
	}
	_, none, err := s.ReadAll("ann",
		io.MultiReader(strings.NewReader("12345"), strings.NewReader(strings.Repeat("x", 200))))
	if err == nil || s.Held("ann") != 905 {
		t.Error("over the bound", err, s.Held("ann"))
	}
	none()
	release()
	release()
	if used, holders := s.Load(); used != 0 || holders != 0 {
		t.Errorf("used = %v, holders = %v, want used == 0 && holders == 0", used, holders)
	}
}

// TestSharesHold checks invariants for any sequence of Acquire and Release. The total never exceeds
// the limit and its reserve, and a principal never holds more than the limit. A principal that
// holds nothing is refused only when nothing is free.
func TestSharesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 60).Draw(t, "size")
		s := NewShares("x", "held", size)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			who := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "who")
			if h := s.Held(who); h > 0 && rapid.Bool().Draw(t, "give") {
				s.Release(who, rapid.Int64Range(1, h).Draw(t, "n"))
				continue
			}
			before, _ := s.Load()
			if err := s.Acquire(who, 1); err != nil && s.Held(who) == 0 && before < s.total {
				t.Fatalf("a newcomer was refused with %d of %d used", before, s.total)
			}
		}
		sum := int64(0)
		for who, n := range s.held {
			if sum += n; n <= 0 || n > size {
				t.Fatalf("%s holds %d of %d", who, n, size)
			}
		}
		if sum != s.used || s.used > s.total {
			t.Fatalf("%d held, %d counted, of %d", sum, s.used, s.total)
		}
	})
}
