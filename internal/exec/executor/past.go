package executor

import (
	"context"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
)

// A Recorded is the audit record of a call that an execution made before its process ended.
type Recorded struct {
	Call   string // id of the call
	Record string // id of the audit record
	Tool   string // path of the tool
	Left   bool   // the call was sent, or about to be sent
}

// A past holds the audit records of an execution that was recovered. It is zero for an execution
// that began in this process.
type past struct {
	records map[string]string // latest audit record of each call, by call id
	unknown []Recorded        // calls that were sent but are missing in the journal
}

// callID returns the id of the n-th call of an execution, counted from 1.
func callID(execution string, n int) string { return fmt.Sprintf("%s.%d", execution, n) }

// loadPast reads the audit records of an execution and compares them with its journal.
func loadPast(ctx context.Context, from Control, st *journal.History) (p past, err error) {
	all, err := from.RecordedCalls(ctx, st.Record.ID, st.Record.Started)
	if err != nil || len(all) == 0 {
		return p, err
	}
	known := map[string]bool{}
	for _, c := range st.Calls {
		known[callID(st.Record.ID, c.N)] = !c.Sent.IsZero()
	}
	p.records = map[string]string{}
	for _, c := range all { // the newest first
		if traffic.IsConnection(c.Call) {
			continue // journals don't have connections
		}
		if p.records[c.Call] == "" {
			p.records[c.Call] = c.Record
		}
		if c.Left && !known[c.Call] {
			p.unknown = append(p.unknown, c)
		}
	}
	return p, nil
}

// checkCut returns an error if the journal lacks a call that was sent and may have written. The
// intent of such a call is written before its audit record, so the end of the journal must have
// been removed. Calls that change nothing may be lost with the process; they are made again. If
// sure is set, unknown tools are assumed not to write.
func (p *past) checkCut(tools Tools, sure bool) error {
	var names []string
	for _, c := range p.unknown {
		t := tools.FindTool(c.Tool)
		if t == nil && sure || t != nil && t.Annotations.Repeats() {
			continue
		}
		names = append(names, fmt.Sprintf("call %s, %s", c.Call[strings.LastIndexByte(c.Call, '.')+1:],
			text.Cut(c.Tool, 100)))
	}
	switch n := len(names); {
	case n == 0:
		return nil
	case n > 5:
		names = append(names[:5], fmt.Sprintf("and %d more", n-5))
	}
	return errInterrupted("%s, had been sent, as the audit record says, and its journal knows nothing of it: the end of "+
		"the journal is gone. Look, before anything is sent again", strings.Join(names, "; "))
}
