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

// A person is whoever sits at the terminal that a program was run from, and decides there on what
// it asks.
type person struct {
	out   io.Writer
	lines <-chan string
	close func() error
}

// person gives who sits at the terminal; nil where there is none. Only a terminal on standard input
// is one: what is piped in, and /dev/null, was not typed after the question was read.
func (a *app) person() *person {
	in, ok := a.In.(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return nil
	}
	if f, ok := a.Err.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return &person{f, lineReader(in), func() error { return nil }}
	}
	// standard error goes elsewhere: nobody would see the question there
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return &person{tty, lineReader(in), tty.Close}
}

// inPlace has the person at the terminal decide on what an execution waits for, until it has ended
// or they leave something for later. It gives the execution as it is then.
func (a *app) inPlace(ctx context.Context, client *api.Client, x *api.Execution) (*api.Execution, error) {
	p := a.person()
	if p == nil {
		return x, nil
	}
	defer p.close()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		all, err := client.Approvals(ctx, x.ID, false)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b api.Approval) int { return a.Created.Compare(b.Created) })
		for _, r := range all {
			if later, err := p.decide(ctx, client, r.ID); err != nil || later {
				return x, err
			}
		}
		d, err := client.Journal(ctx, x.ID)
		if err != nil {
			return nil, err
		}
		if !going(d.State) {
			return client.Execution(ctx, x.ID)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return x, context.Cause(ctx)
		}
	}
}

// decide shows a request and takes the decision on it; later where there is none.
func (p *person) decide(ctx context.Context, client *api.Client, id string) (later bool, _ error) {
	r, err := client.Approval(ctx, id)
	if err != nil {
		return false, err
	}
	if r.Blocked != "" {
		fmt.Fprintf(p.out, "\n%s waits for another person: %s\n", clean(r.Tool), clean(r.Blocked))
		return true, nil
	}
	fmt.Fprintf(p.out, "\n%s waits for you: %s (policy %s)\n", clean(r.Tool), clean(r.Reason), clean(r.Policy))
	if len(r.Labels) > 0 {
		fmt.Fprintf(p.out, "data read: %s\n", clean(strings.Join(r.Labels, ", ")))
	}
	question := "Make this call?"
	if r.Kind == api.KindPlan {
		writesOf(p.out, r.Writes, 0)
		question = "Make all of these calls?"
	} else {
		lines(p.out, "  ", tool.Visible(r.Arguments))
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
			_, err := client.Decide(ctx, id, api.Decision{Approve: said[0] == 'y', Digest: r.Digest})
			return false, err
		}
	}
}
