package cli

import (
	"cmp"
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

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/prose"
)

func configCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check and show the configuration",
		Example: "  biplane config check\n  biplane config show --config .mcp.json",
		Args:    none,
		RunE:    overview,
	}
	c.AddCommand(configCheckCommand(a), configShowCommand(a))
	return c
}

// checked is what `config check -o json` prints.
type checked struct {
	File     string           `json:"file"` // empty when there is none
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
	Warnings []config.Problem `json:"warnings"`
}

func configCheckCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "check",
		Short:   "Say all that is wrong in the configuration",
		Long:    `Reads the configuration, and says all that is wrong in it, each with its line and column. Nothing is started.`,
		Example: "  biplane config check\n  biplane config check --config team.yaml -o json",
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			r := checked{Problems: []config.Problem{}, Warnings: []config.Problem{}}
			s, err := config.Load(a.config)
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
				r.OK, r.File = true, relative(s.File)
				r.Warnings = append(r.Warnings, s.Warnings...)
			}
			if perr := a.print(output, r, func(w io.Writer) { a.checkTable(w, r, s) }); perr != nil {
				return perr
			}
			if wrong != nil {
				if output == "json" {
					return told(exitUsage)
				}
				return err
			}
			return nil
		},
	}
	addOutput(c, &output)
	return c
}

// relative is a path as people write it: from the working folder, if it is below that.
func relative(path string) string {
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

func (a *app) checkTable(w io.Writer, r checked, s *config.Config) {
	for _, p := range r.Warnings {
		fmt.Fprintf(a.Err, "%s:%d:%d: %s\n", r.File, p.Line, p.Column, p.Message)
	}
	switch {
	case !r.OK:
	case r.File == "":
		fmt.Fprintln(w, "no configuration: there are no upstream tools")
	default:
		fmt.Fprintf(w, "%s is good: %s, mode %s, policy %s\n", r.File, prose.Count(len(s.Servers), "MCP server"), s.Mode, s.Policy)
	}
}

// shown is what `config show -o json` prints.
type shown struct {
	File      string               `json:"file"`
	DataDir   string               `json:"data_dir"`
	Servers   []config.ShownServer `json:"mcpServers"`
	Mode      string               `json:"mode"`
	Policy    string               `json:"policy"`
	Listen    string               `json:"listen"`
	Auth      *shownAuth           `json:"auth,omitempty"`
	TLS       string               `json:"tls"` // none, terminated, or the file of the certificate
	StartWait string               `json:"start_wait"`
	Sandbox   shownSandbox         `json:"sandbox"`
	Sessions  shownSessions        `json:"sessions"`
	Journal   shownJournal         `json:"journal"`
	Usage     shownUsage           `json:"usage"`

	Audit config.ShownAudit `json:"audit"`
}

type shownJournal struct {
	Keep  string `json:"keep"`
	Bytes string `json:"bytes"`
}

type shownUsage struct {
	Keep   string   `json:"keep"`
	Hours  string   `json:"hours"`
	Prices []string `json:"prices"` // "3 USD in, 15 USD out", those of some clients with their pattern; empty: none
}

func showUsage(s *config.Config) shownUsage {
	out := shownUsage{Keep: prose.Setting(s.Usage.Keep), Hours: prose.Setting(s.Usage.Hours), Prices: []string{}}
	if p := s.Prices; p != nil {
		out.Prices = append(out.Prices, fmt.Sprintf("%g %s in, %g %s out", p.Default.Input, p.Currency, p.Default.Output, p.Currency))
		for _, c := range p.Special {
			out.Prices = append(out.Prices, fmt.Sprintf("%s: %g %s in, %g %s out", c.Pattern, c.Input, p.Currency, c.Output, p.Currency))
		}
	}
	return out
}

type shownAuth struct {
	Keys     bool                `json:"keys"`
	Resource string              `json:"resource,omitempty"`
	Issuers  []string            `json:"issuers,omitempty"`
	Roles    map[string][]string `json:"roles,omitempty"`
	text     string
}

func showAuth(a *config.Auth) *shownAuth {
	if a == nil {
		return nil
	}
	out := &shownAuth{Keys: a.Keys, Resource: a.Resource, Roles: a.Roles, text: a.String()}
	for _, i := range a.Issuers {
		out.Issuers = append(out.Issuers, i.Issuer)
	}
	return out
}

type shownSessions struct {
	Idle         string `json:"idle"`
	Unused       string `json:"unused"`
	MaxAge       string `json:"max_age"`
	Size         string `json:"size"`
	Workspace    string `json:"workspace"`
	Files        int    `json:"files"`
	Count        int    `json:"count"`
	Hot          int    `json:"hot"`
	SuspendAfter string `json:"suspend_after"`
}

type shownSandbox struct {
	Tier         string `json:"tier"`
	Memory       string `json:"memory"`
	CPU          string `json:"cpu"`
	OutputTokens int    `json:"output_tokens"`
	Calls        int    `json:"calls"`
	Concurrency  int    `json:"concurrency"`
	Process      string `json:"process"`
}

func configShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "show",
		Short:   "Show the configuration in effect, without secrets",
		Example: "  biplane config show\n  biplane config show -o json",
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			s, err := config.Load(a.config)
			if err != nil {
				return err
			}
			dir, err := config.DataFolder(a.dataDir)
			if err != nil {
				return err
			}
			v := show(s, dir)
			return a.print(output, v, func(w io.Writer) { showTable(w, v) })
		},
	}
	addOutput(c, &output)
	return c
}

func show(s *config.Config, dir string) shown {
	v := shown{
		File: s.File, DataDir: dir, Servers: []config.ShownServer{}, Mode: s.Mode, Policy: s.Policy, Listen: s.Listen, Auth: showAuth(s.Auth), TLS: s.TLS.String(), StartWait: s.StartWait.String(),
		Sandbox: shownSandbox{
			Tier: s.Sandbox.Tier.String(), Memory: config.FormatSize(s.Sandbox.Memory), CPU: s.Sandbox.CPU.String(),
			OutputTokens: s.Sandbox.OutputTokens, Calls: s.Sandbox.Calls, Concurrency: s.Sandbox.Concurrency,
			Process: cmp.Or(s.Sandbox.Process, "auto"),
		},
		Sessions: showSessions(s.Sessions.Complete()),
		Journal:  shownJournal{Keep: prose.Setting(s.Journal.Keep), Bytes: config.FormatSize(s.Journal.Bytes)},
		Usage:    showUsage(s),
		Audit:    s.Audit.Shown(),
	}
	for i := range s.Servers {
		v.Servers = append(v.Servers, s.Servers[i].Shown())
	}
	return v
}

func showSessions(s config.Sessions) shownSessions {
	after := "never"
	if s.SuspendAfter > 0 {
		after = prose.Setting(s.SuspendAfter)
	}
	return shownSessions{
		Idle: prose.Setting(s.Idle), Unused: prose.Setting(s.Unused), MaxAge: prose.Setting(s.MaxAge), Size: config.FormatSize(s.Size), Workspace: config.FormatSize(s.Workspace),
		Files: s.Files, Count: s.Count, Hot: s.Hot, SuspendAfter: after,
	}
}

func showTable(w io.Writer, v shown) {
	file := v.File
	if file == "" {
		file = "none"
	}
	auth := "none"
	if v.Auth != nil {
		auth = v.Auth.text
	}
	b, n := v.Sandbox, v.Sessions
	columns(w,
		[]string{"configuration", file}, []string{"data folder", v.DataDir}, []string{"mode", v.Mode}, []string{"policy", v.Policy},
		[]string{"listen", v.Listen}, []string{"auth", auth}, []string{"tls", v.TLS}, []string{"start_wait", v.StartWait}, []string{"sandbox.tier", b.Tier}, []string{"sandbox.memory", b.Memory},
		[]string{"sandbox.cpu", b.CPU}, []string{"sandbox.output_tokens", strconv.Itoa(b.OutputTokens)}, []string{"sandbox.calls", strconv.Itoa(b.Calls)},
		[]string{"sandbox.concurrency", strconv.Itoa(b.Concurrency)}, []string{"sandbox.process", b.Process},
		[]string{"sessions.idle", n.Idle}, []string{"sessions.unused", n.Unused}, []string{"sessions.max_age", n.MaxAge}, []string{"sessions.size", n.Size},
		[]string{"sessions.workspace", n.Workspace}, []string{"sessions.files", strconv.Itoa(n.Files)}, []string{"sessions.count", strconv.Itoa(n.Count)},
		[]string{"sessions.hot", strconv.Itoa(n.Hot)}, []string{"sessions.suspend_after", n.SuspendAfter},
		[]string{"journal.keep", v.Journal.Keep}, []string{"journal.bytes", v.Journal.Bytes},
		[]string{"usage.keep", v.Usage.Keep}, []string{"usage.hours", v.Usage.Hours}, []string{"prices", cmp.Or(strings.Join(v.Usage.Prices, "; "), "none")})
	showAudit(w, v.Audit)
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
		columns(w, rows...)
	}
}
