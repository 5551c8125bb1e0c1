package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func keysCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Create and revoke the API keys of agents",
		Long: `An API key identifies an agent to biplane serve, if the configuration has sign-in (auth). Give each
agent a key of its own: then it has its own sessions, executions and records, and its key can be revoked
alone. Only a hash of the key is stored. The key is shown once, when it is created.`,
		Example: `  biplane keys create ci
  biplane keys create reporting --scope 'github.*' --expires 90d
  biplane keys list
  biplane keys rotate ci --grace 1h
  biplane keys revoke ci`,
		Args: noArguments,
	}
	list := keysListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, keysCreateCommand(a), keysRotateCommand(a), keysRevokeCommand(a))
	return c
}

func keysListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the keys",
		Example: "  biplane keys list\n  biplane keys list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, listOf((*api.Client).Keys, api.KeyClient.List), tableOfKeys)
		},
	}
	addOutput(c, &output)
	return c
}

func tableOfKeys(w io.Writer, all []api.Key) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No keys: biplane keys create NAME creates one.")
		return
	}
	rows := [][]string{{"KEY", "STATE", "ROLES", "SCOPES", "TOOLS", "GROUPS", "PERSON", "CREATED", "EXPIRES",
		"LAST USED"}}
	for _, k := range all {
		tools := strings.Join(k.Tools, ", ")
		if tools == "" {
			tools = "all"
		}
		rows = append(rows, []string{k.Name, k.State, strings.Join(k.Roles, ", "), strings.Join(k.Scopes, ", "), tools,
			orDash(strings.Join(k.Groups, ", ")), orDash(k.Person),
			formatMoment(k.Created), momentOf(k.Expires), momentOf(k.Used)})
	}
	writeColumns(w, rows...)
}

// momentOf formats a time, "-" if nil.
func momentOf(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return formatMoment(*t)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func keysCreateCommand(a *app) *cobra.Command {
	var output, expires string
	var req api.KeyRequest
	var scopes []string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a key and show it once",
		Long: `Creates a key and prints it. It is not shown again. NAME is the agent's name in the record, and can't be
used again.

A scope is mcp (speak MCP), api (use the HTTP API) or a pattern of tools ('github.*', 'jira.search').
--scope may be repeated. Without mcp and api the key gets mcp. Without a pattern it reaches all tools
that policy allows.

A role is user (call tools, run programs; the usual one), viewer, auditor, approver or admin.

A group is a name that policies use: principal in Group::"leads", or @ask("leads"), which a key with the
role approver and this group decides.`,
		Example: `  biplane keys create ci
  biplane keys create reporting --scope 'github.*' --scope 'jira.search' --expires 90d
  biplane keys create dashboards --role viewer --scope api
  biplane keys create lead --role approver --group leads --scope api
  biplane keys create ann-laptop --person ann@example.com -o json`,
		Args: exactlyOne("NAME", "a name for the key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Name = args[0]
			for _, s := range scopes {
				if s == "mcp" || s == "api" {
					req.Scopes = append(req.Scopes, s)
				} else {
					req.Tools = append(req.Tools, s)
				}
			}
			var err error
			if req.ExpiresSeconds, err = secondsOf("--expires", expires); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				k, err := client.Keys().Create(ctx, req)
				if err != nil {
					return err
				}
				return a.printKey(output, k)
			})
		},
	}
	c.Flags().StringArrayVar(&scopes, "scope", nil,
		"a scope: mcp, api, or a `pattern` of tools; may be repeated (default mcp)")
	c.Flags().StringArrayVar(&req.Roles, "role", nil,
		"a role of its owner: user, viewer, auditor, approver or admin; may be repeated (default user)")
	c.Flags().StringArrayVar(&req.Groups, "group", nil,
		"a `group` of its owner, as named in policies and approvals; may be repeated")
	c.Flags().StringVar(&req.Person, "person", "", "the person that the agent acts for, for the record")
	c.Flags().StringVar(&expires, "expires", "",
		"how long the key is valid, a `time` like 90d or 12h (default: until it is revoked)")
	completeWords(c, "role", "user", "viewer", "auditor", "approver", "admin")
	completeWords(c, "scope", "mcp", "api")
	addOutput(c, &output)
	return c
}

// printKey prints a new key. Only the key itself goes to standard output, so that it can be piped;
// the rest goes to standard error.
func (a *app) printKey(output string, k *api.Key) error {
	return a.printOutput(output, k, func(w io.Writer) {
		fmt.Fprintln(w, cleanLine(k.Key))
		use := "give it to the agent as Authorization: Bearer <key>"
		if !slices.Contains(k.Scopes, "mcp") {
			use = "sign in to the console with it, or send it as Authorization: Bearer <key>"
		}
		fmt.Fprintf(a.Err, "biplane: this is key %s. It is not shown again: %s.\n", cleanLine(k.Name), use)
		if k.OldUntil != nil {
			fmt.Fprintf(a.Err, "biplane: the previous key is valid until %s.\n", formatMoment(*k.OldUntil))
		}
	})
}

func keysRotateCommand(a *app) *cobra.Command {
	var output, grace string
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a key, keeping its name",
		Long: `Creates a new key for the same agent, with the same sessions, scopes and roles, and prints it. The old
key is refused at once, and its connections are closed. With --grace it stays valid for a while.`,
		Example:           "  biplane keys rotate ci\n  biplane keys rotate ci --grace 24h",
		Args:              exactlyOne("NAME", "the name of a key"),
		ValidArgsFunction: completer{a}.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := secondsOf("--grace", grace)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				k, err := client.Keys().Rotate(ctx, args[0], api.RotateRequest{GraceSeconds: s})
				if err != nil {
					return err
				}
				return a.printKey(output, k)
			})
		},
	}
	c.Flags().StringVar(&grace, "grace", "",
		"how long the old key stays valid, a `time` like 24h or 7d (default: not at all)")
	addOutput(c, &output)
	return c
}

func keysRevokeCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a key immediately and permanently",
		Long: `Revokes a key. Requests with it are refused from now on, its MCP sessions are closed, and its running
programs can no longer call tools. Its name can't be used again, since the record names it.`,
		Example:           "  biplane keys revoke ci",
		Args:              exactlyOne("NAME", "the name of a key"),
		ValidArgsFunction: completer{a}.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printOne(a, cmd, output, getterOf((*api.Client).Keys, api.KeyClient.Revoke), args[0],
				func(w io.Writer, k *api.Key) { fmt.Fprintf(w, "Key %s is revoked.\n", cleanLine(k.Name)) })
		},
	}
	addOutput(c, &output)
	return c
}

// completeKeys completes the name of a key that is not revoked.
func (a completer) completeKeys(cmd *cobra.Command, args []string, _ string) (names []string,
	_ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Keys().List(ctx)
		for _, k := range all {
			if k.State != api.KeyRevoked {
				names = append(names, k.Name)
			}
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// secondsOf parses a duration like 90d, 12h or 30m, and returns whole seconds. It returns 0 for an
// empty text.
func secondsOf(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	wrong := usageError("%s must be a duration such as 90d, 12h or 30m, not %q", flag, shortenLine(text, 40))
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n == 0 {
			return 0, wrong
		}
		return int64(n) * 24 * 3600, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, wrong
	}
	return int64(d / time.Second), nil
}
