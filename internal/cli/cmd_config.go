package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func configCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check and show the configuration",
		Example: "  biplane config check\n  biplane config show --config .mcp.json",
		Args:    noArguments,
		RunE:    showHelp,
	}
	c.AddCommand(configCheckCommand(a), configShowCommand(a))
	return c
}

// checkReport is the output of `config check -o json`.
type checkReport struct {
	File     string           `json:"file"` // empty if there is none
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
	Warnings []config.Problem `json:"warnings"`
	// tool names that are unknown or could not be checked
	Names []string `json:"names,omitempty"`
}

func configCheckCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "check",
		Short: "Report every error in the configuration",
		Long: `Checks the configuration, and reports every error with its line and column. It starts nothing. Files and
folders of upstreams that are missing are reported as warnings. Names of tools are compared with those in the
data folder, which the upstreams listed last. "biplane tools" lists them again.`,
		Example: "  biplane config check\n  biplane config check --config team.yaml -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := checkReport{Problems: []config.Problem{}, Warnings: []config.Problem{}}
			s, err := config.Load(a.config, daemon.StrongestTier())
			if err == nil {
				_, err = s.Engine()
			}
			var wrong *config.Error
			switch {
			case errors.As(err, &wrong):
				r.File, r.Problems = wrong.File, wrong.Problems
			case err != nil:
				return err
			default:
				r.OK, r.File = true, relativePath(s.File)
				r.Warnings = append(append(r.Warnings, s.Warnings...), s.ListMissing()...)
				if r.Names, err = a.checkNames(cmd.Context(), s); err != nil {
					return err
				}
			}
			if perr := a.printOutput(output, r, func(w io.Writer) { a.checkTable(w, r, s) }); perr != nil {
				return perr
			}
			if wrong != nil {
				if output != "table" {
					return failSilently(exitUsage)
				}
				return err
			}
			return nil
		},
	}
	addOutput(c, &output)
	return c
}

// checkNames returns the errors in names of tools, as far as they can be checked without starting
// anything.
func (a *app) checkNames(ctx context.Context, s *config.Config) ([]string, error) {
	folder, err := config.DataFolder(a.dataDir)
	if err != nil {
		return nil, err
	}
	lines, err := daemon.CheckNames(ctx, s, folder)
	if err != nil {
		lines = []string{"the names of tools could not be checked: " + err.Error()}
	}
	return lines, nil
}

// relativePath returns path relative to the working folder, if it is inside it.
func relativePath(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if path == "" || err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return rel
}

func (a *app) checkTable(w io.Writer, r checkReport, s *config.Config) {
	for _, p := range r.Warnings {
		fmt.Fprintf(a.Err, "%s:%d:%d: %s\n", r.File, p.Line, p.Column, p.Message)
	}
	for _, line := range r.Names {
		fmt.Fprintf(a.Err, "%s: %s\n", r.File, cleanLine(line))
	}
	switch {
	case !r.OK:
	case r.File == "":
		fmt.Fprintln(w, "no configuration: there are no upstream tools")
	default:
		others := ""
		if len(s.APIs) > 0 {
			others = ", " + text.Count(len(s.APIs), "other upstream")
		}
		fmt.Fprintf(w, "%s is good: %s%s, mode %s, policy %s\n", r.File, text.Count(len(s.Servers), "MCP server"),
			others, s.Mode, s.Policy)
	}
}

func configShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show the configuration in effect, without secrets",
		Example: "  biplane config show\n  biplane config show -o json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			s, err := config.Load(a.config, daemon.StrongestTier())
			if err != nil {
				return err
			}
			dir, err := config.DataFolder(a.dataDir)
			if err != nil {
				return err
			}
			v := s.Shown(dir)
			return a.printOutput(output, v, func(w io.Writer) { showTable(w, v) })
		},
	}
	addOutput(c, &output)
	return c
}

func showTable(w io.Writer, v *config.Shown) {
	file := v.File
	if file == "" {
		file = "none"
	}
	b, n := v.Sandbox, v.Sessions
	writeColumns(w,
		[]string{"configuration", file}, []string{"data folder", v.DataDir}, []string{"mode", v.Mode},
		[]string{"policy", v.Policy},
		[]string{"listen", v.Listen}, []string{"auth", v.Auth.String()}, []string{"tls", v.TLS},
		[]string{"start_wait", v.StartWait}, []string{"sandbox.tier", b.Tier}, []string{"sandbox.memory", b.Memory},
		[]string{"sandbox.cpu", b.CPU}, []string{"sandbox.output_tokens", strconv.Itoa(b.OutputTokens)},
		[]string{"sandbox.calls", strconv.Itoa(b.Calls)},
		[]string{"sandbox.concurrency", strconv.Itoa(b.Concurrency)}, []string{"sandbox.process", b.Process},
		[]string{"sessions.idle", n.Idle}, []string{"sessions.unused", n.Unused},
		[]string{"sessions.max_age", n.MaxAge}, []string{"sessions.size", n.Size},
		[]string{"sessions.workspace", n.Workspace}, []string{"sessions.files", strconv.Itoa(n.Files)},
		[]string{"sessions.count", strconv.Itoa(n.Count)},
		[]string{"sessions.hot", strconv.Itoa(n.Hot)}, []string{"sessions.frozen_idle", n.FrozenIdle},
		[]string{"sessions.frozen", strconv.Itoa(n.Frozen)},
		[]string{"sessions.frozen_each", strconv.Itoa(n.FrozenEach)},
		[]string{"sessions.frozen_memory", n.FrozenMemory},
		[]string{"sessions.suspend_after", n.SuspendAfter},
		[]string{"journal.keep", v.Journal.Keep}, []string{"journal.bytes", v.Journal.Bytes},
		[]string{"usage.keep", v.Usage.Keep}, []string{"usage.hours", v.Usage.Hours},
		[]string{"prices", cmp.Or(strings.Join(v.Usage.Prices, "; "), "none")},
		[]string{"definitions.lock", cmp.Or(v.Definitions.Lock, "none")},
		[]string{"definitions.changed", v.Definitions.Changed}, []string{"definitions.new", v.Definitions.New},
		[]string{"definitions.findings", v.Definitions.Findings})
	showAudit(w, v.Audit)
	for _, name := range slices.Sorted(maps.Keys(v.Profiles)) {
		p := v.Profiles[name]
		rows := [][]string{{"profiles." + name, "/mcp/" + name}, {"  mode", p.Mode},
			{"  tools", strings.Join(p.Tools, ", ")}}
		if p.Instructions != "" {
			rows = append(rows, []string{"  instructions", shortenLine(p.Instructions, 100)})
		}
		fmt.Fprintln(w)
		writeColumns(w, rows...)
	}
	for _, s := range v.Servers {
		fmt.Fprintln(w)
		rows := [][]string{{"mcpServers." + s.Name, s.Type}}
		add := func(k, v string) {
			if v != "" {
				rows = append(rows, []string{"  " + k, v})
			}
		}
		if s.Disabled {
			add("disabled", "true")
		}
		add("command", s.Command)
		add("args", strings.Join(s.Args, " "))
		add("cwd", s.Dir)
		add("url", s.URL)
		add("timeout", s.Timeout)
		add("credentials", s.Credentials)
		add("idle", s.Idle)
		for _, k := range slices.Sorted(maps.Keys(s.Env)) {
			add("env "+k, s.Env[k])
		}
		for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
			add("header "+k, s.Headers[k])
		}
		if o := s.OAuth; o != nil {
			add("oauth client_id", o.ClientID)
			add("oauth client_secret", o.ClientSecret)
			add("oauth issuer", o.Issuer)
			add("oauth scopes", strings.Join(o.Scopes, " "))
			if o.RedirectPort > 0 {
				add("oauth redirect_port", strconv.Itoa(o.RedirectPort))
			}
		}
		writeColumns(w, rows...)
	}
}

// showAudit writes the configuration of the record.
func showAudit(w io.Writer, v config.ShownAudit) {
	rows := [][]string{{"audit.arguments", v.Arguments}, {"audit.results", v.Results}, {"audit.keep", v.Keep}}
	if v.Origin != "" {
		rows = append(rows, []string{"audit.origin", v.Origin})
	}
	if len(v.Secrets) > 0 {
		rows = append(rows, []string{"audit.secrets", strings.Join(v.Secrets, ", ")})
	}
	rows = append(rows, []string{"audit.checkpoints.every", v.Every})
	for _, place := range v.Checkpoints {
		rows = append(rows, []string{"audit.checkpoints", place})
	}
	writeColumns(w, rows...)
}
