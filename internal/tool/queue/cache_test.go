package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestCacheOfOneAlone(t *testing.T) {
	c := NewCache[int, int](4, 0)
	var out []int
	for i := range 6 {
		out = append(out, c.Put("ann", i, i, 1)...)
		c.Use(0)
	}
	if fmt.Sprint(out) != "[1 2]" || c.Len() != 4 {
		t.Errorf("%v made room, %d are left", out, c.Len())
	}
	if k, v, ok := c.Oldest(); k != 3 || v != 3 || !ok {
		t.Errorf("the oldest is %d", k)
	}
}

// TestCacheOfAGreedyPrincipal checks that ann loses nothing while she has less than eve, whatever
// eve adds.
func TestCacheOfAGreedyPrincipal(t *testing.T) {
	c := NewCache[string, string](8, 1000)
	for i := range 3 {
		k := fmt.Sprint("ann", i)
		if out := c.Put("ann", k, k, 100); out != nil {
			t.Fatalf("Put: %v", out)
		}
	}
	for i := range 100 {
		k := fmt.Sprint("eve", i)
		for _, v := range c.Put("eve", k, k, 10) {
			if v[:3] != "eve" {
				t.Fatalf("%s went, with %d of eve", v, c.owners["eve"].values.Len())
			}
		}
	}
	for i := range 10 { // few, but large
		k := fmt.Sprint("large", i)
		for _, v := range c.Put("eve", k, k, 650) {
			if v[:3] == "ann" {
				t.Fatalf("%s went, with %d bytes of eve", v, c.owners["eve"].size)
			}
		}
	}
	if out := c.Put("eve", "huge", "huge", 1001); !slices.Equal(out, []string{"huge"}) || c.Len() < 4 {
		t.Errorf("one that is too large: %v, %d are left", out, c.Len())
	}
	for i := range 3 {
		if v, ok := c.Get(fmt.Sprint("ann", i)); !ok {
			t.Errorf("v = %v, want ok", v)
		}
	}
}

// TestCacheHolds checks that the limits hold, that evicted values are removed, and that a value is
// evicted only if no one has more than its owner.
func TestCacheHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, size := rapid.IntRange(1, 10).Draw(t, "most"), rapid.Int64Range(0, 50).Draw(t, "size")
		c := NewCache[int, int](most, size)
		has := map[int]bool{}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch k := rapid.IntRange(0, 20).Draw(t, "key"); rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if _, ok := c.Remove(k); ok != has[k] {
					t.Fatalf("%d: removed %t", k, ok)
				}
				delete(has, k)
			case 1:
				if _, ok := c.Use(k); ok != has[k] {
					t.Fatalf("%d: used %t", k, ok)
				}
			default:
				has[k] = true
				for _, gone := range c.Put(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who"), k, k,
					rapid.Int64Range(0, 60).Draw(t, "n")) {
					if !has[gone] {
						t.Fatalf("step %d: %d went and was not there", i, gone)
					}
					delete(has, gone)
				}
			}
			n, sum := 0, int64(0)
			for who, s := range c.owners {
				if s.values.Len() == 0 {
					t.Fatalf("%s has nothing", who)
				}
				n, sum = n+s.values.Len(), sum+s.size
			}
			if n != len(has) || n != c.Len() || n > most || sum != c.used || size > 0 && sum > size {
				t.Fatalf("%d values, %d known, %d of %d bytes, %d counted", n, len(has), sum, size, c.used)
			}
		}
	})
}
