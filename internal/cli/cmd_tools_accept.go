package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// claimBytes is the size of a claim's id before hexadecimal encoding.
const claimBytes = 8

func toolsAcceptCommand(a *app) *cobra.Command {
	var output, upstream string
	c := &cobra.Command{
		Use:   "accept UPSTREAM.TOOL...",
		Short: "Accept changed definitions and hints of tools",
		Long: `Accepts what "biplane tools" says is waiting for a person: the definition of a tool that is new, has
changed since it was accepted, or has findings, and hints that became weaker. An accepted definition is
pinned in the lock file.

An upstream may change its hints for a tool to more harmless ones, for example to "only
reads". Biplane keeps the earlier hints until a person accepts the change. "biplane tools" lists such
changes.

Each change has the command that accepts exactly that one: the text after @ identifies it. If the upstream
has changed the tool again by then, nothing is accepted. Without @ the command accepts and prints what is
waiting at the moment.`,
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
		ValidArgsFunction: completer{a}.completeWaiting,
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
	_ = c.RegisterFlagCompletionFunc("upstream", completer{a}.completeWaitingUpstreams)
	addOutput(c, &output)
	return c
}

// acceptClaims accepts the claims one by one, until one fails. It prints the accepted ones in any
// case.
func acceptClaims(ctx context.Context, a *app, client *api.Client, output string, wanted []pending) error {
	accepted := []api.WeakerHints{}
	var failed error
	for _, w := range wanted {
		done, err := client.AcceptHints(ctx, w.path, w.claim)
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

// A pending is something that waits for acceptance: weaker hints of a tool, or its definition.
type pending struct {
	path, claim string
	says        string // its subject, in one line
}

// listPending returns the changes that wait for acceptance at an upstream.
func listPending(u *api.Upstream) (out []pending) {
	for _, w := range u.Weaker {
		out = append(out, pending{w.Path, w.Claim, strings.Join(w.Changes, ", ")})
	}
	for i := range u.Definitions {
		if n := &u.Definitions[i]; n.Claim != "" {
			out = append(out, pending{n.Path, n.Claim, summarizeNotice(n)})
		}
	}
	return out
}

// pickClaims returns the changes that wait for acceptance of the named tools, or of all tools of an
// upstream.
func pickClaims(upstreams []api.Upstream, upstream string, names []string) (out []pending, err error) {
	var waiting []pending
	for i := range upstreams {
		u := &upstreams[i]
		all := listPending(u)
		if upstream != "" && (u.Name == upstream || u.Namespace == upstream) {
			if len(all) == 0 {
				return nil, &api.Error{Kind: api.Conflict,
					Message: "upstream " + u.Name + ": none of its tools have weaker hints or a definition to accept"}
			}
			return all, nil
		}
		waiting = append(waiting, all...)
	}
	if upstream != "" {
		return nil, &api.Error{Kind: api.NotFound,
			Message: fmt.Sprintf("no upstream %q: `biplane tools` lists them", upstream)}
	}
	for _, name := range names {
		path, claim := cutClaim(name)
		if claim != "" {
			out = append(out, pending{path: path, claim: claim})
			continue
		}
		found := slices.DeleteFunc(slices.Clone(waiting), func(p pending) bool { return p.path != path })
		if len(found) == 0 {
			if !slices.ContainsFunc(upstreams, func(u api.Upstream) bool {
				return strings.HasPrefix(path, u.Namespace+".") || strings.HasPrefix(path, u.Name+".")
			}) {
				return nil, &api.Error{Kind: api.NotFound,
					Message: fmt.Sprintf("no tool %q: `biplane tools` lists the tools", path)}
			}
			return nil, &api.Error{Kind: api.Conflict, Message: fmt.Sprintf(
				"tool %s has no weaker hint to accept, and no definition; `biplane tools` shows which tools do", path)}
		}
		out = append(out, found...)
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

// summarizeNotice describes in one line what a notice is about.
func summarizeNotice(n *api.DefinitionNotice) string {
	var says []string
	switch n.Change {
	case "new":
		says = append(says, "is new")
	case "changed":
		says = append(says, "has changed since it was accepted")
	}
	if k := len(n.Findings); k > 0 {
		says = append(says, "has "+text.Count(k, "finding"))
	}
	return "its definition " + strings.Join(says, " and ")
}

// showNotice prints a notice about the definition of a tool.
func showNotice(w io.Writer, n *api.DefinitionNotice) {
	fmt.Fprintf(w, "\n%s: %s:\n", cleanLine(n.Path), summarizeNotice(n))
	for _, f := range n.Findings {
		fmt.Fprintf(w, "  %s in %s: %s\n", cleanLine(f.Kind), cleanLine(f.Where), cleanLine(f.Text))
	}
	for line := range strings.Lines(n.Diff) {
		fmt.Fprintln(w, "  "+stripControls(strings.TrimSuffix(line, "\n")))
	}
	switch command := "biplane tools accept " + cleanLine(n.Path+"@"+n.Claim); {
	case n.Claim == "":
	case n.Quarantined:
		fmt.Fprintf(w, "It is quarantined until you run: %s\n", command)
	default:
		fmt.Fprintf(w, "To accept it, run: %s\n", command)
	}
}

// completeWaiting completes the path of a tool with pending claims.
func (a completer) completeWaiting(cmd *cobra.Command, args []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Upstreams(ctx)
		for _, u := range all {
			for _, p := range listPending(&u) {
				if strings.HasPrefix(p.path, prefix) {
					out = append(out, p.path+"\t"+shortenLine(p.says, 60))
				}
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeWaitingUpstreams completes the name of an upstream with pending claims.
func (a completer) completeWaitingUpstreams(cmd *cobra.Command, _ []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Upstreams(ctx)
		for _, u := range all {
			if len(listPending(&u)) > 0 && strings.HasPrefix(u.Name, prefix) {
				out = append(out, u.Name)
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
