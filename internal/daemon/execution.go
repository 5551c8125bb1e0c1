package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

// recover resumes the unfinished executions before any new work starts, so that they get their
// sessions first. What can't be resumed is logged, and left as it is for the next process.
func (d *Daemon) recover(ctx context.Context) {
	if !d.cfg.Recover {
		return
	}
	d.life.resumed.Do(func() {
		err := d.executor.Recover(ctx)
		if isRestored(d.cfg.DataDir) {
			err = errors.Join(err, d.approvals.WithdrawApprovals(ctx))
		}
		if err == nil {
			err = endRestoration(d.cfg.DataDir)
		}
		if err != nil {
			d.log.Error("unfinished executions not recovered", "err", err)
		}
		if err := d.sweepApprovals(ctx); err != nil {
			d.log.Error("requests of ended executions not withdrawn", "err", err)
		}
	})
}

// Settle waits until every execution of this process's own Daemon has ended or waits only for
// approvals, or ctx is done. It waits for calls under way, however slow their tools: leaving would
// lose their results. It calls waiting once, with the number of executions, if there is anything to
// wait for.
func (a *Attachment) Settle(ctx context.Context, waiting func(executions int)) {
	own := a.ownDaemon()
	if own == nil {
		return
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; told = true {
		n := own.d.executor.Busy()
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

// RecordedCalls returns the recorded calls of an execution that started at began, newest first.
func (d control) RecordedCalls(ctx context.Context, execution string, began time.Time) (out []executor.Recorded,
	err error) {
	q := audit.Query{Kind: audit.KindCall, Execution: execution, Since: began.Add(-audit.ClockSlack), Limit: 1000}
	for {
		page, err := d.audit.Records(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			r := &page[i]
			if err := r.CheckIntact(); err != nil {
				return nil, err
			}
			out = append(out, executor.Recorded{Call: r.Subject.Call, Record: r.ID, Tool: r.Subject.Tool,
				Left: wasSent(r)})
		}
		if len(page) < q.Max() {
			return out, nil
		}
		q.Before = page[len(page)-1].ID
	}
}

// wasSent reports whether a call was sent or about to be, judging by its record. An allowed call
// was sent, unless its intent could not be written. A call that needed approval was sent if its
// record has a result.
func wasSent(r *audit.Record) bool {
	switch r.End.Outcome {
	case audit.OK, audit.ToolError:
		return r.Decision.Effect == string(policy.Allow) || r.Decision.Effect == string(policy.Ask)
	case audit.Failed:
		return r.Decision.Effect == string(policy.Allow) && r.End.ErrorKind != tool.Internal
	}
	return r.Decision.Effect == string(policy.Allow)
}

// warmExecute compiles the schema of execute, so that the first program need not wait for it.
func (d *Daemon) warmExecute() {
	if e, err := d.catalog.View().Resolve(tool.Own + ".execute"); err == nil {
		_ = e.Validate([]byte(`{"code":"0"}`)) // callers of execute get the error
	}
}
