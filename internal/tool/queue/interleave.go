package queue

import "slices"

// Interleave returns the elements of all, alternating between owners: the first of each owner, then
// the second of each, and so on. The order within an owner is kept, and owners are in the order of
// their first elements.
func Interleave[T any](all []T, owner func(*T) string) []T {
	var owners []string
	of := map[string][]T{}
	for i := range all {
		o := owner(&all[i])
		if of[o] == nil {
			owners = append(owners, o)
		}
		of[o] = append(of[o], all[i])
	}
	out := make([]T, 0, len(all))
	for round := 0; len(owners) > 0; round++ {
		for _, o := range owners {
			out = append(out, of[o][round])
		}
		owners = slices.DeleteFunc(owners, func(o string) bool { return len(of[o]) == round+1 })
	}
	return out
}
