package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// sessionExt is the default extension of exported sessions.
const sessionExt = ".session"

func sessionsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "sessions",
		Short: "Show and manage sessions, which keep state between programs",
		Long: `A session keeps the variables, functions, timers, promises and files of its programs. The first program
that names it creates it (biplane run --session NAME, or an agent's execute). An unused session uses no
memory, and survives a restart.`,
		Example: `  biplane sessions
  biplane sessions show work
  biplane sessions fork work experiment
  biplane sessions suspend work
  biplane sessions export work -o work.session --passphrase-file secret.txt
  biplane sessions end work`,
		Args: noArguments,
	}
	list := sessionsListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, sessionsShowCommand(a), sessionsEndCommand(a), sessionsForkCommand(a),
		sessionsSuspendCommand(a), sessionsResumeCommand(a),
		sessionsExportCommand(a), sessionsImportCommand(a))
	return c
}

func sessionsListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the sessions",
		Example: "  biplane sessions list\n  biplane sessions list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, listOf((*api.Client).Sessions, api.SessionClient.List), tableOfSessions)
		},
	}
	addOutput(c, &output)
	return c
}

func tableOfSessions(w io.Writer, all []api.Session) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No sessions: biplane run --session NAME creates one.")
		return
	}
	rows := [][]string{{"SESSION", "STATE", "TIER", "LANGUAGES", "PROGRAMS", "FILES", "STORED", "HAS READ",
		"LAST USED"}}
	for _, s := range all {
		rows = append(rows, []string{s.Name, s.State, orDash(s.Tier), strings.Join(s.Languages, ", "),
			strconv.Itoa(s.Programs), strconv.Itoa(s.Files),
			bytesText(s.StateBytes + s.FileBytes), orDash(strings.Join(s.Labels, ", ")), formatMoment(s.Used)})
	}
	writeColumns(w, rows...)
}

func showSession(w io.Writer, s *api.Session) {
	rebuild := bytesText(s.JournalBytes)
	if s.JournalBytes == 0 {
		rebuild = "none: it can't be rebuilt in another build of the engine"
	}
	writeColumns(w, [][]string{
		{"session", s.Name}, {"owner", s.Owner}, {"state", s.State}, {"languages", strings.Join(s.Languages, ", ")},
		{"programs", strconv.Itoa(s.Programs)}, {"memory, packed", bytesText(s.StateBytes)},
		{"files", text.Count(s.Files, "file") + ", " + bytesText(s.FileBytes)},
		{"created", formatMoment(s.Created)}, {"last used", formatMoment(s.Used)}, {"ends unless used",
			formatMoment(s.Expires)},
		{"tier", orDash(s.Tier)}, {"engine", s.Engine}, {"journal", rebuild},
		{"has read", orDash(strings.Join(s.Labels, ", "))},
	}...)
}

// formatMoment formats a time in the user's time zone.
func formatMoment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// bytesText formats a number of bytes.
func bytesText(n int64) string {
	if n < 1000 {
		return text.Count(int(n), "byte")
	}
	return text.Size(n)
}

// printSession prints the result of an operation on a session.
func (a *app) printSession(output, did string, s *api.Session) error {
	if s.Note != "" {
		fmt.Fprintln(a.Err, "biplane: "+cleanLine(s.Note))
	}
	return a.printOutput(output, s, func(w io.Writer) { fmt.Fprintln(w, cleanLine(did)) })
}

func sessionsShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a session",
		Example:           "  biplane sessions show work\n  biplane sessions show work -o json",
		Args:              exactlyOne("NAME", "the name of a session"),
		ValidArgsFunction: completer{a}.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return printOne(a, cmd, output, getterOf((*api.Client).Sessions, api.SessionClient.Get), args[0],
				showSession)
		},
	}
	addOutput(c, &output)
	return c
}

func sessionsEndCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "end NAME",
		Short:             "End a session, and delete its state and files",
		Example:           "  biplane sessions end work",
		Args:              exactlyOne("NAME", "the name of a session"),
		ValidArgsFunction: completer{a}.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if err := client.Sessions().End(ctx, args[0]); err != nil {
					return err
				}
				return a.printOutput(output, map[string]string{"ended": args[0]},
					func(w io.Writer) { fmt.Fprintf(w, "session %s is ended\n", cleanLine(args[0])) })
			})
		},
	}
	addOutput(c, &output)
	return c
}

func sessionsForkCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "fork FROM TO",
		Short: "Make an independent copy of a session",
		Long: `Creates the session TO as a copy of FROM, with its own random numbers. Changes in one ` +
			`don't affect the other.`,
		Example:           "  biplane sessions fork work experiment",
		Args:              exactlyTwo("FROM", "TO", "the names of a session and of its copy"),
		ValidArgsFunction: completer{a}.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				s, err := client.Sessions().Fork(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return a.printSession(output, "session "+s.Name+" is a copy of "+args[0], s)
			})
		},
	}
	addOutput(c, &output)
	return c
}

func sessionsSuspendCommand(a *app) *cobra.Command {
	return sessionCommand(a, &cobra.Command{
		Use:   "suspend NAME",
		Short: "Move a session from memory to disk",
		Long: `Moves a session that no program uses from memory to disk. Idle sessions are moved after a while anyway.
The next program continues it.`,
		Example: "  biplane sessions suspend work",
	}, "suspended", api.SessionClient.Suspend)
}

func sessionsResumeCommand(a *app) *cobra.Command {
	return sessionCommand(a, &cobra.Command{
		Use:   "resume NAME",
		Short: "Load a session into memory",
		Long: `Loads a suspended session into memory, so that its next program begins at once. Programs do that
anyway. The owner of the data folder must be running (biplane serve), or the session is suspended again
when this command ends.`,
		Example: "  biplane sessions resume work",
	}, "in memory", api.SessionClient.Resume)
}

// sessionCommand completes a command that changes the state of a session.
func sessionCommand(a *app, c *cobra.Command, state string,
	change func(api.SessionClient, context.Context, string) (*api.Session, error)) *cobra.Command {
	var output string
	c.Args, c.ValidArgsFunction = exactlyOne("NAME", "the name of a session"), completer{a}.completeSessions(1)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
			s, err := change(client.Sessions(), ctx, args[0])
			if err != nil {
				return err
			}
			return a.printSession(output, "session "+s.Name+" is "+state, s)
		})
	}
	addOutput(c, &output)
	return c
}

// exactlyTwo accepts two arguments. The error for a missing one describes both.
func exactlyTwo(first, second, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("%s needs %s and %s, %s: %s", commandName(c), first, second, what, firstExample(c))
		}
		return nil
	}
}

func sessionsExportCommand(a *app) *cobra.Command {
	var file, passphrase string
	c := &cobra.Command{
		Use:   "export NAME",
		Short: "Export a session as one file",
		Long: `Writes a session, including its files, to one encrypted and authenticated file. With a passphrase it can
be imported anywhere; without one, only into this data folder. The passphrase is the first line of a
file.`,
		Example: `  biplane sessions export work
  biplane sessions export work -o backup/work.session --passphrase-file secret.txt
  biplane sessions export work -o - | gpg --encrypt > work.gpg`,
		Args:              exactlyOne("NAME", "the name of a session"),
		ValidArgsFunction: completer{a}.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := readPassphrase(passphrase)
			if err != nil {
				return err
			}
			if file == "" {
				file = args[0] + sessionExt
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if file == "-" {
					return client.Sessions().Export(ctx, args[0], secret, a.Out)
				}
				size, err := writeWhole(file, 0o600, func(w io.Writer) error {
					return client.Sessions().Export(ctx, args[0], secret, w)
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "%s, %s\n", cleanLine(file), bytesText(size))
				return nil
			})
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "", "`file` to write, - for standard output (default NAME"+
		sessionExt+")")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase in its first line")
	return c
}

// maxPassphrase is the maximum size of a passphrase, in bytes.
const maxPassphrase = 1024

// readPassphrase returns the first line of a file; empty if file is empty.
func readPassphrase(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", usageError("passphrase: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPassphrase+2))
	if err != nil {
		return "", usageError("passphrase: %v", err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	switch line = bytes.TrimSuffix(line, []byte("\r")); {
	case len(line) == 0:
		return "", usageError("passphrase: the first line of %s is empty", file)
	case len(line) > maxPassphrase:
		return "", usageError("passphrase: the first line of %s has more than %d bytes", file, maxPassphrase)
	}
	return string(line), nil
}

// writeWhole writes a file atomically and returns its size.
func writeWhole(path string, mode fs.FileMode, write func(io.Writer) error) (int64, error) {
	unable := func(err error) error {
		return &api.Error{Kind: api.Unavailable, Message: "write " + path + ": " + err.Error()}
	}
	f, err := atomicfile.Create(path, mode)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, usageError("write %s: there is no folder %s: create it first", path, filepath.Dir(path))
	} else if err != nil {
		return 0, unable(err)
	}
	defer f.Discard()
	if err := write(f); err != nil {
		var e *api.Error
		if errors.As(err, &e) {
			return 0, err
		}
		return 0, unable(err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, unable(err)
	}
	if err := f.Commit(); err != nil {
		return 0, unable(err)
	}
	return info.Size(), nil
}

func sessionsImportCommand(a *app) *cobra.Command {
	var output, name, passphrase string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Create a session from an exported file",
		Long: `Creates a session from a file written by "sessions export". A changed file is refused. A file of another
build of the engine is rebuilt from the session's journal if possible, and the output says so.`,
		Example: `  biplane sessions import work.session
  biplane sessions import backup/work.session --name restored --passphrase-file secret.txt`,
		Args: exactlyOne("FILE", "an exported session, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := readPassphrase(passphrase)
			if err != nil {
				return err
			}
			var in io.Reader
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usageError("import: %v", err)
				}
				defer f.Close()
				if i, err := f.Stat(); err == nil && i.IsDir() {
					return usageError("import: %s is a directory: give the file that sessions export wrote", args[0])
				}
				in = f
			}
			switch {
			case name == "" && args[0] == "-":
				return usageError("import from standard input needs --name, the name of the session")
			case name == "":
				name = strings.TrimSuffix(filepath.Base(args[0]), sessionExt)
			}
			if in == nil {
				in = a.readInput(cmd.Context())
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				s, err := client.Sessions().Import(ctx, name, secret, io.NopCloser(in))
				if err != nil {
					return err
				}
				return a.printSession(output,
					fmt.Sprintf("session %s: %s, %s", s.Name, text.Count(s.Programs, "program"),
						text.Count(s.Files, "file")), s)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "`name` of the session (default: the name in the file)")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase in its first line")
	addOutput(c, &output)
	return c
}

// sessionNames returns the names of the sessions, for completion.
func (a completer) sessionNames(ctx context.Context) (names []string) {
	a.forCompletion(ctx, func(ctx context.Context, client *api.Client) error {
		all, err := client.Sessions().List(ctx)
		for _, s := range all {
			names = append(names, s.Name)
		}
		return err
	})
	return names
}

// completeSessions completes the names of sessions in the first n arguments.
func (a completer) completeSessions(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		var out []string
		if len(args) < n {
			for _, name := range a.sessionNames(cmd.Context()) {
				if strings.HasPrefix(name, prefix) {
					out = append(out, name)
				}
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
