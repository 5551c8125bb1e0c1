// Package cli is the command line. Each command has a file of its own, cmd_<name>.go, and a row in
// the table here; its story is in cmd/biplane/testdata/script.
//
// Results go to standard output, all else to standard error. The exit code says how it went: 0
// done, 1 the program or call failed, 2 wrong usage or configuration, 3 denied or waiting for
// approval, 4 could not.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/prose"
)

// A Process is the process that a command runs in.
type Process struct {
	Args    []string // without the program's name
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	Version string // of Biplane
}

// The commands, in the order of the help, by their names.
var commands = []struct {
	name string
	make func(*app) *cobra.Command
}{
	{"demo", demoCommand},
	{"mcp", mcpCommand},
	{"serve", serveCommand},
	{"run", runCommand},
	{"approvals", approvalsCommand},
	{"executions", executionsCommand},
	{"replay", replayCommand},
	{"sessions", sessionsCommand},
	{"cp", cpCommand},
	{"skills", skillsCommand},
	{"tools", toolsCommand},
	{"policy", policyCommand},
	{"connect", connectCommand},
	{"audit", auditCommand},
	{"usage", usageCommand},
	{"keys", keysCommand},
	{"config", configCommand},
	{"doctor", doctorCommand},
	{"bench", benchCommand},
	{"version", versionCommand},
	{engineName, engineCommand},
}

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // the program or call failed
	exitUsage  = 2 // wrong usage or configuration
	exitDenied = 3 // denied, or waiting for approval
	exitUnable = 4 // could not: upstream, sandbox, store
)

// exitCodes is the table from kinds of errors to exit codes.
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

// app is what the commands share.
type app struct {
	Process
	config    string
	dataDir   string
	logLevel  string
	logFormat string
}

// A failure is an error that a command gives, with the exit code that it means. A silent one has
// been told already.
type failure struct {
	err    error
	code   int
	silent bool
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Main runs the command that the arguments name, and gives the exit code. An interrupt, or the end
// of the terminal, ends what is under way, cleanly; a second one ends the process.
func Main(p Process) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	context.AfterFunc(ctx, stop) // the second one has its usual effect
	a := &app{Process: p}
	root := a.root()
	root.SetArgs(p.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var f *failure
	if !errors.As(err, &f) { // of cobra: a command, an argument or a flag that there isn't
		f = &failure{err: usage("%s (biplane --help lists what there is)", err), code: exitUsage}
	}
	if !f.silent {
		a.complain(f.err)
	}
	return f.code
}

// complain tells of an error. One in the configuration has its own place in front.
func (a *app) complain(err error) {
	var c *config.Error
	if errors.As(err, &c) {
		fmt.Fprintln(a.Err, safe(c.Error()))
		return
	}
	fmt.Fprintln(a.Err, "biplane: "+safe(explain(err).Message))
}

// explain makes an error one that the tables here know.
func explain(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	return daemon.Explain(err)
}

// fail gives an error its exit code.
func fail(err error) error {
	if err == nil {
		return nil
	}
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	code, ok := exitCodes[explain(err).Kind]
	if !ok {
		code = exitUnable
	}
	return &failure{err: err, code: code}
}

// told is a failure of which all has been said.
func told(code int) error {
	return &failure{err: errors.New("failed"), code: code, silent: true}
}

// usage is an error in the use of a command.
func usage(format string, args ...any) error {
	return &api.Error{Kind: api.Invalid, Message: fmt.Sprintf(format, args...)}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "biplane",
		Short: "Run the programs that AI agents write against a team's tools",
		Long: `Biplane lets AI agents do their work by writing programs against all of a team's tools, in a sandbox, under the
team's policy, on the record.`,
		Example: `  biplane demo                         see Biplane work, offline, in under a minute
  biplane mcp --config .mcp.json       serve the MCP servers that an agent already uses
  biplane run -c 'await search("")'    run a program here`,
		Args:          none,
		RunE:          overview,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.Version,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetVersionTemplate("biplane {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "configuration `file` (default $BIPLANE_CONFIG, ./biplane.yaml, ./.mcp.json, or biplane/biplane.yaml in the user's configuration folder)")
	f.StringVar(&a.dataDir, "data-dir", "", "data `folder` (default $XDG_DATA_HOME/biplane, or ~/.local/share/biplane)")
	f.StringVar(&a.logLevel, "log-level", "", "debug, info, warn or error (default info for mcp and serve, error for the others)")
	f.StringVar(&a.logFormat, "log-format", "text", "text or json")
	words(root, "log-level", "debug", "info", "warn", "error")
	words(root, "log-format", "text", "json")
	// A command that stands first in the arguments is all that is needed: the others take longer to
	// make than some take to run.
	if len(a.Args) > 0 {
		for _, c := range commands {
			if c.name == a.Args[0] {
				root.AddCommand(c.make(a))
				finish(root)
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
		help.Args, help.Example = topic, "  biplane help run"
	}
	finish(root)
	return root
}

// addCompletion adds the command that cobra makes, with examples like all others.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion"})
	if err != nil || c == root {
		return
	}
	c.Args, c.RunE = none, overview
	c.Example = "  source <(biplane completion bash)\n  biplane completion zsh > \"${fpath[1]}/_biplane\"\n  biplane completion fish > ~/.config/fish/completions/biplane.fish"
	for _, shell := range c.Commands() {
		shell.Example = "  biplane completion " + shell.Name()
	}
}

// finish makes errors of all commands failures.
func finish(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error { return fail(run(cmd, args)) }
	}
	for _, sub := range c.Commands() {
		finish(sub)
	}
}

// words completes a flag.
func words(c *cobra.Command, flag string, w ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag: a mistake in this package
	}
}

// logger makes the log, on standard error.
func (a *app) logger(level string) (*slog.Logger, error) {
	if a.logLevel != "" {
		level = a.logLevel
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("log level %q is not one of debug, info, warn, error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	switch a.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.Err, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Err, o)), nil
	}
	return nil, usage("log format %q is not one of text, json", a.logFormat)
}

// daemonConfig reads the configuration, and says what a Daemon of it is made of.
func (a *app) daemonConfig(level string) (daemon.Config, error) {
	log, err := a.logger(level)
	if err != nil {
		return daemon.Config{}, err
	}
	s, err := config.Load(a.config)
	if err != nil {
		return daemon.Config{}, err
	}
	dir, err := config.DataFolder(a.dataDir)
	if err != nil {
		return daemon.Config{}, err
	}
	return daemon.Config{Settings: s, DataDir: dir, Version: a.Version, Engine: engineArgs(), Log: log}, nil
}

// with runs f with a client of the process that owns the data folder, or of one begun here.
func (a *app) with(ctx context.Context, f func(context.Context, *api.Client) error) error {
	return a.attached(ctx, false, nil, f)
}

// attached is with. runs says that f runs a program: a process begun here then takes up the
// executions that the one before it left, and waits for them. first is the program; nil where it
// has run before.
func (a *app) attached(ctx context.Context, runs bool, first *api.RunRequest, f func(context.Context, *api.Client) error) error {
	return a.attachedUntil(ctx, runs, first, f, nil)
}

// attachedUntil is attached, and calls settled, unless it is nil, when nothing runs any more in a
// process begun here, or at once where another process answers. ctx may have been canceled by then.
func (a *app) attachedUntil(ctx context.Context, runs bool, first *api.RunRequest, f, settled func(context.Context, *api.Client) error) (err error) {
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
	if runs && ctx.Err() == nil { // else what runs is its own, which is stopped
		at.Settle(ctx, func(n int) {
			fmt.Fprintf(a.Err, "biplane: waiting for %s that went on when this process began; they go on later if it is interrupted\n", prose.Count(n, "execution"))
		})
	}
	if settled != nil {
		err = errors.Join(err, settled(ctx, at.Client))
	}
	return err
}

// slow is how long servers may take to connect before it is said that they are waited for.
const slow = 3 * time.Second

// sayWaiting says which servers are waited for, once, if they take long; until stop.
func (a *app) sayWaiting(at *daemon.Attachment) (stop func()) {
	done, said := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(said)
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
			if names := at.Connecting(); len(names) > 0 {
				fmt.Fprintf(a.Err, "biplane: waiting for %s to connect (a first npx or uvx downloads its server; start_wait in the configuration says how long to wait)\n", clean(strings.Join(names, ", ")))
			}
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-said
	}
}

// glance is with for the completion of a shell: what there is already is looked at, for a moment,
// and nothing is said.
func (a *app) glance(ctx context.Context, f func(context.Context, *api.Client) error) {
	if dir, err := config.DataFolder(a.dataDir); err != nil {
		return
	} else if _, err := os.Stat(dir); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	quiet := *a
	quiet.Err = io.Discard
	_ = quiet.with(ctx, f) // a shell shows no errors
}

// lines writes texts, each with a mark in front of its lines.
func lines(w io.Writer, mark string, texts ...string) {
	for _, t := range texts {
		for l := range strings.SplitSeq(strings.TrimRight(t, "\n"), "\n") {
			fmt.Fprintln(w, strings.TrimRight(mark+l, " "))
		}
	}
}
