package policy

import (
	"fmt"

	cedar "github.com/cedar-policy/cedar-go"
)

// Limits on comparisons. Cedar stores a set in a hash table with known hashes, and compares each
// element with the elements that collide with it. The sender of arguments can choose such values.
const (
	// setComparisons is the most comparisons that the lists in a call's arguments may need: some
	// hundredths of a second.
	setComparisons = 1_000_000
	// fewValues is how many values need no check: they can't collide often enough.
	fewValues = 256
)

// checkCollisions returns an error if making a set of values would need too many comparisons, with
// those counted before. They are counted in a copy of the set, which ends early.
func (r *valueReader) checkCollisions(values []cedar.Value) error {
	newMeteredSet(values, &r.compared)
	if r.compared > setComparisons {
		return fmt.Errorf("the lists in the arguments need over %d comparisons, more than policies make: "+
			"send shorter lists", setComparisons)
	}
	return nil
}

// A meteredValue is a Value that counts its comparisons. Beyond setComparisons it equals every
// other value, which ends the search for a place in a set.
type meteredValue struct {
	cedar.Value
	compared *int
}

// Equal reports whether v equals other, which is also a meteredValue.
func (v meteredValue) Equal(other cedar.Value) bool {
	if *v.compared++; *v.compared > setComparisons {
		return true
	}
	o, ok := other.(meteredValue)
	return ok && v.Value.Equal(o.Value)
}

// newMeteredSet returns a set of copies of values that count their comparisons, at all depths.
func newMeteredSet(values []cedar.Value, compared *int) cedar.Set {
	out := make([]cedar.Value, len(values))
	for i, v := range values {
		out[i] = meterValue(v, compared)
	}
	return cedar.NewSet(out...)
}

func meterValue(v cedar.Value, compared *int) cedar.Value {
	switch t := v.(type) {
	case cedar.Set:
		v = newMeteredSet(t.Slice(), compared)
	case cedar.Record:
		fields := t.Map()
		for name, field := range fields {
			fields[name] = meterValue(field, compared)
		}
		v = cedar.NewRecord(fields)
	}
	return meteredValue{v, compared}
}
