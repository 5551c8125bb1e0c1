package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/registry"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func registryCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "registry",
		Short: "List and add the MCP servers that the team approves",
		Long: `A list of approved servers is a signed file that the configuration names (registry.source). These
commands show the list, and add servers from it to the configuration. With registry.only, a server that
is not on the list is not started.

--from public uses the public MCP registry instead of the list, --from with an address another registry
with the same API, and --from with a file a server.json.`,
		Example: `  biplane registry list
  biplane registry add weather
  biplane registry search weather --from public
  biplane registry add io.github.user/weather --from public`,
		Args: noArguments,
	}
	list := registryListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, registryShowCommand(a), registrySearchCommand(a), registryAddCommand(a),
		registryApproveCommand(a), registrySignCommand(a), registryKeygenCommand(a))
	return c
}

// openList reads the configuration and its list of approved servers.
func (a *app) openList(ctx context.Context, refresh bool) (*config.Config, *registry.Accepted, error) {
	s, err := config.Load(a.config, daemon.StrongestTier())
	if err != nil {
		return nil, nil, err
	}
	if s.Registry.Source == "" {
		return nil, nil, usageError("the configuration names no list of approved servers (registry.source); for the " +
			"public MCP registry, add --from public")
	}
	folder, err := config.DataFolder(a.dataDir)
	if err != nil {
		return nil, nil, err
	}
	source := s.Registry.DescribeSource(folder)
	source.Refresh = refresh
	list, err := registry.OpenList(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	if list.Problem != "" {
		fmt.Fprintln(a.Err, "biplane: this is the list that was accepted last: "+cleanLine(list.Problem))
	}
	return s, list, nil
}

// openRegistry returns the registry that --from names, or nil if it names something else.
func (a *app) openRegistry(from string) (*registry.Registry, error) {
	address := from
	if from == "public" {
		s, err := config.Load(a.config, daemon.StrongestTier())
		if err != nil {
			return nil, err
		}
		address = s.Registry.Public
	} else if !registry.IsAddress(from) {
		return nil, nil
	}
	r, err := registry.NewRegistry(address)
	if err != nil {
		return nil, usageError("--from %s: %s", from, err)
	}
	return r, nil
}

// findServer returns the server with a name, and whether the team approves it.
func (a *app) findServer(ctx context.Context, from, name, version string) (*registry.Server, *registry.Entry, error) {
	if from == "list" {
		_, list, err := a.openList(ctx, true)
		if err != nil {
			return nil, nil, err
		}
		e, err := list.FindServer(name)
		if err != nil {
			return nil, nil, err
		}
		if version != "" {
			return nil, nil, usageError("--version is for registries: the list has one version of each server")
		}
		return &e.Server, e, nil
	}
	r, err := a.openRegistry(from)
	if err != nil {
		return nil, nil, err
	}
	if r != nil {
		s, err := r.FetchServer(ctx, name, version)
		return s, nil, err
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return nil, nil, usageError("--from is list, public, the address of a registry or a file: %s", err)
	}
	s, err := registry.ParseServer(raw)
	switch {
	case err != nil:
		return nil, nil, usageError("%s: %s", from, err)
	case s.Name != name && s.ShortName() != name:
		return nil, nil, usageError("%s describes the server %s, not %s", from, s.Name, name)
	}
	return s, nil, nil
}

func addFrom(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "from", "list",
		"where the server is: list, public, the `address` of a registry, or a file with a server.json")
	completeWords(c, "from", "list", "public")
}

// registryReport is the output of `registry list -o json`.
type registryReport struct {
	Name    string            `json:"list"`
	Version int64             `json:"version"`
	Source  string            `json:"source"`
	Signer  string            `json:"signed_by,omitempty"`
	Only    bool              `json:"only"`
	Expires string            `json:"expires,omitempty"`
	Problem string            `json:"problem,omitempty"`
	Servers []*registryServer `json:"servers"`
	APIs    []string          `json:"apis,omitempty"`
	Local   bool              `json:"local,omitempty"`
}

// registryServer is one server in output.
type registryServer struct {
	Name        string   `json:"name"`
	Version     string   `json:"version,omitempty"`
	Versions    string   `json:"versions,omitempty"` // the approved ones, if it is a range
	Runs        []string `json:"runs"`
	Description string   `json:"description,omitempty"`
}

func describeServer(s *registry.Server) *registryServer {
	out := &registryServer{Name: s.Name, Version: s.Version, Description: s.CleanSummary(), Runs: []string{}}
	for _, p := range s.Packages {
		text := p.RegistryType + " " + p.Identifier
		if p.Version != "" {
			text += "@" + p.Version
		}
		out.Runs = append(out.Runs, text)
	}
	for _, t := range s.Remotes {
		out.Runs = append(out.Runs, registry.ShowPlace(t.URL))
	}
	return out
}

func describeEntry(e *registry.Entry) *registryServer {
	out := describeServer(&e.Server)
	out.Versions = e.Versions
	for _, c := range e.Commands {
		out.Runs = append(out.Runs, strings.Join(c, " "))
	}
	return out
}

func registryListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the approved servers",
		Long: `Reads the list of approved servers, checks its signature, and prints it. If its address can't be read,
the list that was accepted last is printed.`,
		Example: "  biplane registry list\n  biplane registry list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, list, err := a.openList(cmd.Context(), true)
			if err != nil {
				return err
			}
			r := registryReport{Name: list.Name, Version: list.Version, Source: registry.ShowPlace(list.Place),
				Signer: list.Signer, Only: s.Registry.Only, Problem: list.Problem, Servers: []*registryServer{},
				APIs: list.APIs, Local: list.Local}
			if !list.Expires.IsZero() {
				r.Expires = momentOf(&list.Expires)
			}
			for i := range list.Servers {
				r.Servers = append(r.Servers, describeEntry(&list.Servers[i]))
			}
			return a.printOutput(output, r, func(w io.Writer) { tableOfRegistry(w, &r) })
		},
	}
	addOutput(c, &output)
	return c
}

func tableOfRegistry(w io.Writer, r *registryReport) {
	signed := "not signed"
	if r.Signer != "" {
		signed = "signed by " + r.Signer
	}
	fmt.Fprintf(w, "%s, version %d, of %s, %s\n", cleanLine(r.Name), r.Version, cleanLine(r.Source), signed)
	if r.Expires != "" {
		fmt.Fprintf(w, "valid until %s\n", r.Expires)
	}
	if r.Only {
		fmt.Fprintln(w, "Only these servers are started (registry.only).")
	}
	fmt.Fprintln(w)
	tableOfServers(w, r.Servers)
	for _, api := range r.APIs {
		fmt.Fprintln(w, cleanLine("API "+api))
	}
	if r.Local {
		fmt.Fprintln(w, "tool folders")
	}
}

func tableOfServers(w io.Writer, all []*registryServer) {
	rows := [][]string{{"SERVER", "VERSIONS", "RUNS", "DESCRIPTION"}}
	for _, s := range all {
		versions := s.Versions
		if versions == "" {
			versions = s.Version
		}
		rows = append(rows, []string{s.Name, orDash(versions), orDash(strings.Join(s.Runs, ", ")),
			shortenLine(s.Description, 60)})
	}
	writeColumns(w, rows...)
}

func registryShowCommand(a *app) *cobra.Command {
	var output, from, version string
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a server: what it runs, and which values it needs",
		Example: "  biplane registry show weather\n" +
			"  biplane registry show io.github.user/weather --from public --version 1.0.2",
		Args:              exactlyOne("NAME", "the name of a server"),
		ValidArgsFunction: completer{a}.completeEntry,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, e, err := a.findServer(cmd.Context(), from, args[0], version)
			if err != nil {
				return err
			}
			if e != nil {
				return a.printOutput(output, e, func(w io.Writer) { showServer(w, s, e) })
			}
			return a.printOutput(output, s, func(w io.Writer) { showServer(w, s, nil) })
		},
	}
	addFrom(c, &from)
	c.Flags().StringVar(&version, "version", "", "the version of the server in a registry (default the latest)")
	addOutput(c, &output)
	return c
}

// showServer prints a description, with its inputs.
func showServer(w io.Writer, s *registry.Server, e *registry.Entry) {
	fmt.Fprintln(w, cleanLine(strings.TrimSpace(s.Name+" "+s.Version)))
	if s.CleanSummary() != "" {
		fmt.Fprintln(w, cleanLine(s.CleanSummary()))
	}
	if e != nil {
		rows := [][]string{{"approved versions", orDash(e.Versions)}, {"approved arguments", "listed"}}
		if e.Versions == "" {
			rows[0][1] = "those stated"
		}
		if e.Arguments != "" {
			rows[1][1] = e.Arguments
		}
		for _, c := range e.Commands {
			rows = append(rows, []string{"approved command", strings.Join(c, " ")})
		}
		writeColumns(w, rows...)
	}
	for i := range s.Packages {
		p := &s.Packages[i]
		fmt.Fprintf(w, "\n%s package %s %s\n", cleanLine(p.RegistryType), cleanLine(p.Identifier), cleanLine(p.Version))
		var rows [][]string
		for _, x := range p.RuntimeArguments {
			rows = append(rows, describeArgument("runtime argument", &x))
		}
		for _, x := range p.PackageArguments {
			rows = append(rows, describeArgument("argument", &x))
		}
		for _, x := range p.Environment {
			rows = append(rows, describeSetting("environment", x.Name, &x))
		}
		writeColumns(w, rows...)
	}
	for i := range s.Remotes {
		t := &s.Remotes[i]
		fmt.Fprintf(w, "\nremote %s (%s)\n", cleanLine(t.URL), cleanLine(t.Type))
		var rows [][]string
		for name, v := range t.Variables {
			rows = append(rows, describeSetting("variable", name, &registry.Setting{Input: v}))
		}
		slices.SortFunc(rows, slices.Compare)
		for _, x := range t.Headers {
			rows = append(rows, describeSetting("header", x.Name, &x))
		}
		writeColumns(w, rows...)
	}
}

func describeArgument(kind string, x *registry.Argument) []string {
	name := x.Name
	if x.Type == "positional" {
		name = x.ValueHint
	}
	return describeSetting(kind, orDash(name), &x.Setting)
}

func describeSetting(kind, name string, x *registry.Setting) []string {
	var notes []string
	if x.IsRequired {
		notes = append(notes, "required")
	}
	if x.IsSecret {
		notes = append(notes, "secret")
	}
	switch {
	case x.Value != "":
		notes = append(notes, "always "+x.Value)
	case x.Default != "":
		notes = append(notes, "default "+x.Default)
	}
	if len(x.Choices) > 0 {
		notes = append(notes, "one of "+strings.Join(x.Choices, ", "))
	}
	return []string{kind, name, orDash(strings.Join(notes, ", ")), shortenLine(x.Description, 80)}
}

func registrySearchCommand(a *app) *cobra.Command {
	var output, from string
	c := &cobra.Command{
		Use:   "search TEXT",
		Short: "Find servers by their name or description",
		Long: `Finds servers on the list whose name or description has the text in it. A registry searches in
the names of servers only.`,
		Example: "  biplane registry search weather\n  biplane registry search weather --from public",
		Args:    exactlyOne("TEXT", "a part of a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			found := []*registryServer{}
			r, err := a.openRegistry(from)
			switch {
			case err != nil:
				return err
			case r != nil:
				all, err := r.SearchServers(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				for _, s := range all {
					found = append(found, describeServer(s))
				}
			case from != "list":
				return usageError("--from is list, public, or the address of a registry")
			default:
				_, list, err := a.openList(cmd.Context(), true)
				if err != nil {
					return err
				}
				word := strings.ToLower(args[0])
				for i := range list.Servers {
					s := &list.Servers[i].Server
					if strings.Contains(strings.ToLower(s.Name+" "+s.Title+" "+s.Description), word) {
						found = append(found, describeEntry(&list.Servers[i]))
					}
				}
			}
			return a.printOutput(output, found, func(w io.Writer) {
				if len(found) == 0 {
					fmt.Fprintln(w, "no server found")
					return
				}
				tableOfServers(w, found)
			})
		},
	}
	addFrom(c, &from)
	addOutput(c, &output)
	return c
}

// completeEntry completes the name of a server on the list.
func (a completer) completeEntry(cmd *cobra.Command, args []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	quiet := *a.app
	quiet.Err = io.Discard
	_, list, err := quiet.openList(cmd.Context(), false)
	if err != nil { // a shell shows no errors
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for i := range list.Servers {
		if s := &list.Servers[i].Server; strings.HasPrefix(s.Name, prefix) || strings.HasPrefix(s.ShortName(), prefix) {
			name := s.Name
			if strings.HasPrefix(s.ShortName(), prefix) && prefix != "" {
				name = s.ShortName()
			}
			out = append(out, name+"\t"+shortenLine(s.CleanSummary(), 60))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// cutPairs parses the values of --set.
func cutPairs(all []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range all {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError("--set %s: write NAME=VALUE", cleanLine(text))
		}
		out[name] = value
	}
	return out, nil
}
