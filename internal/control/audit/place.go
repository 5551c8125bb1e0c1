package audit

import "fmt"

// A step is a leaf at which the offset between the leaves' own indexes and their positions changes.
// Rows were removed or inserted and the others renumbered, or rows were exchanged.
type step struct {
	at, own int64 // position of the leaf, and its own index
	record  string
}

// maxSteps is the maximum number of steps examined.
const maxSteps = 4 * maxFaults

func (s step) indexShift() int64 { return s.own - s.at }

// recordPlace records the position at of a leaf whose own index is own.
func (v *verifier) recordPlace(at, own int64, record string) {
	last := int64(0)
	if n := len(v.steps); n > 0 {
		last = v.steps[n-1].indexShift()
	}
	if own-at != last && len(v.steps) < maxSteps {
		v.steps = append(v.steps, step{at, own, record})
	}
}

// reportShifts reports the steps. In a run of steps at consecutive leaves, all but the last are
// single leaves out of place. From the last on, all leaves have the same offset. It returns the
// offset at the end.
func (v *verifier) reportShifts() (base int64) {
	for i := 0; i < len(v.steps); {
		j := i + 1
		for j < len(v.steps) && v.steps[j].at == v.steps[j-1].at+1 {
			j++
		}
		odd, last := v.steps[i:j-1], v.steps[j-1]
		if last.at == v.next-1 && last.own != last.at+base { // no leaf follows to show whether it is alone
			odd = v.steps[i:j]
			last = step{at: v.next, own: v.next + base}
		}
		change := last.indexShift() - base
		if change > 0 {
			v.reportFault(Fault{What: faultMissing, Seq: last.own - change, Last: last.own - 1,
				Msg: missingText(last.own-change, last.own-1) + ", and the later ones renumbered"})
		}
		for n := int64(0); change < 0 && n < -change; n++ {
			at, record := last.at+change+n, ""
			for k, s := range odd {
				if s.at == at {
					record = s.record
					odd = append(odd[:k:k], odd[k+1:]...)
					break
				}
			}
			v.reportFault(Fault{What: faultInserted, Seq: at, Last: at, Record: record,
				Msg: describeLeaf(at, record) + " was inserted, and the later ones renumbered"})
		}
		for _, s := range odd {
			if s.own != s.at+base {
				v.odd[s.at] = s.own
				v.reportFault(Fault{What: faultMoved, Seq: s.at, Last: s.at, Record: s.record,
					Msg: fmt.Sprintf("%s is in the wrong place: it belongs at %d",
						describeLeaf(s.at, s.record), s.own)})
			}
		}
		base = last.indexShift()
		i = j
	}
	return base
}

// mergeSwaps merges the two faults of leaves that were swapped into one.
func (v *verifier) mergeSwaps() {
	kept := v.r.Faults[:0]
	for _, f := range v.r.Faults {
		other, ok := v.odd[f.Seq]
		if back, both := v.odd[other]; !ok || !both || back != f.Seq || f.Seq != f.Last ||
			f.What != faultMoved && f.What != faultChanged {
			kept = append(kept, f)
			continue
		}
		if f.Seq < other {
			kept = append(kept, Fault{What: faultMoved, Seq: f.Seq, Last: other, Record: f.Record,
				Msg: fmt.Sprintf("the leaves %d and %d were swapped", f.Seq, other)})
		}
	}
	v.r.Faults = kept
}
