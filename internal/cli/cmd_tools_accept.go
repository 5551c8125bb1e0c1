package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

// claimBytes is the size of a claim's id before hexadecimal encoding.
const claimBytes = 8

func toolsAcceptCommand(a *app) *cobra.Command {
	var output, upstream string
	c := &cobra.Command{
		Use:   "accept UPSTREAM.TOOL...",
		Short: "Accept changed hints of tools",
		Long: `An upstream may change its hints for a tool to more harmless ones, for example to "only reads". Biplane
keeps the earlier hints until a person accepts the change. "biplane tools" lists such changes, each with
the command that accepts exactly that one: the text after @ identifies the hints. If the upstream has
changed them again by then, nothing is accepted. Without @ the command accepts and prints the hints of
the moment.`,
		Example: `  biplane tools accept github.search_issues@0123456789abcdef
  biplane tools accept github.search_issues github.list_issues
  biplane tools accept --upstream github`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case upstream == "":
				return atLeastOne("UPSTREAM.TOOL", "the path of a tool")(cmd, args)
			case len(args) > 0:
				return fmt.Errorf("%s takes tools or --upstream, not both", commandName(cmd))
			}
			return nil
		},
		ValidArgsFunction: a.completeWaiting,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				upstreams, err := client.Upstreams(ctx)
				if err != nil {
					return err
				}
				wanted, err := pickClaims(upstreams, upstream, args)
				if err != nil {
					return err
				}
				return acceptClaims(ctx, a, client, output, wanted)
			})
		},
	}
	c.Flags().StringVar(&upstream, "upstream", "", "accept the changes of all tools of this upstream")
	_ = c.RegisterFlagCompletionFunc("upstream", a.completeWaitingUpstreams)
	addOutput(c, &output)
	return c
}

// acceptClaims accepts the claims one by one, until one fails. It prints the accepted ones in any
// case.
func acceptClaims(ctx context.Context, a *app, client *api.Client, output string, wanted []api.WeakerHints) error {
	accepted := []api.WeakerHints{}
	var failed error
	for _, w := range wanted {
		done, err := client.AcceptHints(ctx, w.Path, w.Claim)
		if err != nil {
			failed = err
			break
		}
		accepted = append(accepted, *done)
	}
	err := a.printOutput(output, accepted, func(w io.Writer) {
		for _, c := range accepted {
			fmt.Fprintf(w, "%s: accepted %s\n", cleanLine(c.Path), cleanLine(strings.Join(c.Changes, ", ")))
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// pickClaims returns the pending claims of the named tools, or of all tools of an upstream.
func pickClaims(upstreams []api.Upstream, upstream string, names []string) (out []api.WeakerHints, err error) {
	waiting := map[string]api.WeakerHints{}
	for _, u := range upstreams {
		for _, w := range u.Weaker {
			waiting[w.Path] = w
		}
		if upstream != "" && (u.Name == upstream || u.Namespace == upstream) {
			if len(u.Weaker) == 0 {
				return nil, &api.Error{Kind: api.Conflict,
					Message: "upstream " + u.Name + ": none of its tools have weaker hints to accept"}
			}
			return u.Weaker, nil
		}
	}
	if upstream != "" {
		return nil, &api.Error{Kind: api.NotFound,
			Message: fmt.Sprintf("no upstream %q: `biplane tools` lists them", upstream)}
	}
	for _, name := range names {
		path, claim := cutClaim(name)
		w, ok := waiting[path]
		if w.Path = path; claim != "" {
			w.Claim = claim
		} else if !ok {
			return nil, &api.Error{Kind: api.Conflict,
				Message: fmt.Sprintf("tool %s has no weaker hint to accept; `biplane tools` shows which tools do",
					path)}
		}
		out = append(out, w)
	}
	return out, nil
}

// cutClaim splits PATH@CLAIM.
func cutClaim(s string) (path, claim string) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s, ""
	}
	if id, err := hex.DecodeString(s[i+1:]); err != nil || len(id) != claimBytes {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// showWaiting prints the pending claims, with the commands that accept them.
func showWaiting(w io.Writer, u *api.Upstream) {
	for _, c := range u.Weaker {
		fmt.Fprintf(w, "\n%s: its server says %s since it was first seen. Biplane ignores this until you run: "+
			"biplane tools accept %s\n",
			cleanLine(c.Path), cleanLine(strings.Join(c.Changes, ", ")), cleanLine(c.Path+"@"+c.Claim))
	}
}

// completeWaiting completes the path of a tool with pending claims.
func (a *app) completeWaiting(cmd *cobra.Command, args []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Upstreams(ctx)
		for _, u := range all {
			for _, w := range u.Weaker {
				if strings.HasPrefix(w.Path, prefix) {
					out = append(out, w.Path+"\t"+shortenLine(strings.Join(w.Changes, ", "), 60))
				}
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeWaitingUpstreams completes the name of an upstream with pending claims.
func (a *app) completeWaitingUpstreams(cmd *cobra.Command, _ []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Upstreams(ctx)
		for _, u := range all {
			if len(u.Weaker) > 0 && strings.HasPrefix(u.Name, prefix) {
				out = append(out, u.Name)
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
