package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit/proof"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A verifier reads a log from its first leaf to its last. It rebuilds the tree, compares it with
// the stored one and with all checkpoints, and identifies faults by leaf.
type verifier struct {
	log   *Log
	r     Report
	edge  edge
	marks []mark // checkpoints, by size
	next  int64  // index of the next leaf
	// sizes of the newest matching checkpoints: stored, and external. Each kind is tracked
	// separately, because it proves nothing about the other's history
	good     [2]int64
	forked   [2]bool     // the newest checkpoint didn't match
	sealed   *proof.Head // the head that the store sealed; nil: none
	agrees   bool        // the log begins with exactly the sealed leaves
	gone     *gone
	tampered string           // the first fault that is not one of an external checkpoint itself
	open     map[string]int64 // records begun and not ended: index by record
	people   approvers
	steps    []step
	earliest time.Time       // earliest time of a leaf; zero: none
	odd      map[int64]int64 // the other index that changed leaves claim, by leaf
	archive  archiveCheck
}

// A mark is a checkpoint to compare with the log when it has reached the mark's size.
type mark struct {
	*proof.Checkpoint
	outside int // index among the external checkpoints, or one of the constants below
}

// Values of mark.outside for other marks.
const (
	markStored  = -1 // a stored checkpoint
	markSealed  = -2 // not a checkpoint: the head that the store sealed
	markWitness = -3 // not a checkpoint: the witness's head
)

func newVerifier(l *Log, outside []string) *verifier {
	v := &verifier{log: l, open: map[string]int64{}, odd: map[int64]int64{}}
	v.edge.owner = v
	for i, text := range outside {
		v.r.Outside = append(v.r.Outside, OutsideResult{})
		c, err := proof.ParseCheckpoint(text, l.signer.Public())
		if err != nil {
			v.noteFault(Fault{What: faultCheckpoint, Seq: -1, Last: -1,
				Msg: fmt.Sprintf("external checkpoint %d: %v", i+1, err)})
			continue
		}
		v.r.Outside[i].Size = c.Size
		v.marks = append(v.marks, mark{c, i})
	}
	return v
}

// reportFault reports a fault of the record.
func (v *verifier) reportFault(f Fault) {
	if v.tampered == "" {
		v.tampered = f.Msg
	}
	v.noteFault(f)
}

// noteFault adds a fault to the report. If missing segments fill it, a fault of another kind
// replaces the last of them: what was changed must not pass for what is only missing.
func (v *verifier) noteFault(f Fault) {
	if len(v.r.Faults) < maxFaults {
		v.r.Faults = append(v.r.Faults, f)
		return
	}
	v.r.More++
	if last := &v.r.Faults[maxFaults-1]; last.What == faultArchive && f.What != faultArchive {
		*last = f
	}
}

// verifyView verifies a view. It returns an error if it can't; faults are added to the report.
func (v *verifier) verifyView(ctx context.Context, view View, pace *pacer) error {
	v.readCheckpoints(view)
	v.archive.checkSegments(v, view)
	v.gone = newGone(view)
	v.gone.skipUntil(v.archive.until)
	v.compareCheckpoints()
	v.log.progress.done.Store(0)
	if v.sealed != nil {
		v.log.progress.size.Store(v.sealed.Size)
	}
	kept := v.startPayloads(ctx, view)
	err := view.Leaves(math.MinInt64, func(l Leaf) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.verifyLeaf(l)
		pace.countLeaf(ctx)
		return nil
	})
	payloads := <-kept
	if ctx.Err() != nil {
		return tool.AsError(ctx.Err())
	}
	if err != nil {
		v.reportFault(Fault{What: faultStore, Seq: v.next, Last: v.next,
			Msg: fmt.Sprintf("the store can't be read from leaf %d on: %v", v.next, err)})
	}
	v.reportEndFaults()
	v.compareExecutions(view)
	if err := view.CheckIntegrity(); err != nil {
		if ctx.Err() != nil {
			return tool.AsError(ctx.Err())
		}
		v.reportFault(Fault{What: faultStore, Seq: -1, Last: -1, Msg: err.Error()})
	}
	v.reportPayloads(payloads)
	return nil
}

// readCheckpoints reads the stored checkpoints, the sealed head and the witness's head.
func (v *verifier) readCheckpoints(view View) {
	n, last := 0, int64(0)
	cerr := view.Checkpoints(func(text string) error {
		n++
		c, err := proof.ParseCheckpoint(text, v.log.signer.Public())
		if err != nil {
			v.reportFault(Fault{What: faultCheckpoint, Seq: -1, Last: -1,
				Msg: fmt.Sprintf("stored checkpoint %d is forged, or was changed: %v", n, err)})
			return nil
		}
		if c.Size < last {
			v.reportFault(Fault{What: faultCheckpoint, Seq: -1, Last: -1,
				Msg: fmt.Sprintf("stored checkpoint %d has %d leaves, an earlier one %d: checkpoints were reordered, "+
					"or the record was replaced by an older copy", n, c.Size, last)})
		}
		last = max(last, c.Size)
		c.Text = "" // there may be many
		v.marks = append(v.marks, mark{c, markStored})
		return nil
	})
	var err error
	switch v.sealed, err = view.SealedHead(); {
	case err != nil:
		v.reportFault(Fault{What: faultSeal, Seq: -1, Last: -1,
			Msg: fmt.Sprintf("%v: genuine entries of the record can't be distinguished from forged ones",
				err)})
	case v.sealed != nil:
		v.marks = append(v.marks, mark{&proof.Checkpoint{Head: *v.sealed}, markSealed})
	}
	switch w, err := view.WitnessHead(); {
	case err != nil:
		v.reportFault(Fault{What: faultWitness, Seq: -1, Last: -1, Msg: err.Error()})
	case w != nil:
		v.marks = append(v.marks, mark{&proof.Checkpoint{Head: *w}, markWitness})
	}
	slices.SortStableFunc(v.marks, func(a, b mark) int { return int(min(max(a.Size-b.Size, -1), 1)) })
	if cerr != nil {
		v.reportFault(Fault{What: faultStore, Seq: -1, Last: -1,
			Msg: fmt.Sprintf("the stored checkpoints can't be read: %v", cerr)})
	} else if err := view.CheckChain(); err != nil {
		v.reportFault(Fault{What: faultCheckpoint, Seq: -1, Last: -1, Msg: err.Error()})
	}
}

// compareCheckpoints compares the tree with the checkpoints of its current size.
func (v *verifier) compareCheckpoints() {
	for len(v.marks) > 0 && v.marks[0].Size <= v.next {
		m := v.marks[0]
		v.marks = v.marks[1:]
		ok, sure := false, false
		if m.Size == v.next { // otherwise a gap skips over it
			ok, sure = v.edge.matchesRoot(m.Root)
		}
		switch {
		case m.outside == markSealed:
			v.recordHeadMatch(m.Size, ok, sure)
			continue
		case m.outside == markWitness:
			if sure && !ok {
				v.reportFault(Fault{What: faultWitness, Seq: 0, Last: m.Size - 1,
					Msg: fmt.Sprintf("the witness has a head of %d leaves that differ from these", m.Size)})
			}
			continue
		}
		kind := 0
		if m.outside >= 0 {
			kind = 1
		}
		switch {
		case ok:
			v.good[kind], v.forked[kind] = m.Size, false
			v.r.Covered = m.Size
			if m.outside < 0 {
				v.r.Checkpoints++
			} else {
				v.r.Outside[m.outside].OK = true
			}
		case sure && !v.forked[kind]:
			v.forked[kind] = true
			v.reportFault(Fault{What: faultFork, Seq: v.good[kind], Last: m.Size - 1, Msg: fmt.Sprintf(
				"the checkpoint of %d leaves signs different ones: one or more of the leaves %d to %d were changed, "+
					"removed or inserted, together with all hashes", m.Size, v.good[kind], m.Size-1)})
		}
	}
}

// recordHeadMatch records the result of the comparison with the sealed head. A fork that a stored
// checkpoint has shown is already reported.
func (v *verifier) recordHeadMatch(size int64, ok, sure bool) {
	v.agrees = ok
	if sure && !ok && !v.forked[0] {
		v.forked[0] = true
		v.reportFault(Fault{What: faultFork, Seq: v.good[0], Last: size - 1, Msg: fmt.Sprintf(
			"the sealed head of %d leaves differs: one or more of the leaves %d to %d were changed, removed or "+
				"inserted, together with all hashes", size, v.good[0], size-1)})
	}
}

// verifyLeaf verifies the next stored leaf.
func (v *verifier) verifyLeaf(l Leaf) {
	if l.Seq < v.next { // the leaves are sorted, so this one is below 0
		v.reportFault(Fault{What: faultInserted, Seq: l.Seq, Last: l.Seq,
			Msg: fmt.Sprintf("leaf %d was inserted: the first index is 0", l.Seq)})
		return
	}
	if l.Seq > v.next {
		v.reportFault(Fault{What: faultMissing, Seq: v.next, Last: l.Seq - 1, Msg: missingText(v.next, l.Seq-1)})
		v.edge.skipTo(v.next, l.Seq)
		v.next = l.Seq
		v.compareCheckpoints()
	}
	v.next++
	if l.Absent != "" && v.archive.isAbsent(l.Seq) {
		v.r.Absent++
		v.edge.addLeaf(l, &node{lo: l.Seq, hi: l.Seq}, true)
		v.compareCheckpoints()
		return
	}
	l.Absent = ""
	c, err := l.decodeContent()
	n := node{lo: l.Seq, hi: l.Seq}
	if c != nil {
		n.id = c.Record
	}
	same := v.edge.addLeaf(l, &n, c == nil || c.Seq == l.Seq)
	switch {
	case !same:
		if c != nil && c.Seq != l.Seq {
			v.odd[l.Seq] = c.Seq
		}
	case err != nil:
		v.reportFault(Fault{What: faultForm, Seq: l.Seq, Last: l.Seq,
			Msg: fmt.Sprintf("biplane did not write leaf %d: %v", l.Seq, err)})
	default:
		v.verifyContent(l, c)
	}
	v.compareCheckpoints()
}

// verifyContent checks a leaf that has its stored hash.
func (v *verifier) verifyContent(l Leaf, c *content) {
	if !c.isCanonical(l.Data) {
		v.reportFault(Fault{What: faultForm, Seq: l.Seq, Last: l.Seq, Record: c.Record,
			Msg: fmt.Sprintf("leaf %d (record %s) is not canonical JSON: biplane did not write it", l.Seq, c.Record)})
	}
	if at, ok := idTime(c.Record); c.Part != PartEnded && (!ok || c.at.Sub(at).Abs() > ClockSlack) {
		v.reportFault(Fault{What: faultForm, Seq: l.Seq, Last: l.Seq, Record: c.Record,
			Msg: fmt.Sprintf("leaf %d has the id %s, which biplane does not assign to a record of %s", l.Seq,
				c.Record, c.Time)})
	}
	if at := c.at; v.earliest.IsZero() || at.Before(v.earliest) {
		v.earliest = at
	}
	v.recordPlace(l.Seq, c.Seq, c.Record)
	v.gone.addWanted(l.Seq, c)
	if f, ok := v.people.addLeaf(l.Seq, c); !ok && v.r.Absent == 0 {
		v.reportFault(f)
	}
	switch c.Part {
	case PartBegun:
		v.r.Records++
		if at, ok := v.open[c.Record]; ok {
			v.reportFault(Fault{What: faultPair, Seq: l.Seq, Last: l.Seq, Record: c.Record,
				Msg: fmt.Sprintf("leaf %d begins record %s, which leaf %d already began", l.Seq, c.Record, at)})
		}
		v.open[strings.Clone(c.Record)] = c.Seq // the rest of the leaf is not kept for it
	case PartEvent:
		v.r.Records++
	case PartEnded:
		v.verifyEnd(l, c)
	default:
		v.reportFault(Fault{What: faultForm, Seq: l.Seq, Last: l.Seq, Record: c.Record,
			Msg: fmt.Sprintf("leaf %d (record %s) has a part that biplane does not write", l.Seq, c.Record)})
	}
}

func (v *verifier) verifyEnd(l Leaf, c *content) {
	at, ok := v.open[c.Record]
	delete(v.open, c.Record)
	if ok && c.Begun != nil && *c.Begun == at || !ok && c.Begun != nil && v.archive.isAbsent(*c.Begun) {
		return
	}
	// If its first half is missing or was changed, that is already reported.
	if c.Begun != nil && slices.ContainsFunc(v.r.Faults, func(f Fault) bool {
		return f.What != faultFork && f.Seq <= *c.Begun && *c.Begun <= f.Last
	}) || v.edge.hasDoubts() || len(v.steps) > 0 {
		return
	}
	v.reportFault(Fault{What: faultPair, Seq: l.Seq, Last: l.Seq, Record: c.Record,
		Msg: fmt.Sprintf("leaf %d ends record %s, which had not begun or had already ended", l.Seq, c.Record)})
}

// reportEndFaults reports the faults that show only at the end of the log.
func (v *verifier) reportEndFaults() {
	v.edge.resolveAll()
	v.compareSize(v.next + v.reportShifts())
	v.mergeSwaps()
	v.r.Size = v.next
	v.r.Root, _ = v.edge.computeRoot()
	v.r.Unfinished = int64(len(v.open))
}

// executionSlack is how much an execution may predate the log, because a clock may be set back.
const executionSlack = time.Second

// compareExecutions compares the oldest execution with the log, which must begin before it.
func (v *verifier) compareExecutions(view View) {
	id, began, err := view.FirstExecution()
	switch {
	case err != nil:
		v.reportFault(Fault{What: faultStore, Seq: -1, Last: -1,
			Msg: fmt.Sprintf("the executions can't be read: %v", err)})
	case !v.archive.since.IsZero() && !began.Before(v.archive.since.Add(-executionSlack)):
	case id != "" && (v.earliest.IsZero() || began.Before(v.earliest.Add(-executionSlack))):
		v.reportFault(Fault{What: faultExecution, Seq: -1, Last: -1, Msg: olderExecution(id, began)})
	}
}

func olderExecution(id string, began time.Time) string {
	return fmt.Sprintf("execution %s began %s, before the first entry of the record: the record of that time was "+
		"removed or replaced", id, began.UTC().Format(time.RFC3339))
}

// compareSize reports leaves that were removed from the end of the log, or added there. size is the
// log's size according to the leaves' own indexes.
func (v *verifier) compareSize(size int64) {
	v.marks = slices.DeleteFunc(v.marks, func(m mark) bool {
		return m.Size <= size || m.outside == markSealed && v.forked[0]
	})
	if n := len(v.marks); n > 0 {
		m := v.marks[n-1]
		says := "but a checkpoint signs"
		if m.outside == markSealed {
			says = "but was sealed with"
		} else if m.outside == markWitness {
			says = "but its witness has"
		}
		v.reportFault(Fault{What: faultTruncated, Seq: size, Last: m.Size - 1, Msg: fmt.Sprintf(
			"the log ends with leaf %d, %s %d leaves: the leaves %d to %d were removed", size-1, says, m.Size,
			size, m.Size-1)})
	}
	if v.agrees && v.next > v.sealed.Size {
		v.reportFault(Fault{What: faultForged, Seq: v.sealed.Size, Last: v.next - 1, Msg: fmt.Sprintf(
			"biplane did not record the leaves %d to %d: they were appended without the folder's key",
			v.sealed.Size, v.next-1)})
	}
}

// A payloadCheck is the result of checking the data kept beside the tree.
type payloadCheck struct {
	good   int64
	faults []Fault
	more   int64 // number of faults beyond faults
	err    error // the data can't be read
}

// startPayloads checks the data kept beside the tree, while leaves are verified. The channel
// returns the result.
func (v *verifier) startPayloads(ctx context.Context, view View) <-chan *payloadCheck {
	out := make(chan *payloadCheck, 1)
	go func() {
		c := &payloadCheck{}
		c.err = view.AllKept(func(digest string, data []byte, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				c.addFault(err.Error())
			case digest != "" && v.log.keep.DigestOf(data) != digest:
				c.addFault(fmt.Sprintf("the data kept under %s does not match its digest", digest))
			default:
				c.good++
			}
			return nil
		})
		out <- c
	}()
	return out
}

func (c *payloadCheck) addFault(msg string) {
	if len(c.faults) == maxFaults {
		c.more++
		return
	}
	c.faults = append(c.faults, Fault{What: faultPayload, Seq: -1, Last: -1, Msg: msg})
}

// reportPayloads reports what is wrong with kept data.
func (v *verifier) reportPayloads(c *payloadCheck) {
	v.r.Payloads = c.good
	for _, f := range c.faults {
		v.reportFault(f)
	}
	v.r.More += c.more
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		v.reportFault(Fault{What: faultStore, Seq: -1, Last: -1,
			Msg: fmt.Sprintf("the kept data can't be read: %v", c.err)})
	}
	v.reportMissing()
}

// reportMissing reports missing kept data. If the deletions on record couldn't be read, the faulty
// leaves are already reported.
func (v *verifier) reportMissing() {
	v.gone.lookUp()
	if v.gone.err != nil && len(v.r.Faults) == 0 {
		v.reportFault(Fault{What: faultStore, Seq: -1, Last: -1,
			Msg: fmt.Sprintf("the missing data can't be determined: %v", v.gone.err)})
	}
	for _, f := range v.gone.missed {
		v.reportFault(f)
	}
	v.r.More += v.gone.more
}

func missingText(first, last int64) string {
	if first == last {
		return fmt.Sprintf("leaf %d was removed", first)
	}
	return fmt.Sprintf("the leaves %d to %d were removed", first, last)
}

// describeLeaf returns the text that identifies a leaf and its record in a message.
func describeLeaf(seq int64, record string) string {
	if record == "" {
		return fmt.Sprintf("leaf %d", seq)
	}
	return fmt.Sprintf("leaf %d (record %s)", seq, record)
}
