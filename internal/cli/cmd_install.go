package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/config/clients"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// installFlags holds the flags of install and uninstall.
type installFlags struct {
	output, command       string
	dryRun, keep, project bool
}

// installReport is the output of `install -o json` and `uninstall -o json`.
type installReport struct {
	Client   string            `json:"client"`
	File     string            `json:"file"`
	Changed  bool              `json:"changed"`
	Taken    []string          `json:"taken,omitempty"`
	Restored []string          `json:"restored,omitempty"`
	Left     []clients.Skipped `json:"left,omitempty"`
	Backup   string            `json:"backup,omitempty"`
	Config   string            `json:"config,omitempty"`
	Added    []string          `json:"added,omitempty"`
	Found    []string          `json:"found,omitempty"`
	Diff     string            `json:"diff,omitempty"` // with --dry-run

	undo      bool
	undoWith  string // the command that undoes it
	fileGone  bool
	importing *clients.Import
}

func installCommand(a *app) *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use:   "install [CLIENT]",
		Short: "Put Biplane into a client, in place of its MCP servers",
		Long: `Puts Biplane into a client's configuration, in place of the MCP servers there. The servers are first
added to Biplane's configuration, unless it has them. Without CLIENT, the command lists the clients and
their files.

A copy of the client's file is kept beside it, and "biplane uninstall" undoes the change. A server that
Biplane can't start stays in the file. Comments stay, too. A file that doesn't parse is not changed.

The configuration is the one that --config or $BIPLANE_CONFIG names, else ./biplane.yaml, else
biplane/biplane.yaml in the user's configuration folder, which is created. With --project it is
./biplane.yaml.`,
		Example: `  biplane install
  biplane install cursor --dry-run
  biplane install claude-desktop
  biplane install vscode --project --keep`,
		Args:              atMost(1, "one CLIENT"),
		ValidArgsFunction: completeClients,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return installer{a, f}.listClients()
			}
			return installer{a, f}.installClient(args[0])
		},
	}
	addOutput(c, &f.output)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the change as a diff without secrets, and change nothing")
	c.Flags().BoolVar(&f.keep, "keep", false, "leave the client's other servers where they are")
	c.Flags().BoolVar(&f.project, "project", false, "change the file of the project in the working folder")
	c.Flags().StringVar(&f.command, "command", "", "the `program` that the client starts (default: this one)")
	return c
}

func uninstallCommand(a *app) *cobra.Command {
	var f installFlags
	c := &cobra.Command{
		Use:   "uninstall CLIENT",
		Short: "Take Biplane out of a client, and restore its MCP servers",
		Long: `Undoes "biplane install". If the client's file was not changed since, it is restored. Otherwise
all later changes stay: Biplane's entry is removed, and the servers that were taken out are added again.
If the file has another server with the same name by now, that one stays, and the command says where the
old one is. Biplane's configuration keeps its servers.`,
		Example:           "  biplane uninstall cursor --dry-run\n  biplane uninstall cursor",
		Args:              exactlyOne("CLIENT", "the name of a client"),
		ValidArgsFunction: completeClients,
		RunE: func(_ *cobra.Command, args []string) error {
			return installer{a, f}.uninstallClient(args[0])
		},
	}
	addOutput(c, &f.output)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the change as a diff without secrets, and change nothing")
	c.Flags().BoolVar(&f.project, "project", false, "change the file of the project in the working folder")
	return c
}

// completeClients completes the name of a client.
func completeClients(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	m, err := thisMachine()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	project, err := c.Flags().GetBool("project")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, t := range clients.ListTargets(m, project) {
		names = append(names, t.ID+"\t"+t.File)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// An installer carries out install and uninstall.
type installer struct {
	*app
	installFlags
}

func (i installer) listClients() error {
	m, err := thisMachine()
	if err != nil {
		return err
	}
	all := clients.ListTargets(m, i.project)
	return i.printOutput(i.output, all, func(w io.Writer) {
		rows := [][]string{{"CLIENT", "FILE", "EXISTS"}}
		for _, t := range all {
			exists := "no"
			if t.Exists {
				exists = "yes"
			}
			rows = append(rows, []string{t.ID, shortPath(t.File, m), exists})
		}
		writeColumns(w, rows...)
	})
}

// joinWords returns a name without what separates its words: "vscode" for VS Code.
func joinWords(name string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(name))
}

// findClient returns the client with a name.
func findClient(name string, project bool) (clients.Target, clients.Machine, error) {
	m, err := thisMachine()
	if err != nil {
		return clients.Target{}, m, err
	}
	all := clients.ListTargets(m, project)
	var names []string
	for _, t := range all {
		if joinWords(t.ID) == joinWords(name) {
			return t, m, nil
		}
		names = append(names, t.ID)
	}
	where := ""
	if project {
		where = " with a file in projects"
	}
	return clients.Target{}, m, usageError("unknown client %q%s: it is one of %s", name, where,
		strings.Join(names, ", "))
}

// ownCommand returns the path under which a client starts this program. A path that a package
// manager keeps across versions is preferred.
func ownCommand() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	stable, err := exec.LookPath("biplane")
	if err != nil {
		return path, nil
	}
	mine, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if other, err := os.Stat(stable); err == nil && os.SameFile(mine, other) {
		return filepath.Abs(stable)
	}
	return path, nil
}

// installConfig returns the configuration that the servers of a client are added to.
func (i installer) installConfig() (string, error) {
	path, err := config.Find(i.config)
	if err != nil {
		return "", err
	}
	named := i.config != "" || os.Getenv("BIPLANE_CONFIG") != ""
	switch {
	case path != "" && (named || !i.project && filepath.Base(path) != ".mcp.json"):
		return path, nil
	case i.project:
		return filepath.Abs("biplane.yaml")
	}
	folder, err := config.UserFolder()
	return filepath.Join(folder, "biplane.yaml"), err
}

func (i installer) installClient(name string) error {
	t, m, err := findClient(name, i.project)
	if err != nil {
		return err
	}
	path, err := i.installConfig()
	if err != nil {
		return err
	}
	in := clients.Installation{Command: i.command, Args: []string{"mcp", "--config", path}, Keep: i.keep}
	if in.Command == "" {
		if in.Command, err = ownCommand(); err != nil {
			return err
		}
	}
	if i.dataDir != "" {
		dir, err := filepath.Abs(i.dataDir)
		if err != nil {
			return err
		}
		in.Args = append(in.Args, "--data-dir", dir)
	}
	c, err := t.PlanInstall(in, m, os.LookupEnv)
	if err != nil {
		return err
	}
	if sameFile(path, t.File) {
		return usageError("%s is Biplane's own configuration: name another one with --config", path)
	}
	edit, added, found, err := clients.PlanImport(path, c.Import, os.LookupEnv, daemon.StrongestTier())
	if err != nil {
		return err
	}
	r := installReport{Client: t.Client, File: t.File, Changed: !c.IsEmpty(), Taken: c.Taken, Left: c.Left,
		Backup: c.BackupFile(), Config: path, Added: added, Found: found, importing: c.Import,
		undoWith: "biplane uninstall " + t.ID}
	if i.project {
		r.undoWith += " --project"
	}
	if i.dryRun {
		r.Diff = c.DiffFile()
		if len(added) > 0 {
			r.Diff = c.DiffTexts(path, edit.Before, edit.After) + r.Diff
		}
		return i.printInstall(r, m)
	}
	if len(added) > 0 || edit.Before == nil {
		if err := edit.WriteFile(); err != nil {
			return err
		}
	}
	if err := c.WriteFiles(); err != nil {
		return err
	}
	return i.printInstall(r, m)
}

// sameFile reports whether two paths lead to the same file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func (i installer) uninstallClient(name string) error {
	t, m, err := findClient(name, i.project)
	if err != nil {
		return err
	}
	c, err := t.PlanUninstall()
	if err != nil {
		return err
	}
	r := installReport{Client: t.Client, File: t.File, Changed: !c.IsEmpty(), Restored: c.Back, Left: c.Left,
		undo: true, fileGone: c.After == nil && c.Before != nil}
	if i.dryRun {
		r.Diff = c.DiffFile()
	} else if err := c.WriteFiles(); err != nil {
		return err
	}
	if err := i.printInstall(r, m); err != nil {
		return err
	}
	if len(c.Left) > 0 {
		return &api.Error{Kind: api.Conflict, Message: "not all servers could be restored: see above"}
	}
	return nil
}

func (i installer) printInstall(r installReport, m clients.Machine) error {
	return i.printOutput(i.output, r, func(w io.Writer) {
		file := cleanLine(shortPath(r.File, m))
		switch {
		case i.dryRun && r.Changed:
			fmt.Fprint(w, stripControls(r.Diff))
		case !r.Changed && r.undo:
			fmt.Fprintf(w, "%s: Biplane is not in %s: nothing to do\n", r.Client, file)
		case !r.Changed:
			fmt.Fprintf(w, "%s: Biplane is in %s already: nothing to do\n", r.Client, file)
		case r.undo && r.fileGone:
			fmt.Fprintf(w, "%s: deleted %s, which Biplane had created\n", r.Client, file)
		case r.undo:
			fmt.Fprintf(w, "%s: took Biplane out of %s, and restored %s\n", r.Client, file,
				listNames(r.Restored, "server"))
		default:
			fmt.Fprintf(w, "%s: put Biplane into %s in place of %s\n", r.Client, file, listNames(r.Taken, "server"))
			if r.Backup != "" {
				fmt.Fprintf(w, "  copy of the file: %s\n", cleanLine(shortPath(r.Backup, m)))
			}
		}
		for _, s := range r.Left {
			fmt.Fprintf(w, "  %s stays: %s\n", cleanLine(s.Name), cleanLine(s.Reason))
		}
		if r.undo || i.dryRun {
			return
		}
		printConfiguration(w, r, m)
	})
}

// printConfiguration prints which servers Biplane's configuration has now.
func printConfiguration(w io.Writer, r installReport, m clients.Machine) {
	path := cleanLine(shortPath(r.Config, m))
	if len(r.Added) > 0 {
		fmt.Fprintf(w, "  added to %s: %s\n", path, cleanLine(strings.Join(r.Added, ", ")))
	}
	if len(r.Found) > 0 {
		fmt.Fprintf(w, "  already in %s: %s\n", path, cleanLine(strings.Join(r.Found, ", ")))
	}
	for _, s := range r.importing.Servers {
		if len(s.Unset) > 0 || len(s.Secrets) > 0 || len(s.Lost) > 0 {
			printImport(w, s)
		}
	}
	if r.Changed {
		fmt.Fprintf(w, "Restart %s. To undo this: %s\n", r.Client, r.undoWith)
	}
}

// listNames returns a count with the names, or "none".
func listNames(names []string, what string) string {
	if len(names) == 0 {
		return "no " + what + "s"
	}
	sorted := slices.Sorted(slices.Values(names))
	return text.Count(len(names), what) + " (" + cleanLine(strings.Join(sorted, ", ")) + ")"
}
