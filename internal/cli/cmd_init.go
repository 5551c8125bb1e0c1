package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/config/clients"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// initReport is the output of `init -o json`.
type initReport struct {
	*clients.Import
	Config    string         `json:"config"`
	Added     []string       `json:"added"` // servers
	Kept      []string       `json:"kept"`  // servers that the configuration had
	Upstreams []api.Upstream `json:"upstreams"`
}

func initCommand(a *app) *cobra.Command {
	var output string
	var yes bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration with the servers of your clients, and try them",
		Long: `Finds the MCP servers that your clients have, as "biplane import" does, and writes them to biplane.yaml,
or to the file that --config names. A server that the file has already stays as it is. Then it starts all
servers once, and shows their tools, what failed and why, and what to do next.

At a terminal it asks up to three questions: which servers, whether calls that may change something need
approval, and whether to put Biplane into the clients in place of their servers. In a pipe, with --yes or
with -o, it asks nothing: it adds all servers, keeps approvals, and leaves the clients as they are.`,
		Example: "  biplane init\n  biplane init --yes\n  biplane init --config ~/.config/biplane/biplane.yaml",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			m, err := thisMachine()
			if err != nil {
				return err
			}
			i := &initializer{app: a, machine: m, output: output}
			if !yes && output == "table" {
				i.person = a.personAtTerminal()
			}
			return i.writeAndTry(cmd.Context())
		},
	}
	addOutput(c, &output)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "ask nothing")
	return c
}

// An initializer runs one init.
type initializer struct {
	*app
	machine clients.Machine
	output  string
	person  *person // nil: ask nothing
	report  initReport
}

// writeAndTry writes the configuration, and tries the servers.
func (i *initializer) writeAndTry(ctx context.Context) error {
	path := i.config
	if path == "" {
		path = os.Getenv("BIPLANE_CONFIG")
	}
	if path == "" {
		path = "biplane.yaml"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	i.config, i.report.Config = path, path
	i.report.Import = clients.ReadPlaces(clients.ListPlaces(i.machine), i.machine, os.LookupEnv)
	i.showFound()
	if err := i.chooseServers(ctx); err != nil {
		return err
	}
	if err := i.writeConfiguration(ctx); err != nil {
		return err
	}
	err = i.withClient(ctx, func(ctx context.Context, client *api.Client) (err error) {
		i.report.Upstreams, err = client.Upstreams(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if err := i.printOutput(i.output, i.report, i.showResult); err != nil {
		return err
	}
	return i.offerClients(ctx)
}

// showFound prints the files of clients, and their servers.
func (i *initializer) showFound() {
	if i.output != "table" {
		return
	}
	for _, f := range i.report.Files {
		found := text.Count(f.Servers, "server")
		if f.Error != "" {
			found = "not read: " + f.Error
		}
		fmt.Fprintf(i.Out, "%s: %s: %s\n", f.Client, cleanLine(shortPath(f.Path, i.machine)), cleanLine(found))
	}
	for _, s := range i.report.Servers {
		printImport(i.Out, s)
	}
	for _, s := range i.report.Skipped {
		fmt.Fprintf(i.Out, "skipped %s of %s: %s\n", cleanLine(s.Name), s.Client, cleanLine(s.Reason))
	}
}

// askLine asks a question. The answer is "" if no one is asked.
func (i *initializer) askLine(ctx context.Context, question string) (string, error) {
	if i.person == nil {
		return "", nil
	}
	fmt.Fprint(i.person.out, question+" ")
	select {
	case line, ok := <-i.person.lines:
		if !ok {
			fmt.Fprintln(i.person.out)
		}
		return strings.ToLower(line), nil
	case <-ctx.Done():
		fmt.Fprintln(i.person.out)
		return "", context.Cause(ctx)
	}
}

// chooseServers asks which of the servers to use.
func (i *initializer) chooseServers(ctx context.Context) error {
	var names []string
	for _, s := range i.report.Servers {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil
	}
	said, err := i.askLine(ctx, "Which servers? Enter for all, or names with commas, or none:")
	if err != nil || said == "" {
		return err
	}
	chosen := strings.FieldsFunc(said, func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range chosen {
		known := slices.ContainsFunc(names, func(n string) bool { return strings.ToLower(n) == name })
		if !known && name != "none" {
			return usageError("no server %q was found: there are %s", shortenLine(name, 40), strings.Join(names, ", "))
		}
	}
	i.report.Servers = slices.DeleteFunc(i.report.Servers, func(s *clients.Server) bool {
		return !slices.Contains(chosen, strings.ToLower(s.Name))
	})
	return nil
}

// emptyConfiguration is the text of a configuration without servers.
const emptyConfiguration = `# MCP servers, in the form that other clients use, for example:
#   mcpServers:
#     files: { command: npx, args: ["-y", "@modelcontextprotocol/server-filesystem", "./box"] }
mcpServers: {}
`

// writeConfiguration adds the servers to the configuration.
func (i *initializer) writeConfiguration(ctx context.Context) error {
	edit, added, kept, err := clients.PlanImport(i.config, i.report.Import, os.LookupEnv, daemon.StrongestTier())
	if err != nil {
		return err
	}
	i.report.Added, i.report.Kept = append([]string{}, added...), append([]string{}, kept...)
	if edit.Before == nil {
		if len(added) == 0 {
			edit.After = []byte(emptyConfiguration)
		}
		said, err := i.askLine(ctx, "Calls that may change something wait for your approval. Make them at once instead? [y/N]")
		if err != nil {
			return err
		}
		if strings.HasPrefix(said, "y") {
			edit.After = append([]byte("policy: open\n"), edit.After...)
		}
		unset := func(name string) (string, bool) { return os.Getenv(name), true }
		if _, err := config.Parse(edit.Path, edit.After, unset, daemon.StrongestTier()); err != nil {
			return err
		}
	}
	if string(edit.Before) == string(edit.After) && edit.Before != nil {
		return nil
	}
	return edit.WriteFile()
}

// showResult prints what was written, and the state of the servers.
func (i *initializer) showResult(w io.Writer) {
	r := &i.report
	fmt.Fprintf(w, "\n%s: added %s", cleanLine(shortPath(r.Config, i.machine)), listNames(r.Added, "server"))
	if len(r.Kept) > 0 {
		fmt.Fprintf(w, ", kept %s", listNames(r.Kept, "server"))
	}
	fmt.Fprintln(w)
	if len(r.Upstreams) == 0 {
		fmt.Fprintln(w, "No servers yet. Next: add them to the file, or run biplane registry search, then biplane tools")
		return
	}
	fmt.Fprintln(w)
	rows := [][]string{{"UPSTREAM", "STATE", "TOOLS", "REASON"}}
	tools := 0
	for _, u := range r.Upstreams {
		tools += u.Tools
		rows = append(rows, []string{u.Name, u.State, strconv.Itoa(u.Tools), shortenLine(u.Reason, 100)})
	}
	writeColumns(w, rows...)
	for _, u := range r.Upstreams {
		if u.State != "ready" && len(u.Stderr) > 0 {
			fmt.Fprintf(w, "\n%s wrote to its standard error:\n", cleanLine(u.Name))
			for _, l := range u.Stderr[max(0, len(u.Stderr)-stderrLines):] {
				fmt.Fprintln(w, "  "+cleanLine(l))
			}
		}
	}
	fmt.Fprintf(w, "\n%s from %s. Next:\n", text.Count(tools, "tool"), text.Count(len(r.Upstreams), "server"))
	for _, line := range i.nextSteps() {
		fmt.Fprintln(w, "  "+cleanLine(line))
	}
}

// nextSteps returns the next steps for the user.
func (i *initializer) nextSteps() (steps []string) {
	working := false
	for _, u := range i.report.Upstreams {
		switch u.State {
		case "ready", "degraded":
			working = true
		case "needs sign-in":
			steps = append(steps, "biplane connect "+u.Name)
		default:
			steps = append(steps, "repair "+u.Name+" in "+shortPath(i.report.Config, i.machine)+", then biplane tools")
		}
	}
	if working {
		steps = append(steps, `biplane tools search "what you want to do"`)
	}
	if targets := i.findTargets(); len(targets) > 0 && i.person == nil {
		steps = append(steps, "biplane install "+targets[0].ID+" --config "+shortPath(i.report.Config, i.machine))
	} else if len(targets) == 0 {
		steps = append(steps, "biplane install shows the clients that Biplane can be put into")
	}
	return steps
}

// findTargets returns the clients whose own files have servers that were found.
func (i *initializer) findTargets() (found []clients.Target) {
	for _, t := range clients.ListTargets(i.machine, false) {
		if slices.ContainsFunc(i.report.Files, func(f clients.File) bool { return f.Path == t.File && f.Servers > 0 }) {
			found = append(found, t)
		}
	}
	return found
}

// offerClients asks whether to put Biplane into the clients, and does so.
func (i *initializer) offerClients(ctx context.Context) error {
	targets := i.findTargets()
	if len(targets) == 0 || i.person == nil {
		return nil
	}
	var names []string
	for _, t := range targets {
		names = append(names, t.Client)
	}
	said, err := i.askLine(ctx, "Put Biplane into "+strings.Join(names, ", ")+", in place of their servers? [y/N]")
	if err != nil || !strings.HasPrefix(said, "y") {
		return err
	}
	in := installer{i.app, installFlags{output: i.output}}
	for _, t := range targets {
		if err := in.installClient(t.ID); err != nil {
			return err
		}
	}
	return nil
}
