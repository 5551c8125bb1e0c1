package executor

import (
	"context"
	"fmt"
	"strings"

	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Recorded is what the record has of a call that an execution made before its process ended.
type Recorded struct {
	Call   string // its id
	Record string // the record of it
	Tool   string // its path
	Left   bool   // it was sent, or about to be
}

// A past is what the record has of an execution that was taken up. The zero past is that of one
// which began here.
type past struct {
	records map[string]string // of its calls, by their ids, the newest one of each
	unknown []Recorded        // calls that left, and of which its journal knows nothing
}

// callID is the id of the n-th call of an execution, from 1.
func callID(execution string, n int) string { return fmt.Sprintf("%s.%d", execution, n) }

// pastOf gives what the record has of an execution, compared with what its journal tells.
func (x *Executor) pastOf(ctx context.Context, st *journal.Story) (p past, err error) {
	if x.cfg.Recorded == nil {
		return p, nil
	}
	all, err := x.cfg.Recorded(ctx, st.Record.ID, st.Record.Started)
	if err != nil || len(all) == 0 {
		return p, err
	}
	known := map[string]bool{}
	for _, c := range st.Calls {
		known[callID(st.Record.ID, c.N)] = !c.Sent.IsZero()
	}
	p.records = map[string]string{}
	for _, c := range all { // the newest first
		if p.records[c.Call] == "" {
			p.records[c.Call] = c.Record
		}
		if c.Left && !known[c.Call] {
			p.unknown = append(p.unknown, c)
		}
	}
	return p, nil
}

// cut is an error where a journal lacks a call that left and may have written: its intent is
// written before its record, so that the end of the journal was taken away. Of calls that change
// nothing some may be lost with the process; they are made again. With sure a tool that nobody
// knows yet is none of those that may write.
func (x *Executor) cut(p *past, sure bool) error {
	var names []string
	for _, c := range p.unknown {
		var t *tool.Tool
		if x.cfg.Named != nil {
			t = x.cfg.Named(c.Tool)
		}
		if t == nil && sure || t != nil && t.Annotations.Repeats() {
			continue
		}
		names = append(names, fmt.Sprintf("call %s, %s", c.Call[strings.LastIndexByte(c.Call, '.')+1:], prose.Cut(c.Tool, 100)))
	}
	switch n := len(names); {
	case n == 0:
		return nil
	case n > 5:
		names = append(names[:5], fmt.Sprintf("and %d more", n-5))
	}
	return interrupted("%s, had been sent, as the audit record says, and its journal knows nothing of it: the end of the journal is gone. Look, before anything is sent again", strings.Join(names, "; "))
}

// whole is an error where a program that was taken up came to its end without what it did before.
func (r *run) whole() error {
	if !r.recall.Whole() {
		return errDiverged
	}
	return r.x.cut(&r.past, true)
}
