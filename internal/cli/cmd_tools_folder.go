package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// firstTool is the file that tools init writes.
const firstTool = `/**
 * Greets a person.
 * @param name whom to greet
 * @param loud in capital letters
 * @readonly
 */
export async function hello(name: string, loud: boolean = false) {
  const text = "Hello, " + name + "!";
  return { text: loud ? text.toUpperCase() : text };
}
`

func toolsInitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "init FOLDER",
		Short: "Write a first tool into a folder",
		Long: `Creates FOLDER if necessary, and writes hello.ts into it: a function that is a tool. An existing file is
never overwritten.`,
		Example: "  biplane tools init ./tools",
		Args:    exactlyOne("FOLDER", "the folder to write to"),
		RunE: func(_ *cobra.Command, args []string) error {
			file := filepath.Join(args[0], "hello.ts")
			err := os.MkdirAll(args[0], 0o755)
			if err == nil {
				err = createFile(file, firstTool)
			}
			if os.IsExist(err) {
				return &api.Error{Kind: api.Conflict, Message: file + " exists already, and was not changed"}
			}
			if err != nil {
				return &api.Error{Kind: api.Unavailable, Message: "write the first tool: " + err.Error()}
			}
			fmt.Fprintf(a.Out, "wrote %s\n\nCheck it:  biplane tools check %s\nServe it:  biplane serve --tools %s "+
				"--direct\nOr name it in biplane.yaml, where programs call hello(\"Ann\"):\n\nfolders:\n  local: "+
				"{ path: %s }\n", file, args[0], args[0], args[0])
			return nil
		},
	}
}

// createFile writes a file that does not exist yet.
func createFile(name, content string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// checkedFolder is the output of `tools check -o json`.
type checkedFolder struct {
	Tools  []checkedTool `json:"tools"`
	Broken []checkedTool `json:"broken"`
}

type checkedTool struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Schema      any      `json:"inputSchema,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	Reason      string   `json:"reason,omitempty"` // why it is left out
}

func toolsCheckCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "check FOLDER",
		Short: "Load the tools in a folder, and report what is wrong with them",
		Long: `Loads the files of FOLDER in a sandbox. Lists their tools, the files that were left out
with the reasons, and notes on types that could not be derived. A folder of the configuration is loaded
with its permissions. Exits with 1 if anything was left out.`,
		Example: "  biplane tools check ./tools",
		Args:    exactlyOne("FOLDER", "the folder with the files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := findToolFolder(args[0], args[0])
			if err != nil {
				return err
			}
			cfg, err := a.daemonConfig("error")
			if err != nil {
				return err
			}
			report, err := daemon.CheckFolder(cmd.Context(), cfg, path)
			if err != nil {
				return err
			}
			out := checkFolder(report)
			if err := a.printOutput(output, out, func(w io.Writer) { showFolder(w, args[0], out) }); err != nil {
				return err
			}
			if len(out.Broken) > 0 {
				return &failure{code: exitFailed, silent: true}
			}
			return nil
		},
	}
	addOutput(c, &output)
	return c
}

func checkFolder(r *daemon.FolderReport) checkedFolder {
	out := checkedFolder{Tools: []checkedTool{}, Broken: []checkedTool{}}
	for _, t := range r.Tools {
		c := checkedTool{Name: t.Name, Description: t.Description, Schema: t.InputSchema}
		for _, n := range r.Notes {
			if n.Tool == t.Name {
				c.Notes = append(c.Notes, n.Text)
			}
		}
		out.Tools = append(out.Tools, c)
	}
	for _, b := range r.Broken {
		out.Broken = append(out.Broken, checkedTool{Name: b.Tool, Reason: b.Reason})
	}
	return out
}

func showFolder(w io.Writer, path string, f checkedFolder) {
	if len(f.Tools) == 0 && len(f.Broken) == 0 {
		fmt.Fprintf(w, "%s has no tools: `biplane tools init %s` writes a first one\n", path, path)
		return
	}
	rows := [][]string{{"TOOL", "DESCRIPTION"}}
	for _, t := range f.Tools {
		rows = append(rows, []string{t.Name, shortenLine(t.Description, 90)})
	}
	writeColumns(w, rows...)
	for _, t := range f.Tools {
		for _, n := range t.Notes {
			fmt.Fprintf(w, "\n%s: %s\n", cleanLine(t.Name), cleanLine(n))
		}
	}
	for _, b := range f.Broken {
		fmt.Fprintf(w, "\n%s left out: %s\n", cleanLine(b.Name), strings.TrimSpace(stripControls(b.Reason)))
	}
}

// A folderFlags are the flags that serve a folder alone.
type folderFlags struct {
	path   string
	direct bool
}

// addFolderFlags adds the flags that serve a folder alone.
func addFolderFlags(c *cobra.Command, f *folderFlags) {
	c.Flags().StringVar(&f.path, "tools", "", "serve the tools in this `folder` only, and no other upstream")
	c.Flags().BoolVar(&f.direct, "direct", false, "like --mode direct --unprefixed: a plain MCP server")
}

// applyFolderFlags applies the flags to a configuration, and to the configurations of addMode.
func applyFolderFlags(cfg *daemon.Config, f *folderFlags, mode *string, unprefixed *bool) error {
	if f.direct {
		if *mode != "" && *mode != "direct" {
			return usageError("--direct and --mode %s contradict each other", *mode)
		}
		*mode, *unprefixed = "direct", true
	}
	if f.path == "" {
		return nil
	}
	path, err := findToolFolder("--tools "+f.path, f.path)
	if err == nil {
		cfg.Settings.OnlyFolder(path)
	}
	return err
}

// findToolFolder returns the absolute path of a folder of tools, which must exist. what is its name
// in errors.
func findToolFolder(what, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", usageError("%s: %s", what, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", usageError("%s: there is no such folder (biplane tools init %s writes a first tool)", what, path)
	}
	return abs, nil
}
