package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// statusReport is the output of `status -o json`.
type statusReport struct {
	Running    bool                `json:"running"` // a process ran before this command
	Process    *api.Status         `json:"process"`
	Upstreams  []api.Upstream      `json:"upstreams"`
	Sessions   []api.Session       `json:"sessions"`
	Approvals  []api.Approval      `json:"approvals"`
	Executions []api.ExecutionInfo `json:"executions"`
	Record     *api.AuditState     `json:"record"`
}

func statusCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show what runs, what waits for a person, and the record",
		Long: `Shows the process that owns the data folder, the upstreams, the executions that run or wait, the
sessions, the requests for approval, and the record. If no process runs, this command starts one for the
answer, and ends it afterwards.`,
		Example: "  biplane status\n  biplane status -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, fetchStatus, statusTable)
		},
	}
	addOutput(c, &output)
	return c
}

// isThisProcess reports whether the process that answers is this one.
func isThisProcess(s *api.Status) bool { return s.PID == os.Getpid() }

// fetchStatus fetches all parts of a statusReport.
func fetchStatus(c *api.Client, ctx context.Context) (r *statusReport, err error) {
	r = &statusReport{}
	if r.Process, err = c.Status(ctx); err != nil {
		return nil, err
	}
	r.Running = !isThisProcess(r.Process)
	if r.Upstreams, err = c.Upstreams(ctx); err != nil {
		return nil, err
	}
	if r.Sessions, err = c.Sessions().List(ctx); err != nil {
		return nil, err
	}
	if r.Approvals, err = c.Approvals().ListFor(ctx, "", false); err != nil {
		return nil, err
	}
	page, err := c.Executions(ctx, api.ExecutionFilter{States: []string{api.StateRunning, api.StateWaiting},
		Limit: api.MaxExecutions})
	if err != nil {
		return nil, err
	}
	r.Executions = page.Executions
	r.Record, err = c.Audit().ReadState(ctx)
	return r, err
}

func statusTable(w io.Writer, r *statusReport) {
	p := r.Process
	process := "none: this command started one for the answer"
	if r.Running {
		process = fmt.Sprintf("%d, biplane %s, since %s", p.PID, p.Version, formatMoment(p.Started))
	}
	rows := [][]string{{"process", process}, {"configuration", cmp.Or(p.Config, "none")},
		{"data folder", p.DataDir}, {"listens at", cmp.Or(p.Listen, "its socket only")},
		{"policy", p.Policy + ", mode " + p.Mode}, {"sandbox", p.Tier}}
	if p.PolicyProblem != "" {
		rows = append(rows, []string{"policy problem", p.PolicyProblem})
	}
	if l := p.Reload; l != nil && l.Problem != "" {
		rows = append(rows, []string{"configuration problem", "the changed file is not in force: " + l.Problem})
	}
	if l := p.Reload; l != nil && len(l.Restart) > 0 {
		rows = append(rows, []string{"needs a restart", strings.Join(l.Restart, ", ")})
	}
	states := map[string]int{}
	for _, s := range r.Sessions {
		states[s.State]++
	}
	var sessions []string
	for _, state := range []string{"running", "hot", "frozen", "suspended"} {
		if n := states[state]; n > 0 {
			sessions = append(sessions, strconv.Itoa(n)+" "+state)
		}
	}
	record := fmt.Sprintf("%s, %s", text.Count(int(r.Record.Size), "entry"), r.Record.Origin)
	if r.Record.Size != 1 {
		record = strings.Replace(record, "entrys", "entries", 1)
	}
	if r.Record.Error != "" {
		record += ": " + r.Record.Error
	}
	rows = append(rows, []string{"executions", describeExecutions(r.Executions)},
		[]string{"sessions", cmp.Or(strings.Join(sessions, ", "), "none")},
		[]string{"approvals", describeApprovals(r.Approvals)}, []string{"record", record})
	for _, s := range r.Record.Sinks {
		rows = append(rows, []string{"  checkpoints", describeSink(&s)})
	}
	writeColumns(w, rows...)
	fmt.Fprintln(w)
	rows = [][]string{{"UPSTREAM", "STATE", "TOOLS", "REASON"}}
	for _, u := range r.Upstreams {
		rows = append(rows, []string{u.Name, u.State, strconv.Itoa(u.Tools), shortenLine(u.Reason, 100)})
	}
	if len(r.Upstreams) == 0 {
		fmt.Fprintln(w, "No upstreams: the configuration names none.")
		return
	}
	writeColumns(w, rows...)
}

// describeSink describes where checkpoints go.
func describeSink(s *api.AuditSink) string {
	switch {
	case s.Failures > 0:
		return fmt.Sprintf("%s: failed %d times: %s", s.Name, s.Failures, s.Error)
	case s.Sent < 0:
		return s.Name + ": none sent yet"
	}
	return fmt.Sprintf("%s: sent at %s", s.Name, formatMoment(s.SentAt))
}

func describeExecutions(list []api.ExecutionInfo) string {
	waiting := 0
	for _, e := range list {
		if e.State == api.StateWaiting {
			waiting++
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d running, %d waiting for a person", len(list)-waiting, waiting)
}

func describeApprovals(list []api.Approval) string {
	if len(list) == 0 {
		return "none waiting"
	}
	return fmt.Sprintf("%d waiting (biplane approvals)", len(list))
}
