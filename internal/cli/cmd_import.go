package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config/clients"
)

// importReport is the output of `import -o json`.
type importReport struct {
	*clients.Import
	Written string `json:"written,omitempty"` // the file that was written
}

func importCommand(a *app) *cobra.Command {
	var output, to string
	var dryRun, replace bool
	c := &cobra.Command{
		Use:   "import",
		Short: "Write a configuration with the MCP servers of other clients",
		Long: `Reads the MCP servers of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Codex, Gemini, Zed,
OpenCode, Cline, Roo Code, Kiro, LM Studio, Amazon Q, Copilot CLI, Grok Build, Crush, Goose,
Antigravity, AnythingLLM and Continue (without its config.yaml). Shows them without secrets, and writes a
configuration with all of them. It reads the files of the user and of the project in the working
folder, and changes none of them. The same server in several clients becomes one. Different servers
with the same name get different names.

Secrets in these files are copied to the configuration, which only the user can read. The command lists
them. An existing configuration is kept, unless --replace is given.`,
		Example: `  biplane import --dry-run
  biplane import
  biplane import --to ~/.config/biplane/biplane.yaml --replace`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			m, err := thisMachine()
			if err != nil {
				return err
			}
			r := importReport{Import: clients.ReadPlaces(clients.ListPlaces(m), m, os.LookupEnv)}
			var failed error
			if len(r.Servers) > 0 && !dryRun {
				if failed = writeImport(r.Import, to, replace); failed == nil {
					r.Written = to
				}
			}
			if err := a.printOutput(output, r, func(w io.Writer) { showImport(w, r, m) }); err != nil {
				return err
			}
			return failed
		},
	}
	c.Flags().StringVar(&to, "to", "biplane.yaml", "the file to write")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be written, and write nothing")
	c.Flags().BoolVar(&replace, "replace", false, "replace the file if it exists")
	addOutput(c, &output)
	return c
}

// thisMachine returns the places where the clients of this user keep their files.
func thisMachine() (clients.Machine, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return clients.Machine{}, usageError("no home folder to read the files of clients from: set HOME")
	}
	folder, err := os.Getwd()
	if err != nil {
		return clients.Machine{}, err
	}
	env := map[string]string{}
	for _, name := range []string{"APPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"} {
		env[name] = os.Getenv(name)
	}
	return clients.Machine{OS: runtime.GOOS, Home: home, Folder: folder, Env: env}, nil
}

// writeImport writes the configuration to a file that only the user can read.
func writeImport(x *clients.Import, path string, replace bool) error {
	raw, err := x.WriteYAML()
	if err != nil {
		return err
	}
	if !replace {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return &api.Error{Kind: api.Conflict, Message: fmt.Sprintf(
				"%s exists and was not changed: choose another file with --to, or replace it with --replace", path)}
		} else if err != nil {
			return err
		}
		_, err = f.Write(raw)
		return errors.Join(err, f.Close())
	}
	return atomicfile.WriteFile(path, raw, 0o600)
}

func showImport(w io.Writer, r importReport, m clients.Machine) {
	short := func(path string) string { return shortPath(path, m) }
	for _, f := range r.Files {
		found := text.Count(f.Servers, "server")
		if f.Error != "" {
			found = "not read: " + f.Error
		}
		fmt.Fprintf(w, "%s: %s: %s\n", f.Client, cleanLine(short(f.Path)), cleanLine(found))
	}
	if len(r.Servers) > 0 {
		fmt.Fprintln(w)
	}
	for _, s := range r.Servers {
		printImport(w, s)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "skipped %s of %s (%s): %s\n", cleanLine(s.Name), s.Client, cleanLine(short(s.File)),
			cleanLine(s.Reason))
	}
	switch {
	case len(r.Servers) == 0:
		fmt.Fprintln(w, "no MCP servers found: nothing was written")
	case r.Written != "":
		fmt.Fprintf(w, "wrote %s with %s. Next: biplane config check, biplane tools\n", cleanLine(r.Written),
			text.Count(len(r.Servers), "server"))
	}
}

// shortPath returns a path relative to the working folder or the home folder, if it is in one.
func shortPath(path string, m clients.Machine) string {
	inFolder, ok := strings.CutPrefix(path, m.Folder+string(filepath.Separator))
	if inHome, is := strings.CutPrefix(path, m.Home+string(filepath.Separator)); is &&
		(!ok || len(inHome) < len(inFolder)) {
		return filepath.Join("~", inHome)
	}
	if ok {
		return inFolder
	}
	return path
}

// printImport prints one server, with what the user should know about it.
func printImport(w io.Writer, s *clients.Server) {
	what := append([]string{s.Shown.Command}, s.Shown.Args...)
	if s.Shown.URL != "" {
		what = []string{s.Shown.URL}
	}
	var from []string
	for _, o := range s.Sources {
		if o.Name == s.Name {
			from = append(from, o.Client)
		} else {
			from = append(from, fmt.Sprintf("%s, where it is %s", o.Client, o.Name))
		}
	}
	fmt.Fprintf(w, "%s: %s\n  from %s\n", cleanLine(s.Name), cleanLine(strings.Join(what, " ")),
		cleanLine(strings.Join(from, "; ")))
	for _, k := range slices.Sorted(maps.Keys(s.Shown.Env)) {
		fmt.Fprintf(w, "  env %s=%s\n", cleanLine(k), cleanLine(s.Shown.Env[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Shown.Headers)) {
		fmt.Fprintf(w, "  header %s: %s\n", cleanLine(k), cleanLine(s.Shown.Headers[k]))
	}
	if s.Shown.Disabled {
		fmt.Fprintln(w, "  disabled")
	}
	printSettings(w, s)
	if len(s.Secrets) > 0 {
		fmt.Fprintf(w, "  secrets in plain text: %s; better run biplane secrets set NAME and write ${secret:NAME}\n",
			cleanLine(strings.Join(s.Secrets, ", ")))
	}
	if len(s.Unset) > 0 {
		fmt.Fprintf(w, "  needs environment variables that are not set: %s\n", cleanLine(strings.Join(s.Unset, ", ")))
	}
}

// printSettings prints which settings of a client the configuration has, and which not.
func printSettings(w io.Writer, s *clients.Server) {
	if len(s.Only) > 0 {
		fmt.Fprintf(w, "  only the tools %s\n", cleanLine(strings.Join(s.Only, ", ")))
	}
	if len(s.Not) > 0 {
		fmt.Fprintf(w, "  without the tools %s\n", cleanLine(strings.Join(s.Not, ", ")))
	}
	if o := s.Shown.OAuth; o != nil {
		fmt.Fprintf(w, "  signs in as client %s\n", cleanLine(orDash(o.ClientID)))
	}
	if len(s.Lost) > 0 {
		fmt.Fprintf(w, "  not carried over: %s; set by hand what the server needs\n",
			cleanLine(strings.Join(s.Lost, ", ")))
	}
}
