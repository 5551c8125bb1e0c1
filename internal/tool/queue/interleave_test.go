package queue

import (
	"slices"
	"testing"
)

func TestInterleave(t *testing.T) {
	all := []string{"e1", "e2", "e3", "a1", "e4", "b1", "a2"}
	got := Interleave(all, func(s *string) string { return (*s)[:1] })
	if want := []string{"e1", "a1", "b1", "e2", "a2", "e3", "e4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
