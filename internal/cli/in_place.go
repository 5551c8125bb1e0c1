package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A person is the user at the terminal who is asked to decide requests there.
type person struct {
	out   io.Writer
	lines <-chan string
	tty   io.Closer // nil: nothing to close
}

// personAtTerminal returns the user at the terminal; nil if there is none. Standard input must be a
// terminal: piped input and /dev/null can't be an answer to the question.
func (a *app) personAtTerminal() *person {
	in, ok := a.In.(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return nil
	}
	if f, ok := a.Err.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return &person{f, lineReader(in), nil}
	}
	// standard error is redirected, so the question would not be visible there
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return &person{tty, lineReader(in), tty}
}

// inPlace asks the user at the terminal to decide the requests of an execution. It ends when the
// execution has ended, or when the user leaves a request for later. It returns the last known state
// of the execution.
func (a *app) inPlace(ctx context.Context, client *api.Client, x *api.Execution) (*api.Execution, error) {
	p := a.personAtTerminal()
	if p == nil {
		return x, nil
	}
	if p.tty != nil {
		defer p.tty.Close()
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		all, err := client.Approvals().ListFor(ctx, x.ID, false)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b api.Approval) int { return a.Created.Compare(b.Created) })
		for _, r := range all {
			if later, err := p.askDecision(ctx, client, r.ID); err != nil || later {
				return x, err
			}
		}
		d, err := client.Journal(ctx, x.ID)
		if err != nil {
			return nil, err
		}
		if !isRunning(d.State) {
			return client.Execution(ctx, x.ID)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return x, context.Cause(ctx)
		}
	}
}

// askDecision shows a request and asks for a decision. later reports that none was made.
func (p *person) askDecision(ctx context.Context, client *api.Client, id string) (later bool, _ error) {
	r, err := client.Approvals().Get(ctx, id)
	if err != nil {
		return false, err
	}
	if r.Blocked != "" {
		fmt.Fprintf(p.out, "\n%s waits for another approver: %s\n", cleanLine(r.Tool), cleanLine(r.Blocked))
		return true, nil
	}
	fmt.Fprintf(p.out, "\n%s waits for you: %s (policy %s)\n", cleanLine(r.Tool), cleanLine(r.Reason),
		cleanLine(r.Policy))
	if len(r.Labels) > 0 {
		fmt.Fprintf(p.out, "data read: %s\n", cleanLine(strings.Join(r.Labels, ", ")))
	}
	question := "Make this call?"
	if r.Kind == api.KindPlan {
		writesOf(p.out, r.Writes, 0)
		question = "Make all of these calls?"
	} else {
		writeLines(p.out, "  ", tool.Visible(r.Arguments))
	}
	for {
		fmt.Fprint(p.out, question+" [y]es, [n]o, or Enter to decide later: ")
		var said string
		select {
		case line, ok := <-p.lines:
			if !ok {
				fmt.Fprintln(p.out)
				return true, nil
			}
			said = strings.ToLower(line)
		case <-ctx.Done():
			fmt.Fprintln(p.out)
			return true, nil
		}
		switch said {
		case "":
			return true, nil
		case "y", "yes", "n", "no":
			_, err := client.Approvals().Decide(ctx, id, api.Decision{Approve: said[0] == 'y', Digest: r.Digest})
			return false, err
		}
	}
}
