package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func toolsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "tools",
		Short: "Show the upstreams and their tools",
		Long:  `Shows the upstreams, their state, and the tools that programs can call.`,
		Example: `  biplane tools
  biplane tools search "open a pull request"
  biplane tools show github.create_pull_request
  biplane tools types ./types`,
		Args: noArguments,
	}
	list := toolsListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, toolsSearchCommand(a), toolsShowCommand(a), toolsTypesCommand(a), toolsAcceptCommand(a),
		toolsInitCommand(a), toolsCheckCommand(a))
	return c
}

// listing is the output of `tools list -o json`.
type listing struct {
	Upstreams []api.Upstream `json:"upstreams"`
	Tools     []api.Tool     `json:"tools"`
	Warnings  []string       `json:"warnings,omitempty"`
}

func toolsListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the upstreams, their state and all tools",
		Example: "  biplane tools list\n  biplane tools list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				upstreams, err := client.Upstreams(ctx)
				if err != nil {
					return err
				}
				tools, err := client.Tools(ctx)
				if err != nil {
					return err
				}
				status, err := client.Status(ctx)
				if err != nil {
					return err
				}
				return a.printOutput(output, listing{upstreams, tools, status.Warnings}, func(w io.Writer) {
					tableOfTools(w, upstreams, tools)
					for _, line := range status.Warnings {
						fmt.Fprintln(a.Err, "biplane: "+cleanLine(line))
					}
				})
			})
		},
	}
	addOutput(c, &output)
	return c
}

// stderrLines is how many of the last lines of a failing upstream's standard error are shown.
const stderrLines = 10

func tableOfTools(w io.Writer, upstreams []api.Upstream, tools []api.Tool) {
	if len(upstreams) == 0 {
		fmt.Fprintln(w, "No upstreams: the configuration names no mcpServers. Write ./biplane.yaml, or put the "+
			".mcp.json of an agent here (biplane config show says what is read).")
		return
	}
	rows := [][]string{{"UPSTREAM", "STATE", "TOOLS", "SERVER", "REASON"}}
	for _, u := range upstreams {
		state := u.State
		if u.Stale {
			state += " (stale)"
		}
		rows = append(rows, []string{u.Name, state, strconv.Itoa(u.Tools), u.Server, shortenLine(u.Reason, 100)})
	}
	writeColumns(w, rows...)
	for _, u := range upstreams {
		if u.Sandbox != nil {
			fmt.Fprintf(w, "\n%s runs %s\n", cleanLine(u.Name), cleanLine(u.Sandbox.DescribeSandbox()))
		}
		for _, b := range u.Broken {
			fmt.Fprintf(w, "\n%s left out: %s\n", cleanLine(u.Name+"."+b.Tool), cleanLine(b.Reason))
		}
		showWaiting(w, &u)
		for i := range u.Definitions {
			showNotice(w, &u.Definitions[i])
		}
		if u.State != "ready" && len(u.Stderr) > 0 {
			fmt.Fprintf(w, "\n%s wrote to its standard error:\n", cleanLine(u.Name))
			for _, l := range u.Stderr[max(0, len(u.Stderr)-stderrLines):] {
				fmt.Fprintln(w, "  "+cleanLine(l))
			}
		}
	}
	if len(tools) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows = [][]string{{"TOOL", "DESCRIPTION"}}
	for _, t := range tools {
		rows = append(rows, []string{t.Path, shortenLine(describeTool(t), 90)})
	}
	writeColumns(w, rows...)
}

func describeTool(t api.Tool) string {
	if t.Description == "" {
		return t.Title
	}
	return t.Description
}

func toolsSearchCommand(a *app) *cobra.Command {
	var output string
	var limit int
	c := &cobra.Command{
		Use:     "search [QUERY]",
		Short:   "Find tools as agents do; without a query, print an overview",
		Example: `  biplane tools search "read a file"`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError("limit %d is invalid: it must be more than 0", limit)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				hits, err := client.Search(ctx, strings.Join(args, " "), limit)
				if err != nil {
					return err
				}
				return a.printOutput(output, hits.Hits, func(w io.Writer) { fmt.Fprintln(w, stripControls(hits.Text)) })
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "maximum number of hits (default 5)")
	addOutput(c, &output)
	return c
}

func toolsShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "show PATH",
		Short:             "Show a tool: its description, typed call, example and schemas",
		Example:           "  biplane tools show github.list_issues\n  biplane tools show github.list-issues -o json",
		Args:              exactlyOne("PATH", "the path of a tool"),
		ValidArgsFunction: completer{a}.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printOne(a, cmd, output, (*api.Client).Tool, args[0], showTool)
		},
	}
	addOutput(c, &output)
	return c
}

func showTool(w io.Writer, t *api.ToolDetail) {
	rows := [][]string{{"tool", t.Path}, {"upstream", t.Upstream}, {"name", t.Name}, {"in mode direct", t.Listed}}
	if t.Title != "" {
		rows = append(rows, []string{"title", t.Title})
	}
	if t.ReadOnly != nil {
		rows = append(rows, []string{"read-only", strconv.FormatBool(*t.ReadOnly) + " (says the upstream)"})
	}
	writeColumns(w, rows...)
	for _, part := range []string{t.Description, t.Signature, t.Example, t.ResultNote} {
		if part != "" {
			fmt.Fprintln(w, "\n"+stripControls(strings.TrimSpace(part)))
		}
	}
}

func toolsTypesCommand(a *app) *cobra.Command {
	var language string
	c := &cobra.Command{
		Use:   "types DIR",
		Short: "Write TypeScript or Python declarations of all tools to a folder",
		Long: `Writes DIR/tools/<upstream>/<tool>.ts for every tool, and declarations of everything else that programs
can use, for an editor or the TypeScript compiler. For Python it writes
DIR/tools/<upstream>/__init__.pyi, for an editor or a type checker. Existing files of the same name are
overwritten; other files are left alone.`,
		Example: "  biplane tools types .\n  biplane tools types ./types --language python",
		Args:    exactlyOne("DIR", "the folder to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if language != "typescript" && language != "python" {
				return usageError("language %q is not one of typescript, python", language)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				files, err := client.Types(ctx)
				if err != nil {
					return err
				}
				maps.DeleteFunc(files, func(name, _ string) bool {
					isPython := strings.HasSuffix(name, ".pyi") || filepath.Base(name) == "py.typed"
					return isPython != (language == "python")
				})
				if err := writeTree(args[0], files); err != nil {
					return &api.Error{Kind: api.Unavailable, Message: "write types: " + err.Error()}
				}
				fmt.Fprintf(a.Out, "%s in %s\n", text.Count(len(files), "file"), filepath.Join(args[0], "tools"))
				return nil
			})
		},
	}
	c.Flags().StringVar(&language, "language", "typescript", "typescript or python")
	completeWords(c, "language", "typescript", "python")
	return c
}

// writeTree writes files into a folder. Links in the folder can't lead it elsewhere.
func writeTree(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.FromSlash(name)
		if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(path, []byte(files[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// completePaths completes the path of a tool, if a running process can list the tools.
func (a completer) completePaths(cmd *cobra.Command, args []string, prefix string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	dir, err := config.DataFolder(a.dataDir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	tools, err := daemon.Client(dir).Tools(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, t := range tools {
		if strings.HasPrefix(t.Path, prefix) {
			out = append(out, t.Path+"\t"+shortenLine(describeTool(t), 60))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
