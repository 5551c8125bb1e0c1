package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// programBytes is the maximum size of a program that is read here. The executor has its own, lower
// limit.
const programBytes = 4 << 20

func runCommand(a *app) *cobra.Command {
	var code, language, session, after, tier, image string
	var timeout time.Duration
	var output string
	var asJSON, plan bool
	c := &cobra.Command{
		Use:   "run [FILE | -c CODE | -]",
		Short: "Run a program here, as an agent would",
		Long: `Runs a program in a sandbox, with all tools, as an agent's
execute does. The program is a file, the text after -c, or standard input. Its value is printed to standard
output as JSON. Its console output and a summary of its calls are printed to standard error. With
--session it finds the variables, functions and files of earlier programs of that session.

If policy requires approval for a call, and standard input is a terminal, you are asked right here.
Otherwise the program waits, the exit code is 3, and you decide with "biplane approvals".

With --plan nothing is written before a person has seen every write. The program first runs with real
reads and simulated writes, and "biplane approvals" shows the list of writes. Once it is approved, the
program runs again and may make exactly those writes.`,
		Example: `  biplane run -c 'await search("send a message")'
  biplane run job.ts --timeout 5m
  biplane run job.ts --plan
  biplane run --session work -c 'const seen = new Set()'
  biplane run --language python -c 'sum(range(10))'
  biplane run --tier process -c 'process.versions.node'
  biplane run --language bash -c 'tool search --limit 3 "send a message"'
  echo 'github.list_issues({ repo: "a/b" })' | biplane run - --json`,
		Args: atMost(1, "one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				output = "json"
			}
			if err := checkOutput(output); err != nil {
				return err
			}
			req := api.RunRequest{Code: code, Language: language, Session: session, After: after,
				TimeoutSeconds: timeout.Seconds(), Tier: tier, Image: image, Tokens: output != "table"}
			if plan {
				req.Mode = "plan"
			}
			switch given := cmd.Flags().Changed("code"); {
			case given && len(args) > 0:
				return usageError("give either a file or -c, not both")
			case !given:
				if err := a.readProgram(cmd.Context(), args, &req); err != nil {
					return err
				}
			}
			if strings.TrimSpace(req.Code) == "" {
				return usageError("the program is empty: give its text, for example biplane run -c 'return 1 + 1'")
			}
			if session == "" && cmd.Flags().Changed("session") {
				return usageError("the session name is empty: omit --session to run without a session")
			}
			if timeout < 0 || timeout == 0 && cmd.Flags().Changed("timeout") {
				return usageError("the timeout is %s: it must be more than 0", timeout)
			}
			return a.withEngine(cmd.Context(), true, &req, func(ctx context.Context, client *api.Client) error {
				return a.runRequest(ctx, client, req, output)
			})
		},
	}
	f := c.Flags()
	f.StringVarP(&code, "code", "c", "", "the program")
	f.StringVar(&language, "language", "",
		"typescript, javascript, python, bash, go, rust or java (default: by the file's name, else typescript)")
	f.StringVar(&session, "session", "", "session to run in, by its `name`; created by its first program")
	f.StringVar(&after, "after", "", "the failed `execution` that this program corrects: its calls are not repeated")
	f.BoolVar(&plan, "plan", false, "ask for approval of all writes of the program at once, before any is made")
	f.StringVar(&tier, "tier", "", "the weakest `tier` of its sandbox: wasm, or process for the host's interpreters")
	f.StringVar(&image, "image", "", "the `image` that its sandbox is created from (biplane image list)")
	f.DurationVar(&timeout, "timeout", 0, "time limit of the program, without the time of its tools (default 1m)")
	addOutput(c, &output)
	f.BoolVar(&asJSON, "json", false,
		"the same as -o json: one object with the value, error, console, calls and figures")
	completeWords(c, "language", "typescript", "javascript", "python", "bash", "go", "rust", "java")
	if err := c.RegisterFlagCompletionFunc("session", completer{a}.completeSessions(2)); err != nil {
		panic(err) // unknown flag: a mistake in this package
	}
	if err := c.RegisterFlagCompletionFunc("after", completer{a}.completeExecutions(2)); err != nil {
		panic(err) // as above
	}
	return c
}

// runRequest runs a program, asks the user at the terminal for approvals, and prints the result.
func (a *app) runRequest(ctx context.Context, client *api.Client, req api.RunRequest, output string) error {
	live := a.followRun(ctx, client, output)
	x, err := client.Run(live.ctx, req)
	live.stopFollowing()
	if err != nil {
		return err
	}
	live.dropShown(x)
	if x.State == api.StateWaiting && output == "table" {
		if x, err = a.inPlace(ctx, client, x); err != nil {
			return err
		}
	}
	if x.State == api.StateWaiting {
		return a.printWaiting(context.WithoutCancel(ctx), client, x, output)
	}
	return a.printExecution(x, output)
}

// readProgram reads the program from the file in args, or from standard input.
func (a *app) readProgram(ctx context.Context, args []string, req *api.RunRequest) error {
	var in io.Reader
	name := "standard input"
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if errors.Is(err, fs.ErrNotExist) {
			return usageError("no file %s: to run it as code, write -c '%s'", args[0], shortenLine(args[0], 60))
		} else if err != nil {
			return usageError("program: %v", err)
		}
		defer f.Close()
		in, name = f, args[0]
		switch ext := filepath.Ext(name); {
		case req.Language != "":
		case ext == ".js" || ext == ".mjs" || ext == ".cjs":
			req.Language = "javascript"
		case ext == ".py":
			req.Language = "python"
		case ext == ".sh" || ext == ".bash":
			req.Language = "bash"
		case ext == ".go" || ext == ".rs" || ext == ".java":
			req.Language = ext[1:]
		}
	} else if f, ok := a.In.(*os.File); ok && len(args) == 0 {
		if fi, err := f.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
			return usageError("no program: give a file, -c CODE, or - for standard input")
		}
	}
	if in == nil {
		in = a.readInput(ctx)
	}
	text, err := io.ReadAll(io.LimitReader(in, programBytes+1))
	switch {
	case ctx.Err() != nil:
		return &api.Error{Kind: api.Canceled, Message: "canceled"}
	case errors.Is(err, syscall.EISDIR):
		return usageError("program: %s is a folder: name a file", name)
	case err != nil:
		return usageError("program: %s: %v", name, err)
	}
	if len(text) > programBytes {
		return usageError("program: %s has more than %d bytes", name, programBytes)
	}
	req.Code = string(text)
	return nil
}

// printWaiting prints the approvals that an execution waits for.
func (a *app) printWaiting(ctx context.Context, client *api.Client, x *api.Execution, output string) error {
	if output != "table" {
		if err := a.printData(output, printableExecution(x)); err != nil {
			return err
		}
	}
	all, err := client.Approvals().ListFor(ctx, x.ID, false)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "execution %s waits for approval:\n", cleanLine(x.ID))
	for _, r := range all {
		if r.Kind == api.KindPlan {
			fmt.Fprintf(a.Err, "  %s\n", cleanLine(r.Reason))
			writesOf(a.Err, r.Writes, 100)
			continue
		}
		fmt.Fprintf(a.Err, "  %s %s (%s)\n", cleanLine(r.Tool), shortenLine(argumentsOf(&r), 100), cleanLine(r.Reason))
	}
	fmt.Fprintf(a.Err, "decide with: biplane approvals approve %s (or deny, or show one of them)\nwait for its "+
		"result with: biplane executions watch %[1]s\n", cleanLine(x.ID))
	return failSilently(exitDenied)
}

// printExecution prints an execution. It returns a failure if the program did not succeed.
func (a *app) printExecution(x *api.Execution, output string) error {
	if output != "table" {
		if err := a.printData(output, printableExecution(x)); err != nil {
			return err
		}
		for _, n := range x.Notes {
			fmt.Fprintln(a.Err, stripControls(n))
		}
	} else {
		for _, l := range x.Console {
			writeLines(a.Err, l.Level+": ", stripControls(l.Text))
		}
		if x.Error == nil {
			value, err := compactValue(x.Value)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, value)
		} else {
			fmt.Fprintln(a.Err, stripControls(failureText(x.Error)))
		}
		for _, n := range x.Notes {
			fmt.Fprintln(a.Err, stripControls(n))
		}
		if len(x.Calls) > 0 {
			fmt.Fprintln(a.Err, callsLine(x))
		}
	}
	for _, m := range x.Missing {
		fmt.Fprintln(a.Err, "protection not available here: "+stripControls(m))
	}
	if x.Rebuilt != "" {
		fmt.Fprintf(a.Err, "session %s was rebuilt by running its programs again with their recorded answers: %s\n",
			cleanLine(x.Session), cleanLine(x.Rebuilt))
	}
	if x.SessionNote != "" {
		fmt.Fprintln(a.Err, stripControls(x.SessionNote))
	} else if x.Session != "" && x.Error != nil {
		fmt.Fprintf(a.Err, "session %s is unchanged\n", cleanLine(x.Session))
	}
	if x.Error != nil && len(x.Calls) > 0 {
		fmt.Fprintf(a.Err, "to continue without repeating calls, run the corrected program with --after %s\n",
			cleanLine(x.ID))
	}
	switch {
	case x.Error == nil:
		return nil
	case x.Error.Kind == api.Denied:
		return failSilently(exitDenied)
	}
	return failSilently(exitFailed)
}

// failureText returns a program's error with its position.
func failureText(e *api.ProgramError) string {
	text := e.Message
	if e.Limit != "" {
		text = e.Kind + " (" + e.Limit + "): " + text
	}
	switch place := fmt.Sprintf("line %d, column %d", e.Line, e.Column); {
	case e.Line == 0:
	case strings.Contains(text, "\n"): // the last line may be about another problem
		text += "\nat " + place + ":"
	default:
		text += " (" + place + ")"
	}
	if e.Frame != "" {
		text += "\n" + e.Frame
	}
	if e.Hint != "" {
		text += "\nhint: " + e.Hint
	}
	return text
}

// An execution is the output of `run --json`, with exactly these keys. Unknown values are null.
type execution struct {
	Execution string            `json:"execution"`
	Value     json.RawMessage   `json:"value"`
	Error     *programError     `json:"error"`
	Console   []api.ConsoleLine `json:"console"`
	Calls     []call            `json:"calls"`
	Tier      string            `json:"tier"`
	Image     string            `json:"image,omitempty"`
	Session   string            `json:"session"`
	MS        int64             `json:"ms"`
	Tokens    *api.Tokens       `json:"tokens"`
}

type programError struct {
	Kind    string  `json:"kind"`
	Limit   *string `json:"limit"` // the limit that ended it
	Message string  `json:"message"`
	Line    *int    `json:"line"`
	Column  *int    `json:"column"`
	Frame   *string `json:"frame"`
}

type call struct {
	Tool  string  `json:"tool"`
	MS    int64   `json:"ms"`
	Bytes int     `json:"bytes"`
	Error *string `json:"error"`
	From  *string `json:"from"` // the execution whose journal answered it; the call was not repeated
}

func printableExecution(x *api.Execution) execution {
	out := execution{
		Execution: x.ID, Value: x.Value, Console: append([]api.ConsoleLine{}, x.Console...), Calls: []call{},
		Tier: x.Tier, Image: x.Image, Session: x.Session, MS: x.MS, Tokens: x.Tokens,
	}
	if e := x.Error; e != nil {
		out.Error = &programError{Kind: e.Kind, Limit: nonZero(e.Limit), Message: e.Message,
			Line: nonZero(e.Line), Column: nonZero(e.Column), Frame: nonZero(e.Frame)}
	}
	for _, c := range x.Calls {
		out.Calls = append(out.Calls,
			call{Tool: c.Tool, MS: c.MS, Bytes: c.Bytes, Error: nonZero(c.Error), From: nonZero(c.From)})
	}
	return out
}

// nonZero returns a pointer to v, nil if v is zero.
func nonZero[T comparable](v T) *T {
	var none T
	if v == none {
		return nil
	}
	return &v
}

// compactValue formats a value on one line.
func compactValue(v json.RawMessage) (string, error) {
	if len(v) == 0 {
		return "null", nil
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// notMade is the prefix of the error of a call that was refused before anything was sent.
const notMade = "not made: "

// callsLine describes in one line which calls a program made, and which were refused before
// anything was sent.
func callsLine(x *api.Execution) string {
	var made, refused, known []string
	bytes, failed, from := 0, 0, ""
	for _, c := range x.Calls {
		if c.From != "" {
			known, from = append(known, cleanLine(c.Tool)), cleanLine(c.From)
			continue
		}
		if strings.HasPrefix(c.Error, notMade) {
			refused = append(refused, cleanLine(c.Tool))
			continue
		}
		made = append(made, cleanLine(c.Tool))
		bytes += c.Bytes
		if c.Error != "" {
			failed++
		}
	}
	var parts []string
	if len(made) > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s), %s of results", text.Count(len(made), "call"), tallyNames(made),
			text.Count(bytes, "byte")))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", failed))
	}
	if len(refused) > 0 {
		parts = append(parts, fmt.Sprintf("%s not made (%s)", text.Count(len(refused), "call"), tallyNames(refused)))
	}
	if len(known) > 0 {
		parts = append(parts, fmt.Sprintf("%s not made again (%s), answered from %s", text.Count(len(known), "call"),
			tallyNames(known), from))
	}
	parts = append(parts, fmt.Sprintf("%d ms", x.MS), "tier "+x.Tier)
	if x.Image != "" {
		parts = append(parts, "image "+x.Image)
	}
	return strings.Join(parts, ", ")
}

// tallyNames lists each name once, with its count.
func tallyNames(names []string) string {
	n := map[string]int{}
	var out []string
	for _, name := range names {
		if n[name]++; n[name] == 1 {
			out = append(out, name)
		}
	}
	for i, name := range out {
		if n[name] > 1 {
			out[i] = fmt.Sprintf("%s ×%d", name, n[name])
		}
	}
	return strings.Join(out, ", ")
}
