package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

func watchCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "watch",
		Short: "Watch executions and requests for approval, and decide at a key",
		Long: `Shows the executions and the requests for approval of all agents, as they change. At a terminal it is a
view with these keys:

  j, k    select the next or the previous request
  space   show more of its arguments
  a, d    approve or deny it, once all of its arguments were shown
  q       leave, as Ctrl-C does

In a pipe, or with -o, it prints a line for each change, until it is interrupted.`,
		Example: "  biplane watch\n  biplane watch -o json | jq .approval",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if s := a.openScreen(); s != nil && !cmd.Flags().Changed("output") {
					return s.showView(ctx, client)
				}
				w := &watcher{app: a, output: output, seen: map[string]*watched{}, requests: map[string]api.Approval{}}
				return w.followAll(ctx, client, nil)
			})
		},
	}
	addOutput(c, &output)
	return c
}

// printRequests prints the requests for approval that came or were decided since the last time.
func (w *watcher) printRequests(ctx context.Context, client *api.Client) error {
	if w.requests == nil {
		return nil
	}
	list, err := client.Approvals().ListFor(ctx, "", false)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b api.Approval) int { return a.Created.Compare(b.Created) })
	pending := map[string]bool{}
	for i := range list {
		r := &list[i]
		pending[r.ID] = true
		if _, known := w.requests[r.ID]; known {
			continue
		}
		w.requests[r.ID] = *r
		if err := w.printRequest(r, r.Created); err != nil {
			return err
		}
	}
	for id := range w.requests {
		if pending[id] {
			continue
		}
		delete(w.requests, id)
		r, err := client.Approvals().Get(ctx, id)
		if isGone(err) {
			continue
		} else if err != nil {
			return err
		}
		if err := w.printRequest(r, cmp.Or(r.Decided, time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// printRequest prints the state of a request.
func (w *watcher) printRequest(r *api.Approval, at time.Time) error {
	what := fmt.Sprintf("request %s: %s %s: %s", r.ID, r.State, r.Tool, shortenLine(argumentsOf(r), 100))
	if r.DecidedBy != "" {
		what += " by " + r.DecidedBy
	}
	short := *r
	short.Program = ""
	return w.printEvent(event{Time: at, Execution: r.Execution, State: r.State, Approval: &short}, what)
}

// A screen is the live view at a terminal.
type screen struct {
	*app
	in, out *os.File

	requests   []api.Approval // pending, oldest first
	executions []api.ExecutionInfo
	selected   string        // the id of a request
	detail     *api.Approval // of the selected request
	from       int           // the first line of its arguments that is shown
	seen       bool          // all of its arguments were shown
	moved      bool          // it was selected because the one before was decided or withdrawn
	said       string        // about the last key
}

// openScreen returns a screen if standard input and output are a terminal, otherwise nil.
func (a *app) openScreen() *screen {
	in, ok := a.In.(*os.File)
	out, isFile := a.Out.(*os.File)
	if !ok || !isFile || !isatty.IsTerminal(in.Fd()) || !isatty.IsTerminal(out.Fd()) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &screen{app: a, in: in, out: out}
}

// The sequences that begin and end the view: the other screen, without a cursor.
const (
	beginView = "\x1b[?1049h\x1b[?25l"
	endView   = "\x1b[?25h\x1b[?1049l"
)

// showView shows the view until a key, a signal or an error ends it. The terminal is then as it
// was.
func (s *screen) showView(ctx context.Context, client *api.Client) error {
	old, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return err
	}
	fmt.Fprint(s.out, beginView)
	defer func() {
		fmt.Fprint(s.out, endView)
		_ = term.Restore(int(s.in.Fd()), old) // the terminal may be gone
	}()
	if err := s.fetchState(ctx, client); err != nil {
		return err
	}
	keys := readKeys(s.in)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		s.drawView()
		select {
		case key, ok := <-keys:
			if !ok || key == 'q' || key == 3 || key == 4 { // Ctrl-C, Ctrl-D
				return nil
			}
			if err := s.pressKey(ctx, client, key); err != nil {
				return err
			}
		case <-tick.C:
			if err := s.fetchState(ctx, client); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// readKeys returns a channel with the bytes that the user types. It is closed at the end of r. A
// read of a terminal can't be canceled: the goroutine ends with the process at the latest.
func readKeys(r io.Reader) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		var b [1]byte
		for {
			n, err := r.Read(b[:])
			if n == 1 {
				keys <- b[0]
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// shownExecutions is the maximum number of executions in the view.
const shownExecutions = 100

// fetchState fetches what the view shows.
func (s *screen) fetchState(ctx context.Context, client *api.Client) error {
	list, err := client.Approvals().ListFor(ctx, "", false)
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b api.Approval) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	s.requests = list
	page, err := client.Executions(ctx, api.ExecutionFilter{Limit: shownExecutions})
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	s.executions = page.Executions
	if s.findSelection() < 0 {
		had := s.selected != ""
		s.selected, s.detail = "", nil
		if len(list) > 0 {
			err = s.selectRequest(ctx, client, list[0].ID)
			s.moved = had
		}
	}
	return err
}

func (s *screen) findSelection() int {
	return slices.IndexFunc(s.requests, func(r api.Approval) bool { return r.ID == s.selected })
}

// selectRequest selects a request, and fetches all of it.
func (s *screen) selectRequest(ctx context.Context, client *api.Client, id string) error {
	r, err := client.Approvals().Get(ctx, id)
	if isGone(err) || ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	s.selected, s.detail, s.from, s.seen, s.moved = id, r, 0, false, false
	s.noteSeen()
	return nil
}

// pressKey does what a key means.
func (s *screen) pressKey(ctx context.Context, client *api.Client, key byte) error {
	s.said = ""
	at := s.findSelection()
	if at < 0 {
		return nil
	}
	switch key {
	case 'j', 'k':
		next := at + 1
		if key == 'k' {
			next = at - 1
		}
		if next >= 0 && next < len(s.requests) {
			return s.selectRequest(ctx, client, s.requests[next].ID)
		}
	case ' ':
		if lines := s.argumentLines(); s.from+s.pageSize() < len(lines) {
			s.from += s.pageSize()
		} else {
			s.from = 0
		}
		s.noteSeen()
	case 'a', 'd':
		return s.decideSelection(ctx, client, key == 'a')
	}
	return nil
}

// decideSelection approves or denies the selected request. An error is shown, and ends nothing.
func (s *screen) decideSelection(ctx context.Context, client *api.Client, approve bool) error {
	switch r := s.detail; {
	case r.Blocked != "":
		s.said = r.Blocked
	case s.moved: // the key may have been meant for the request before
		s.moved = false
		s.said = "this is another request: press the key again to decide it"
	case approve && !s.seen:
		s.said = "press space to see all of the arguments first"
	default:
		done, err := client.Approvals().Decide(ctx, r.ID, api.Decision{Approve: approve, Digest: r.Digest})
		if err != nil {
			s.said = toAPIError(err).Message
			return nil
		}
		s.said = done.ID + ": " + done.State
		return s.fetchState(ctx, client)
	}
	return nil
}

// screenSize returns the size of the terminal.
func (s *screen) screenSize() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width < 20 || height < 12 {
		return 80, 24
	}
	return width, height
}

// pageSize returns how many lines of arguments the view shows.
func (s *screen) pageSize() int {
	_, height := s.screenSize()
	return max(3, height/3)
}

// argumentLines returns the arguments of the selected request, wrapped to the width of the screen.
func (s *screen) argumentLines() (lines []string) {
	width, _ := s.screenSize()
	var text strings.Builder
	if s.detail.Kind == api.KindPlan {
		writesOf(&text, s.detail.Writes, 0)
	} else {
		text.WriteString(tool.Visible(s.detail.Arguments))
	}
	for line := range strings.SplitSeq(strings.TrimRight(text.String(), "\n"), "\n") {
		runes := []rune(cleanLine(line))
		for len(runes) > width-2 {
			lines, runes = append(lines, string(runes[:width-2])), runes[width-2:]
		}
		lines = append(lines, string(runes))
	}
	return lines
}

// noteSeen records whether the end of the arguments is shown. Pages are shown in order.
func (s *screen) noteSeen() {
	if s.detail != nil && s.from+s.pageSize() >= len(s.argumentLines()) {
		s.seen = true
	}
}

// drawView draws the whole view.
func (s *screen) drawView() {
	width, height := s.screenSize()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("biplane watch   j/k select   space more   a approve   d deny   q quit")
	add("")
	add("WAITING FOR A PERSON: %d", len(s.requests))
	at := s.findSelection()
	rows := max(3, height/5)
	first := max(0, min(at-rows/2, len(s.requests)-rows))
	for i := first; i < min(first+rows, len(s.requests)); i++ {
		r, mark := &s.requests[i], "  "
		if i == at {
			mark = "> "
		}
		add("%s%s  %s  %s  for %s", mark, r.ID, r.Tool, shortenLine(argumentsOf(r), 60), r.Principal)
	}
	if s.detail != nil && at >= 0 {
		lines = append(lines, s.describeSelection()...)
	}
	add("%s", s.said)
	add("EXECUTIONS")
	for _, e := range s.executions {
		add("  %s  %-11s %s  %d calls  %s", e.ID, e.State, formatMoment(e.Started), e.Calls,
			shortenLine(cmp.Or(e.Problem, e.Session), 60))
	}
	var out strings.Builder
	out.WriteString("\x1b[H")
	for i := range height {
		line := ""
		if i < len(lines) {
			line = cleanLine(lines[i])
		}
		if r := []rune(line); len(r) > width {
			line = string(r[:width-1]) + "…"
		}
		out.WriteString(line + "\x1b[K")
		if i < height-1 {
			out.WriteString("\r\n")
		}
	}
	fmt.Fprint(s.out, out.String())
}

// describeSelection returns the lines about the selected request.
func (s *screen) describeSelection() []string {
	r := s.detail
	lines := []string{"", r.Tool + ": " + r.Reason + " (policy " + r.Policy + ")"}
	if len(r.Labels) > 0 {
		lines = append(lines, "data read: "+strings.Join(r.Labels, ", "))
	}
	for _, f := range r.Findings {
		lines = append(lines, "likely fault: "+describeFinding(f))
	}
	if r.Blocked != "" {
		lines = append(lines, "not yours to decide: "+r.Blocked)
	}
	all := s.argumentLines()
	end := min(s.from+s.pageSize(), len(all))
	lines = append(lines, fmt.Sprintf("arguments, lines %d to %d of %d:", s.from+1, end, len(all)))
	for _, line := range all[s.from:end] {
		lines = append(lines, "  "+line)
	}
	return lines
}
