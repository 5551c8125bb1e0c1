package cli

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/registry"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// addReport is the output of `registry add -o json`.
type addReport struct {
	Server   string `json:"server"`
	Version  string `json:"version,omitempty"`
	Name     string `json:"name"`           // in the configuration
	File     string `json:"file,omitempty"` // that was changed
	Approved bool   `json:"approved"`
	*registry.Definition
}

func registryAddCommand(a *app) *cobra.Command {
	var output, from, version, as, use string
	var values, secrets []string
	var runtime, dryRun bool
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a server to the configuration",
		Long: `Adds a server of the list of approved servers to mcpServers in the configuration. Comments and the
order of the file stay as they are. NAME may be the part of the name after the slash.

Secrets are never written to the file. The entry refers to them (${secret:NAME}), and the command prints
which ones to set. Other values are set with --set.

A description in a registry is not trusted. Arguments and environment variables in it that change how its
package is run are refused, unless --allow-runtime accepts them. Packages are always pinned to a version.`,
		Example: `  biplane registry add weather
  biplane registry add filesystem --set directory=/data --as files
  biplane registry add io.github.user/weather --from public --dry-run
  biplane registry add com.example/weather --from server.json --use remote`,
		Args:              exactlyOne("NAME", "the name of a server"),
		ValidArgsFunction: completer{a}.completeEntry,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, e, err := a.findServer(cmd.Context(), from, args[0], version)
			if err != nil {
				return err
			}
			set, err := cutPairs(values)
			if err != nil {
				return err
			}
			d, err := s.ConfigureServer(registry.Choice{Use: use, Values: set, Secrets: secrets, Trusted: e != nil ||
				runtime})
			if err != nil {
				return err
			}
			r := addReport{Server: s.Name, Version: s.Version, Name: as, Approved: e != nil, Definition: d}
			if r.Name == "" {
				r.Name = nameUpstream(s)
			}
			if !dryRun {
				if r.File, err = addServer(a.config, r.Name, d); err != nil {
					return err
				}
			}
			return a.printOutput(output, r, func(w io.Writer) { showAddition(w, &r) })
		},
	}
	addFrom(c, &from)
	f := c.Flags()
	f.StringVar(&version, "version", "", "the version of the server in a registry (default the latest)")
	f.StringVar(&as, "as", "", "the `name` in the configuration (default the last part of the server's name)")
	f.StringVar(&use, "use", "", "what to use if the server has several: npm, pypi, oci or remote (default the first)")
	f.StringArrayVar(&values, "set", nil, "set a value that the server needs: `NAME=VALUE`")
	f.StringArrayVar(&secrets, "secret", nil, "also refer to this optional secret: `NAME`")
	f.BoolVar(&runtime, "allow-runtime", false, "accept arguments and variables that change how a package is run")
	f.BoolVar(&dryRun, "dry-run", false, "show the entry, and write nothing")
	completeWords(c, "use", "npm", "pypi", "oci", "remote")
	addOutput(c, &output)
	return c
}

// nameUpstream returns the name of a server in the configuration.
func nameUpstream(s *registry.Server) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s.ShortName()), "-")
	if name == "" || name == "biplane" {
		return "server"
	}
	return name
}

// addServer adds an entry to the configuration file, which --config may name. It returns the path.
func addServer(named, name string, d *registry.Definition) (string, error) {
	path, err := config.Find(named)
	if err != nil {
		return "", err
	}
	if path == "" {
		if path, err = filepath.Abs("biplane.yaml"); err != nil {
			return "", err
		}
	}
	e := config.ServerEntry{Type: d.Type, Command: d.Command, Args: d.Args, Env: d.Env, URL: d.URL, Headers: d.Headers}
	return relativePath(path), config.AddServer(path, name, e, daemon.StrongestTier())
}

// showAddition prints an entry, and what is left to do.
func showAddition(w io.Writer, r *addReport) {
	fmt.Fprintf(w, "%s: %s\n", cleanLine(r.Name), cleanLine(strings.TrimSpace(r.Server+" "+r.Version)))
	if r.URL != "" {
		fmt.Fprintln(w, "  "+cleanLine(r.URL))
	} else {
		fmt.Fprintln(w, "  "+cleanLine(strings.Join(append([]string{r.Command}, r.Args...), " ")))
	}
	for _, part := range []struct {
		what   string
		values map[string]string
	}{{"env ", r.Env}, {"header ", r.Headers}} {
		for _, k := range slices.Sorted(maps.Keys(part.values)) {
			v := part.values[k]
			if !strings.Contains(v, "${secret:") && mask.IsSecret(k, v) {
				v = "<redacted>"
			}
			fmt.Fprintln(w, "  "+part.what+cleanLine(k+"="+v))
		}
	}
	if r.File == "" {
		fmt.Fprintln(w, "nothing was written")
	} else {
		fmt.Fprintf(w, "added to %s\n", cleanLine(r.File))
	}
	for _, s := range r.Secrets {
		fmt.Fprintf(w, "set the secret: biplane secrets set %s%s\n", cleanLine(s.Name), describeSecret(s))
	}
	for _, s := range r.Optional {
		fmt.Fprintf(w, "optional secret, add it with --secret %s%s\n", cleanLine(s.Name), describeSecret(s))
	}
	if !r.Approved {
		fmt.Fprintln(w, "No one has approved this server: look at what it runs before you use it.")
	}
}

func describeSecret(s registry.Secret) string {
	if s.Description == "" {
		return " (" + cleanLine(s.For) + ")"
	}
	return " (" + cleanLine(s.For) + ": " + shortenLine(s.Description, 80) + ")"
}
