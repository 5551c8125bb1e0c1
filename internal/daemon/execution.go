package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/executor"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// recover takes up what had not ended, before anything new comes: its sessions are its own first.
// What can't be taken up is said in the log, and stays as it is for the next process.
func (d *Daemon) recover(ctx context.Context) {
	if !d.cfg.Recover {
		return
	}
	d.takeUp.Do(func() {
		if err := d.executor.Recover(ctx); err != nil {
			d.log.Error("executions that had not ended could not be taken up", "err", err)
		}
		if err := d.sweepApprovals(ctx); err != nil {
			d.log.Error("requests of executions that have ended could not be withdrawn", "err", err)
		}
	})
}

// Settle waits until every execution of this process's own Daemon has ended or waits for nothing
// but people, or ctx is done. A call that is being made is waited for, however slow its tool: to
// leave it would be to lose its answer. waiting is called once, with the number of executions, if
// there is anything to wait for.
func (a *Attachment) Settle(ctx context.Context, waiting func(executions int)) {
	if a.own == nil {
		return
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; told = true {
		n := a.own.d.executor.Busy()
		if n == 0 {
			return
		}
		if !told {
			waiting(n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// recorded gives what the record has of the calls of an execution that began at a time, the newest
// first.
func (d *Daemon) recorded(ctx context.Context, execution string, began time.Time) (out []executor.Recorded, err error) {
	q := audit.Query{Kind: audit.KindCall, Execution: execution, Since: began.Add(-audit.ClockSlack), Limit: 1000}
	for {
		page, err := d.audit.Records(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			r := &page[i]
			if err := r.Intact(); err != nil {
				return nil, err
			}
			out = append(out, executor.Recorded{Call: r.Subject.Call, Record: r.ID, Tool: r.Subject.Tool, Left: left(r)})
		}
		if len(page) < q.Max() {
			return out, nil
		}
		q.Before = page[len(page)-1].ID
	}
}

// left reports whether a call was sent, as far as its record tells, or was about to be. What was
// allowed was, but where its intent could not be written down; of what a person was asked about it
// is known by its end only.
func left(r *audit.Record) bool {
	switch r.End.Outcome {
	case audit.OK, audit.ToolError:
		return r.Decision.Effect == string(policy.Allow) || r.Decision.Effect == string(policy.Ask)
	case audit.Failed:
		return r.Decision.Effect == string(policy.Allow) && r.End.ErrorKind != tool.Internal
	}
	return r.Decision.Effect == string(policy.Allow)
}
