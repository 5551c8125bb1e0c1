package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/biplane-dev/biplane/api"
)

// maxSecretInput is the maximum size of a secret on standard input.
const maxSecretInput = 64<<10 + 2

func secretsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "secrets",
		Short: "Set and remove the secrets that the configuration names",
		Long: `An entry of an upstream in the configuration can refer to a secret: ${secret:NAME}. This command keeps
the values sealed in the data folder. It never prints them. An upstream whose secret is missing is down;
it starts when the secret is set.

An upstream with credentials: person uses the secrets of the principal that calls it, and no others.
--for sets and lists those.`,
		Example: `  biplane secrets set GITHUB_TOKEN
  biplane secrets set GITHUB_TOKEN --for key:ci
  biplane secrets
  biplane secrets remove GITHUB_TOKEN`,
		Args: noArguments,
	}
	list := secretsListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, secretsSetCommand(a), secretsRemoveCommand(a))
	return c
}

func secretsListCommand(a *app) *cobra.Command {
	var output, owner string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the secrets, without their values",
		Example: "  biplane secrets list\n  biplane secrets list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, func(c *api.Client, ctx context.Context) ([]api.Secret, error) {
				return c.Secrets().List(ctx, owner)
			}, tableOfSecrets)
		},
	}
	addOwner(c, &owner)
	addOutput(c, &output)
	return c
}

func tableOfSecrets(w io.Writer, all []api.Secret) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No secrets: biplane secrets set NAME sets one.")
		return
	}
	rows := [][]string{{"SECRET", "STATE", "CHANGED", "USED BY"}}
	for _, s := range all {
		rows = append(rows, []string{s.Name, s.State, momentOf(s.Changed), orDash(strings.Join(s.Uses, ", "))})
	}
	writeColumns(w, rows...)
}

func secretsSetCommand(a *app) *cobra.Command {
	var output, owner string
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret: its value is asked for, or read from standard input",
		Long: `Seals a secret in the data folder. At a terminal, the value is asked for and not shown. Otherwise it is
read from standard input; a line break at its end is not part of it. It is never an argument, because
other users of the machine can see those.`,
		Example: "  biplane secrets set GITHUB_TOKEN\n  pass show github | biplane secrets set GITHUB_TOKEN",
		Args:    exactlyOne("NAME", "the name of a secret"),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := a.readSecret(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				s, err := client.Secrets().Set(ctx, owner, args[0], value)
				if err != nil {
					return err
				}
				return a.printOutput(output, s, func(w io.Writer) {
					fmt.Fprintf(w, "secret %s is set%s\n", cleanLine(s.Name), formatOwner(s.Owner))
				})
			})
		},
	}
	addOwner(c, &owner)
	addOutput(c, &output)
	return c
}

// readSecret asks for a secret at the terminal without showing it, or reads it from standard input.
func (a *app) readSecret(ctx context.Context, name string) (string, error) {
	if in, ok := a.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		before, err := term.GetState(int(in.Fd()))
		if err != nil {
			return "", err
		}
		// an interrupt must not leave the terminal without echo
		stop := context.AfterFunc(ctx, func() { _ = term.Restore(int(in.Fd()), before) })
		defer stop()
		fmt.Fprintf(a.Err, "Value of %s (not shown): ", cleanLine(name))
		done := make(chan secretInput, 1)
		go func() {
			raw, err := term.ReadPassword(int(in.Fd()))
			done <- secretInput{raw, err}
		}()
		select {
		case got := <-done:
			fmt.Fprintln(a.Err)
			return string(got.raw), got.err
		case <-ctx.Done():
			fmt.Fprintln(a.Err)
			return "", context.Cause(ctx)
		}
	}
	raw, err := io.ReadAll(io.LimitReader(a.readInput(ctx), maxSecretInput+1))
	switch {
	case err != nil:
		return "", err
	case len(raw) > maxSecretInput:
		return "", usageError("the secret has more than %d bytes", maxSecretInput-2)
	case len(raw) == 0:
		return "", usageError("no value: write it to standard input, as in: pass show %s | biplane secrets set %[1]s",
			cleanLine(name))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), nil
}

// A secretInput is a user's input at the terminal.
type secretInput struct {
	raw []byte
	err error
}

func secretsRemoveCommand(a *app) *cobra.Command {
	var output, owner string
	c := &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"rm"},
		Short:             "Remove a secret from the data folder",
		Example:           "  biplane secrets remove GITHUB_TOKEN",
		Args:              exactlyOne("NAME", "the name of a secret"),
		ValidArgsFunction: completer{a}.completeSecrets,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if err := client.Secrets().Remove(ctx, owner, args[0]); err != nil {
					return err
				}
				return a.printOutput(output, map[string]string{"secret": args[0], "done": "remove"}, func(w io.Writer) {
					fmt.Fprintf(w, "secret %s is removed%s\n", cleanLine(args[0]), formatOwner(owner))
				})
			})
		},
	}
	addOwner(c, &owner)
	addOutput(c, &output)
	return c
}

// addOwner adds the flag that selects whose secrets a command is about.
func addOwner(c *cobra.Command, owner *string) {
	c.Flags().StringVar(owner, "for", "",
		"a secret of one `principal`, for upstreams with credentials: person: me, key:NAME or ISSUER#SUBJECT")
}

func formatOwner(owner string) string {
	if owner == "" {
		return ""
	}
	return " for " + cleanLine(owner)
}

// completeSecrets completes the name of a secret.
func (a completer) completeSecrets(cmd *cobra.Command, args []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Secrets().List(ctx, "")
		for _, s := range all {
			if strings.HasPrefix(s.Name, prefix) {
				out = append(out, s.Name)
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
