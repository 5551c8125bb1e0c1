package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/control/registry"
)

func registryApproveCommand(a *app) *cobra.Command {
	var output, from, version, file, versions, arguments string
	c := &cobra.Command{
		Use:   "approve NAME",
		Short: "Add a server to a list of approved servers",
		Long: `Adds a server of a registry, or of a file with its server.json, to a list of approved servers, or
replaces it there. Raises the list's version, and removes its signatures: sign it again. A list that
doesn't exist is created.

Only the stated versions of its packages are approved, unless --versions has a range, and only the
arguments that the description lists, unless --arguments is any.`,
		Example: `  biplane registry approve io.github.user/weather --from public --list approved.json
  biplane registry approve weather --from server.json --list approved.json --versions '^1.2.0'
  biplane registry sign approved.json --key team.key`,
		Args: exactlyOne("NAME", "the name of a server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireFlags(cmd, "from", "list"); err != nil {
				return err
			}
			if from == "list" || from == "" {
				return usageError("--from is public, the address of a registry, or a file with a server.json")
			}
			s, _, err := a.findServer(cmd.Context(), from, args[0], version)
			if err != nil {
				return err
			}
			before, err := os.ReadFile(file)
			isNew := errors.Is(err, fs.ErrNotExist)
			if err != nil && !isNew {
				return usageError("the list: %s", err)
			}
			name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
			after, list, err := registry.ApproveServer(before, name,
				registry.Entry{Server: *s, Versions: versions, Arguments: arguments})
			if err != nil {
				return usageError("%s: %s", file, err)
			}
			if isNew {
				err = os.WriteFile(file, after, 0o644)
			} else {
				err = replaceFile(file, before, after)
			}
			if err != nil {
				return err
			}
			e, err := list.FindServer(s.Name)
			if err != nil {
				return err
			}
			return a.printOutput(output, describeEntry(e), func(w io.Writer) {
				showServer(w, s, e)
				fmt.Fprintf(w, "\nadded to %s, version %d. Next: biplane registry sign %[1]s --key FILE\n",
					cleanLine(file),
					list.Version)
			})
		},
	}
	addFrom(c, &from)
	f := c.Flags()
	f.Lookup("from").DefValue = ""
	f.StringVar(&version, "version", "", "the version of the server in a registry (default the latest)")
	f.StringVar(&file, "list", "", "the `file` with the list")
	f.StringVar(&versions, "versions", "", "approve a `range` of versions, such as '^1.2.0' or '>=1.2.0 <3.0.0'")
	f.StringVar(&arguments, "arguments", "", "which arguments are approved: listed or any (default listed)")
	completeWords(c, "arguments", "listed", "any")
	addOutput(c, &output)
	return c
}
