package audit

import "testing"

// TestReportedFaults fills a report with missing segments. What was changed is still told from what
// is only missing.
func TestReportedFaults(t *testing.T) {
	var v verifier
	for i := range int64(maxFaults + 2) {
		v.noteFault(Fault{What: faultArchive, Seq: i})
	}
	if !v.r.LacksOnlySegments() || v.r.More != 2 {
		t.Errorf("with missing segments only, the report is of other faults, or counts %d more", v.r.More)
	}
	v.reportFault(Fault{What: faultChanged, Seq: 7})
	if v.r.LacksOnlySegments() || v.r.More != 3 || len(v.r.Faults) != maxFaults {
		t.Errorf("a changed leaf passes for a missing segment: %d faults and %d more", len(v.r.Faults), v.r.More)
	}
}
