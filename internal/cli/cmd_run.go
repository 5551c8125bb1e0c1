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
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

// programBytes bounds a program that is read here; the executor has a bound of its own below it.
const programBytes = 4 << 20

func runCommand(a *app) *cobra.Command {
	var code, language, session string
	var timeout time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "run [FILE | -c CODE | -]",
		Short: "Run a program here, as an agent would",
		Long: `Runs a TypeScript or JavaScript program in a sandbox, with all the tools, as an agent's execute does. The program is a
file, the text after -c, or standard input. Its value goes to standard output as JSON, its console lines and a line on
the calls it made to standard error.`,
		Example: `  biplane run -c 'await search("send a message")'
  biplane run job.ts --timeout 5m
  echo 'github.list_issues({ repo: "a/b" })' | biplane run - --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.RunRequest{Code: code, Language: language, Session: session, TimeoutSeconds: timeout.Seconds(), Tokens: asJSON}
			switch given := cmd.Flags().Changed("code"); {
			case given && len(args) > 0:
				return usage("give either a file or -c, not both")
			case !given:
				if err := a.program(args, &req); err != nil {
					return err
				}
			}
			if session != "" {
				return usage("sessions are not available yet in this build: each program starts afresh")
			}
			if timeout < 0 {
				return usage("the timeout is %s: it must be more than 0", timeout)
			}
			return a.with(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				x, err := client.Run(ctx, req)
				if err != nil {
					return err
				}
				return a.execution(x, asJSON)
			})
		},
	}
	f := c.Flags()
	f.StringVarP(&code, "code", "c", "", "the program")
	f.StringVar(&language, "language", "", "typescript or javascript (default: by the file's name, else typescript)")
	f.StringVar(&session, "session", "", "session to run in (not available yet)")
	f.DurationVar(&timeout, "timeout", 0, "of the program's own time, tools' time not counted (default 1m)")
	f.BoolVar(&asJSON, "json", false, "print one object with the value, the error, the console, the calls and the figures")
	words(c, "language", "typescript", "javascript")
	return c
}

// program reads the program from the file that args name, or from standard input.
func (a *app) program(args []string, req *api.RunRequest) error {
	in, name := a.In, "standard input"
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if errors.Is(err, fs.ErrNotExist) {
			return usage("there is no file %s: to run text, write -c '%s'", args[0], short(args[0], 60))
		} else if err != nil {
			return usage("program: %v", err)
		}
		defer f.Close()
		in, name = f, args[0]
		switch ext := filepath.Ext(name); {
		case req.Language != "":
		case ext == ".js" || ext == ".mjs" || ext == ".cjs":
			req.Language = "javascript"
		case ext == ".py":
			req.Language = "python"
		}
	} else if f, ok := a.In.(*os.File); ok && len(args) == 0 {
		if fi, err := f.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
			return usage("no program: give a file, -c CODE, or - for standard input")
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, programBytes+1))
	if err != nil {
		return usage("program: %s: %v", name, err)
	}
	if len(text) > programBytes {
		return usage("program: %s has more than %d bytes", name, programBytes)
	}
	req.Code = string(text)
	return nil
}

// execution prints an execution. The exit code says whether the program ended well.
func (a *app) execution(x *api.Execution, asJSON bool) error {
	if asJSON {
		if err := a.json(x); err != nil {
			return err
		}
	} else {
		for _, l := range x.Console {
			lines(a.Err, l.Level+": ", safe(l.Text))
		}
		if x.Error == nil {
			value, err := compact(x.Value)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, value)
		} else {
			fmt.Fprintln(a.Err, safe(x.Error.Message))
			if x.Error.Frame != "" && !strings.Contains(x.Error.Message, x.Error.Frame) {
				fmt.Fprintln(a.Err, safe(x.Error.Frame))
			}
		}
		for _, n := range x.Notes {
			fmt.Fprintln(a.Err, safe(n))
		}
		if len(x.Calls) > 0 {
			fmt.Fprintln(a.Err, callsLine(x))
		}
	}
	switch {
	case x.Error == nil:
		return nil
	case x.Error.Kind == api.Denied:
		return told(exitDenied)
	}
	return told(exitFailed)
}

// compact writes a value on one line.
func compact(v json.RawMessage) (string, error) {
	if len(v) == 0 {
		return "null", nil
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// callsLine says in one line what calls a program made.
func callsLine(x *api.Execution) string {
	var names []string
	count, bytes, failed := map[string]int{}, 0, 0
	for _, c := range x.Calls {
		if count[c.Tool]++; count[c.Tool] == 1 {
			names = append(names, c.Tool)
		}
		bytes += c.Bytes
		if c.Error != "" {
			failed++
		}
	}
	for i, n := range names {
		if count[n] > 1 {
			names[i] = fmt.Sprintf("%s ×%d", n, count[n])
		}
		names[i] = clean(names[i])
	}
	plural := "s"
	if len(x.Calls) == 1 {
		plural = ""
	}
	line := fmt.Sprintf("%d call%s (%s), %d bytes of results, %d ms, tier %s", len(x.Calls), plural, strings.Join(names, ", "), bytes, x.MS, x.Tier)
	if failed > 0 {
		line += fmt.Sprintf(", %d failed", failed)
	}
	return line
}
