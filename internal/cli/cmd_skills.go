package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func skillsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "skills",
		Short: "Show and share skills, the modules that programs saved",
		Long: `A skill is a module that a program saved as ./skills/<name>.ts (or .js, .py, .md). Every later program
of the same user can import it. Other users see it only after a person shares it, in the version that
was shared.`,
		Example: `  biplane skills
  biplane skills show report.ts
  biplane skills share report.ts`,
		Args: noArguments,
	}
	list := skillsListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, skillsShowCommand(a),
		a.skillChange("share NAME", "Share the current version of a skill with others", "is shared as it is now",
			func(ctx context.Context, c *api.Client, name string) error {
				return c.Skills().Share(ctx, name, true)
			}),
		a.skillChange("unshare NAME", "Stop sharing a skill", "is shared no more",
			func(ctx context.Context, c *api.Client, name string) error {
				return c.Skills().Share(ctx, name, false)
			}),
		a.skillChange("rm NAME", "Remove a skill", "is removed",
			func(ctx context.Context, c *api.Client, name string) error {
				return c.Skills().Remove(ctx, name)
			}))
	return c
}

func skillsListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the skills",
		Example: "  biplane skills list\n  biplane skills list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, listOf((*api.Client).Skills, api.SkillClient.List), tableOfSkills)
		},
	}
	addOutput(c, &output)
	return c
}

func tableOfSkills(w io.Writer, all []api.Skill) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No skills: a program saves one by writing ./skills/<name>.ts.")
		return
	}
	rows := [][]string{{"SKILL", "OWNER", "SHARED", "MODIFIED", "DESCRIPTION"}}
	for _, s := range all {
		shared := "no"
		switch {
		case s.Changed:
			shared = "an older version"
		case s.Shared:
			shared = "yes"
		}
		rows = append(rows, []string{s.Name, s.Owner, shared, formatMoment(s.Modified), shortenLine(s.Description, 80)})
	}
	writeColumns(w, rows...)
}

func skillsShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show the text of a skill",
		Example:           "  biplane skills show report.ts",
		Args:              exactlyOne("NAME", "the file name of a skill"),
		ValidArgsFunction: completer{a}.completeSkills,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printOne(a, cmd, output, getterOf((*api.Client).Skills, api.SkillClient.Get), args[0],
				func(w io.Writer, s *api.Skill) { fmt.Fprintln(w, stripControls(strings.TrimRight(s.Source, "\n"))) })
		},
	}
	addOutput(c, &output)
	return c
}

// skillChange returns a command that changes a skill. did describes the result for its output.
func (a *app) skillChange(use, what, did string,
	change func(context.Context, *api.Client, string) error) *cobra.Command {
	var output string
	verb, _, _ := strings.Cut(use, " ")
	c := &cobra.Command{
		Use:               use,
		Short:             what,
		Example:           "  biplane skills " + verb + " report.ts",
		Args:              exactlyOne("NAME", "the file name of a skill"),
		ValidArgsFunction: completer{a}.completeSkills,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if err := change(ctx, client, args[0]); err != nil {
					return err
				}
				return a.printOutput(output, map[string]string{"skill": args[0], "done": verb}, func(w io.Writer) {
					fmt.Fprintf(w, "skill %s %s\n", cleanLine(args[0]), did)
				})
			})
		},
	}
	addOutput(c, &output)
	return c
}

// completeSkills completes the name of a skill.
func (a completer) completeSkills(cmd *cobra.Command, args []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Skills().List(ctx)
		for _, s := range all {
			if strings.HasPrefix(s.Name, prefix) {
				out = append(out, s.Name)
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
