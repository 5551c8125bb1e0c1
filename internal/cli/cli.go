// Package cli implements the command line. Each command has its own file, cmd_<name>.go, and a row
// in the table here. Its story is in cmd/biplane/testdata/script.
//
// Results go to standard output, everything else to standard error. The exit codes are in the table
// exitMeanings.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A Process is the environment of a command.
type Process struct {
	Args    []string // without the program's name
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	Version string // of Biplane
}

// keyVariable names the environment variable with the key of the data folder.
const keyVariable = "BIPLANE_KEY"

// commands lists the commands by name, in the order of the help.
var commands = []struct {
	name string
	make func(*app) *cobra.Command
}{
	{"init", initCommand},
	{"demo", demoCommand},
	{"mcp", mcpCommand},
	{"serve", serveCommand},
	{"run", runCommand},
	{"call", callCommand},
	{"status", statusCommand},
	{"watch", watchCommand},
	{"logs", logsCommand},
	{"approvals", approvalsCommand},
	{"executions", executionsCommand},
	{"replay", replayCommand},
	{"sessions", sessionsCommand},
	{"sandboxes", sandboxesCommand},
	{"cp", cpCommand},
	{"skills", skillsCommand},
	{"tools", toolsCommand},
	{"image", imageCommand},
	{"policy", policyCommand},
	{"connect", connectCommand},
	{"audit", auditCommand},
	{"usage", usageCommand},
	{"keys", keysCommand},
	{"secrets", secretsCommand},
	{"config", configCommand},
	{"doctor", doctorCommand},
	{"import", importCommand},
	{"install", installCommand},
	{"uninstall", uninstallCommand},
	{"notify", notifyCommand},
	{"registry", registryCommand},
	{"backup", backupCommand},
	{"restore", restoreCommand},
	{"prune", pruneCommand},
	{"bench", benchCommand},
	{versionName, versionCommand},
	{engineName, engineCommand},
}

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitDenied = 3
	exitUnable = 4
)

// exitMeanings lists all exit codes, for the documents.
var exitMeanings = []struct {
	code    int
	meaning string
}{
	{exitDone, "done"},
	{exitFailed, "the program or the call failed, a comparison found a difference, or a named tool, execution or " +
		"other object does not exist"},
	{exitUsage, "wrong usage or configuration, such as a local file that is missing"},
	{exitDenied, "denied, or waiting for approval"},
	{exitUnable, "a required part failed, or is not available now: an upstream, the sandbox, the store"},
}

// exitCodes maps kinds of errors to exit codes.
var exitCodes = map[string]int{
	api.Invalid:     exitUsage,
	api.NotFound:    exitFailed,
	api.Conflict:    exitUnable,
	api.Denied:      exitDenied,
	api.Limit:       exitFailed,
	api.Timeout:     exitFailed,
	api.Unavailable: exitUnable,
	api.Canceled:    exitFailed,
	api.Internal:    exitUnable,
}

// app holds what the commands share.
type app struct {
	Process
	config    string
	dataDir   string
	logLevel  string
	logFormat string
	signals   *signals
}

// A failure is the error of a command with its exit code. If silent, its message has been printed
// already.
type failure struct {
	err    error
	code   int
	silent bool
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Main runs the command that the arguments name, and returns the exit code. An interrupt, or the
// end of the terminal, stops it cleanly. A second one ends the process.
func Main(p Process) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a := &app{Process: p, signals: newSignals(cancel)}
	if len(p.Args) == 0 || p.Args[0] != versionName { // nothing to stop there, and much of its time
		a.signals.startHandling()
		defer a.signals.stopHandling()
	}
	root := a.newRoot()
	root.SetArgs(p.Args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var f *failure
	if !errors.As(err, &f) { // from cobra: an unknown command, argument or flag
		f = &failure{err: usageError("%s (%s --help)", err, cmd.CommandPath()), code: exitUsage}
	}
	if !f.silent {
		a.printError(f.err)
	}
	return f.code
}

// NewCommand returns the command line with all its commands, for its description. The arguments of
// p are ignored.
func NewCommand(p Process) *cobra.Command {
	p.Args = nil
	return (&app{Process: p}).newRoot()
}

// printError prints an error. Errors in the configuration begin with their position.
func (a *app) printError(err error) {
	var c *config.Error
	if errors.As(err, &c) {
		fmt.Fprintln(a.Err, stripControls(c.Error()))
		return
	}
	fmt.Fprintln(a.Err, "biplane: "+stripControls(toAPIError(err).Message))
}

// toAPIError converts an error to the API's error type.
func toAPIError(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	return daemon.Explain(err)
}

// failWith wraps an error in a failure with its exit code.
func failWith(err error) error {
	if err == nil {
		return nil
	}
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	code, ok := exitCodes[toAPIError(err).Kind]
	if !ok {
		code = exitUnable
	}
	return &failure{err: err, code: code}
}

// failSilently returns a failure whose message has been printed.
func failSilently(code int) error {
	return &failure{err: errors.New("failed"), code: code, silent: true}
}

// failWithText returns a failure of what a command was asked to do, not of Biplane.
func failWithText(format string, args ...any) error {
	return &failure{err: usageError(format, args...), code: exitFailed}
}

// usageError returns an error about the use of a command.
func usageError(format string, args ...any) error {
	return &api.Error{Kind: api.Invalid, Message: fmt.Sprintf(format, args...)}
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "biplane",
		Short: "Run the programs that AI agents write against a team's tools",
		Long: `Biplane lets AI agents do their work by writing programs against all of a team's tools, in a sandbox,
under the team's policy, on the record.`,
		Example: `  biplane demo                         see Biplane work, offline, in under a minute
  biplane mcp --config .mcp.json       serve the MCP servers that an agent already uses
  biplane run -c 'await search("")'    run a program here`,
		Args:          noArguments,
		RunE:          showHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.Version,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(explainFlag)
	root.SetVersionTemplate("biplane {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "configuration `file` (default $BIPLANE_CONFIG, ./biplane.yaml, "+
		"./.mcp.json, or biplane/biplane.yaml in the user's configuration folder)")
	f.StringVar(&a.dataDir, "data-dir", "", "data `folder` (default $XDG_DATA_HOME/biplane, or ~/.local/share/biplane)")
	f.StringVar(&a.logLevel, "log-level", "",
		"debug, info, warn or error (default info for mcp and serve, error for the others)")
	f.StringVar(&a.logFormat, "log-format", "text", "text or json")
	completeWords(root, "log-level", "debug", "info", "warn", "error")
	completeWords(root, "log-format", "text", "json")
	// If the first argument is a command, add only that one: creating all of them takes longer than
	// some commands run.
	if len(a.Args) > 0 {
		for _, c := range commands {
			if c.name == a.Args[0] {
				root.AddCommand(c.make(a))
				root.CompletionOptions.DisableDefaultCmd = true
				wrapErrors(root)
				return root
			}
		}
	}
	for _, c := range commands {
		root.AddCommand(c.make(a))
	}
	addCompletion(root)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		help.Args, help.Example = commandTopic, "  biplane help run"
	}
	wrapErrors(root)
	return root
}

// addCompletion adds cobra's completion command, with an example for each shell.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion"})
	if err != nil || c == root {
		return
	}
	c.Args, c.RunE = noArguments, showHelp
	c.Example = "  source <(biplane completion bash)\n  biplane completion zsh > \"${fpath[1]}/_biplane\"\n  biplane " +
		"completion fish > ~/.config/fish/completions/biplane.fish"
	for _, shell := range c.Commands() {
		shell.Example = "  biplane completion " + shell.Name()
	}
}

// wrapErrors wraps the errors of all commands in failures.
func wrapErrors(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error { return failWith(run(cmd, args)) }
	}
	for _, sub := range c.Commands() {
		wrapErrors(sub)
	}
}

// completeWords sets the completions of a flag.
func completeWords(c *cobra.Command, flag string, w ...string) {
	if err := c.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // unknown flag: a mistake in this package
	}
}

// newLogger returns the logger, which writes to standard error.
func (a *app) newLogger(level string) (*slog.Logger, error) {
	if a.logLevel != "" {
		level = a.logLevel
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usageError("log level %q is not one of debug, info, warn, error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch a.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.Err, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Err, o)), nil
	}
	return nil, usageError("log format %q is not one of text, json", a.logFormat)
}

// daemonConfig loads the configuration, and returns the Config of a Daemon for it.
func (a *app) daemonConfig(level string) (daemon.Config, error) {
	log, err := a.newLogger(level)
	if err != nil {
		return daemon.Config{}, err
	}
	s, err := config.Load(a.config, daemon.StrongestTier())
	if err != nil {
		return daemon.Config{}, err
	}
	dir, err := config.DataFolder(a.dataDir)
	if err != nil {
		return daemon.Config{}, err
	}
	return daemon.Config{
		Settings: s, DataDir: dir, Key: os.Getenv(keyVariable), Version: a.Version, Engine: engineArgs(), Log: log,
	}, nil
}

// withClient runs f with a client of the process that owns the data folder, or of one started here.
func (a *app) withClient(ctx context.Context, f func(context.Context, *api.Client) error) error {
	return a.withEngine(ctx, false, nil, f)
}

// withEngine is like withClient. If runs is true, f runs a program. A process started here then
// resumes the executions that the previous one left, and waits for them. The parameter first is the
// program; nil if it has run before.
func (a *app) withEngine(ctx context.Context, runs bool, first *api.RunRequest,
	f func(context.Context, *api.Client) error) error {
	return a.attachedUntil(ctx, runs, first, f, nil)
}

// attachedUntil is like attached, then calls settled if it is not nil. If the process was started
// here, it first waits until nothing runs there. ctx may have been canceled by then.
func (a *app) attachedUntil(ctx context.Context, runs bool, first *api.RunRequest,
	f, settled func(context.Context, *api.Client) error) (err error) {
	cfg, err := a.daemonConfig("error")
	if err != nil {
		return err
	}
	cfg.Recover, cfg.Program = runs, first
	at, err := daemon.Attach(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := at.Close(); err == nil {
			err = cerr
		}
	}()
	if at.Notice != "" {
		fmt.Fprintln(a.Err, "biplane: "+at.Notice)
	}
	stop := a.sayWaiting(at)
	err = f(ctx, at.Client)
	stop()
	if runs && ctx.Err() == nil { // otherwise f's program was interrupted too, and is stopped
		at.Settle(ctx, func(n int) {
			fmt.Fprintf(a.Err, "biplane: waiting for %s that resumed when this process started; what is "+
				"interrupted resumes later\n", text.Count(n, "execution"))
		})
	}
	if settled != nil {
		err = errors.Join(err, settled(ctx, at.Client))
	}
	return err
}

// slow is how long to wait for servers to connect before saying so.
const slow = 3 * time.Second

// sayWaiting prints once which servers it is waiting for if they are slow, until stop is called.
func (a *app) sayWaiting(at *daemon.Attachment) (stop func()) {
	done, said := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(said)
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
			if names := at.Connecting(); len(names) > 0 {
				fmt.Fprintf(a.Err, "biplane: waiting for %s to connect (a first npx or uvx downloads its server, and "+
					"a large API takes seconds to read; start_wait in the configuration says how long to wait)\n",
					cleanLine(strings.Join(names, ", ")))
			}
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-said
	}
}

// writeLines writes texts, with mark at the start of each line.
func writeLines(w io.Writer, mark string, texts ...string) {
	for _, t := range texts {
		for l := range strings.SplitSeq(strings.TrimRight(t, "\n"), "\n") {
			fmt.Fprintln(w, strings.TrimRight(mark+l, " "))
		}
	}
}
