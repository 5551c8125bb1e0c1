package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

func sandboxesCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "sandboxes",
		Short: "Create and use sandboxes of your own",
		Long: `A sandbox of your own is an isolated Linux system with files that are kept. Commands, background
processes and files in it are for you and your agents: each sandbox is also an MCP server at
/mcp/sandboxes/ID. An idle sandbox is put on standby. Its processes end with the biplane process that
started them: run "biplane serve" to keep them. Its files stay until it is ended.`,
		Example: `  biplane sandboxes create work
  biplane sandboxes exec work -- python3 -c 'print(6 * 7)'
  biplane sandboxes cp data.csv work:data.csv
  biplane sandboxes end work`,
		Args: noArguments,
	}
	list := sandboxesListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, sandboxesShowCommand(a), sandboxesCreateCommand(a), sandboxesExecCommand(a),
		sandboxesCopyCommand(a), sandboxesRemoveCommand(a), sandboxesLogsCommand(a), sandboxesStopCommand(a),
		sandboxesPreviewCommand(a), sandboxesSuspendCommand(a), sandboxesResumeCommand(a), sandboxesEndCommand(a))
	return c
}

func sandboxesListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List your sandboxes",
		Example: "  biplane sandboxes list\n  biplane sandboxes list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, listSandboxes, tableOfSandboxes)
		},
	}
	addOutput(c, &output)
	return c
}

func listSandboxes(c *api.Client, ctx context.Context) ([]api.OwnSandbox, error) {
	return c.OwnSandboxes().ListSandboxes(ctx)
}

func readSandbox(c *api.Client, ctx context.Context, name string) (*api.OwnSandbox, error) {
	return c.OwnSandboxes().ShowSandbox(ctx, name)
}

func tableOfSandboxes(w io.Writer, all []api.OwnSandbox) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No sandboxes: biplane sandboxes create makes one.")
		return
	}
	rows := [][]string{{"SANDBOX", "ID", "STATE", "MEMORY", "FILES", "LAST USED"}}
	for _, s := range all {
		rows = append(rows, []string{orDash(s.Name), s.ID, s.State, bytesText(s.UsedMemory), bytesText(s.FileBytes),
			formatMoment(s.LastUsed)})
	}
	writeColumns(w, rows...)
}

func sandboxesShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a sandbox",
		Example: "  biplane sandboxes show work\n  biplane sandboxes show work -o json",
		Args:    exactlyOne("NAME", "the name or id of a sandbox"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return printOne(a, cmd, output, readSandbox, args[0], showSandbox)
		},
	}
	addOutput(c, &output)
	return c
}

func showSandbox(w io.Writer, s *api.OwnSandbox) {
	expires := "-"
	if !s.Expires.IsZero() {
		expires = formatMoment(s.Expires)
	}
	writeColumns(w, [][]string{
		{"sandbox", orDash(s.Name)}, {"id", s.ID}, {"owner", s.Owner}, {"state", s.State},
		{"tier", orDash(s.Tier)},
		{"processes ended", orDash(s.Why)}, {"image", orDash(s.Image)}, {"network", networkText(s.Network)},
		{"memory", bytesText(s.UsedMemory) + " of " + bytesText(s.Memory)},
		{"files", text.Count(s.Files, "file") + ", " + bytesText(s.FileBytes)},
		{"created", formatMoment(s.Created)}, {"last used", formatMoment(s.LastUsed)}, {"ends", expires},
		{"has read", orDash(strings.Join(s.Labels, ", "))}, {"note", orDash(s.Remark)},
	}...)
}

// networkText describes the network of a sandbox.
func networkText(has bool) string {
	if has {
		return "the hosts that policy permits"
	}
	return "none"
}

func sandboxesCreateCommand(a *app) *cobra.Command {
	var output string
	var r api.OwnSandboxRequest
	var ttl, idle, standby time.Duration
	c := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Create a sandbox",
		Example: `  biplane sandboxes create work
  biplane sandboxes create --ttl 8h --idle 1h
  biplane sandboxes create fetcher --network`,
		Args: atMost(1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDurations(cmd, "ttl", "idle"); err != nil {
				return err
			}
			r.TTLSeconds, r.IdleSeconds, r.StandbySeconds = ttl.Seconds(), idle.Seconds(), standby.Seconds()
			if len(args) > 0 {
				r.Name = args[0]
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				client := c.OwnSandboxes()
				s, err := client.CreateSandbox(ctx, r)
				if err != nil {
					return err
				}
				return a.printOutput(output, s, func(w io.Writer) { fmt.Fprintln(w, s.ID) })
			})
		},
	}
	c.Flags().StringVar(&r.Image, "image", "", "`image` that it is created from (default: the host's programs)")
	c.Flags().DurationVar(&ttl, "ttl", 0, "remove it after this `time`")
	c.Flags().DurationVar(&idle, "idle", 0, "remove it when it was unused for this `time`")
	c.Flags().DurationVar(&standby, "standby", 0, "freeze it when it was idle for this `time`; -1s: never")
	c.Flags().BoolVar(&r.Network, "network", false, "let it reach the network hosts that policy permits")
	addOutput(c, &output)
	return c
}

func sandboxesExecCommand(a *app) *cobra.Command {
	var o api.SandboxOperation
	var timeout time.Duration
	var background, interactive bool
	c := &cobra.Command{
		Use:   "exec NAME -- PROGRAM [ARGUMENT...]",
		Short: "Run a command in a sandbox",
		Long: `Runs a command, with its output as it arrives. The exit code is the command's, or 1 if a signal ended
it.`,
		Example: `  biplane sandboxes exec work -- ls -l
  biplane sandboxes exec work --background -- python3 -m http.server 8000
  echo 'print(6 * 7)' | biplane sandboxes exec work --input -- python3 -`,
		Args: nameAndProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDurations(cmd, "timeout"); err != nil {
				return err
			}
			o.Argv, o.TimeoutSeconds = args[1:], timeout.Seconds()
			if interactive {
				in, err := io.ReadAll(io.LimitReader(a.readInput(cmd.Context()), 1<<20))
				if err != nil {
					return usageError("exec: read standard input: %v", err)
				}
				o.Input = string(in)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				client := c.OwnSandboxes()
				if background {
					return startProcess(ctx, a, c, args[0], o)
				}
				v, err := client.RunInSandbox(ctx, args[0], o, a.Out, a.Err)
				if err != nil {
					return err
				}
				for _, line := range v.Notes {
					fmt.Fprintln(a.Err, "biplane: "+cleanLine(line))
				}
				return exitLike(v.Exit)
			})
		},
	}
	c.Flags().StringVar(&o.Directory, "directory", "", "`folder` to run it in (default /workspace)")
	c.Flags().DurationVar(&timeout, "timeout", 0, "end it after this `time` (default 1m)")
	c.Flags().BoolVar(&background, "background", false, "start it in the background")
	c.Flags().BoolVar(&interactive, "input", false, "pass standard input on, at most 1 MiB")
	return c
}

// startProcess starts a background process, and warns if it ends with this command.
func startProcess(ctx context.Context, a *app, c *api.Client, name string, o api.SandboxOperation) error {
	v, err := c.OwnSandboxes().UseSandbox(ctx, name, "start", o)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "process %d\n", v.Process.ID)
	// If the status can't be read, the process still runs: after a failure, a script might start it
	// again.
	if s, err := c.Status(ctx); err == nil && isThisProcess(s) {
		fmt.Fprintln(a.Err, "biplane: the process ends with this command: run biplane serve first to keep it")
	}
	return nil
}

// nameAndProgram accepts the name of a sandbox and a command.
func nameAndProgram(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return fmt.Errorf("%s needs PROGRAM, the command to run: %s", commandName(c), firstExample(c))
	}
	return atLeastOne("NAME", "the name of a sandbox")(c, args)
}

// exitLike returns the failure of a command that did not exit with 0.
func exitLike(e *api.SandboxExit) error {
	switch {
	case e == nil || e.Status == 0 && e.Signal == "":
		return nil
	case e.TimedOut:
		return failWithText("the command reached its time limit: set --timeout")
	case e.Signal != "":
		return failWithText("the command was ended by %s", e.Signal)
	}
	return &failure{err: fmt.Errorf("the command ended with exit status %d", e.Status), code: e.Status, silent: true}
}

func sandboxesLogsCommand(a *app) *cobra.Command {
	var offset int64
	var follow bool
	c := &cobra.Command{
		Use:     "logs NAME [PROCESS]",
		Short:   "Print the output of a background process, or list these processes",
		Example: "  biplane sandboxes logs work\n  biplane sandboxes logs work 1 --follow",
		Args:    oneOrTwo("NAME", "the name of a sandbox"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				client := c.OwnSandboxes()
				if len(args) == 1 {
					v, err := client.UseSandbox(ctx, args[0], "processes", api.SandboxOperation{})
					if err == nil {
						writeProcesses(a.Out, v.Processes)
					}
					return err
				}
				n, err := parseProcess("logs", args[1])
				if err != nil {
					return err
				}
				return printProcessLog(ctx, a.Out, client, args[0], n, offset, follow)
			})
		},
	}
	c.Flags().Int64Var(&offset, "offset", 0, "begin at this `byte`; negative: from the end")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more until the process ends")
	return c
}

func writeProcesses(w io.Writer, all []api.SandboxProcess) {
	rows := [][]string{{"PROCESS", "STATE", "OUTPUT", "STARTED", "COMMAND"}}
	for _, p := range all {
		state := "runs"
		if e := p.Exit; e != nil && e.Signal != "" {
			state = e.Signal
		} else if e != nil {
			state = "exit " + strconv.Itoa(e.Status)
		}
		rows = append(rows, []string{strconv.Itoa(p.ID), state, bytesText(p.Output), formatMoment(p.Started),
			text.Clip(strings.Join(p.Command, " "), 60)})
	}
	writeColumns(w, rows...)
}

// printProcessLog prints the output of a background process.
func printProcessLog(ctx context.Context, out io.Writer, client api.SandboxClient, name string, process int,
	offset int64, follow bool) error {
	for {
		o := api.SandboxOperation{Process: process, Offset: &offset}
		if follow {
			o.WaitSeconds = 30
		}
		v, err := client.UseSandbox(ctx, name, "logs", o)
		if err != nil {
			return err
		}
		data := v.Text
		if v.Base64 != nil {
			data = strings.ToValidUTF8(string(v.Base64), "\uFFFD")
		}
		if _, err := io.WriteString(out, data); err != nil {
			return err
		}
		ended := v.Process != nil && v.Process.Exit != nil && v.Offset >= v.Process.Output
		if offset = v.Offset; ended || data == "" && !follow {
			return nil
		}
	}
}

func sandboxesSuspendCommand(a *app) *cobra.Command {
	return sandboxCommand(a, &cobra.Command{
		Use:   "suspend NAME",
		Short: "Freeze the processes of a sandbox",
		Long: `Freezes the processes of a sandbox that no operation uses. Idle sandboxes are frozen after a while
anyway. The next use continues them.`,
		Example: "  biplane sandboxes suspend work",
	}, api.SandboxClient.SuspendSandbox)
}

func sandboxesResumeCommand(a *app) *cobra.Command {
	return sandboxCommand(a, &cobra.Command{
		Use:   "resume NAME",
		Short: "Start or continue the processes of a sandbox",
		Long: `Starts or continues the processes of a sandbox, so that its next use begins at once. The owner of the
data folder must be running (biplane serve), or they end with this command.`,
		Example: "  biplane sandboxes resume work",
	}, api.SandboxClient.ResumeSandbox)
}

// sandboxCommand completes a command that changes the state of a sandbox.
func sandboxCommand(a *app, c *cobra.Command,
	change func(api.SandboxClient, context.Context, string) (*api.OwnSandbox, error)) *cobra.Command {
	var output string
	c.Args = exactlyOne("NAME", "the name or id of a sandbox")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
			s, err := change(client.OwnSandboxes(), ctx, args[0])
			if err != nil {
				return err
			}
			return a.printOutput(output, s, func(w io.Writer) {
				fmt.Fprintf(w, "sandbox %s is %s\n", cleanLine(args[0]), s.State)
			})
		})
	}
	addOutput(c, &output)
	return c
}

func sandboxesEndCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "end NAME",
		Short:   "End a sandbox, and delete its files",
		Example: "  biplane sandboxes end work",
		Args:    exactlyOne("NAME", "the name or id of a sandbox"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				client := c.OwnSandboxes()
				if err := client.EndSandbox(ctx, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "sandbox %s is ended\n", cleanLine(args[0]))
				return nil
			})
		},
	}
	return c
}
