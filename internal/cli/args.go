package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exactly takes one argument, and names it where it is missing: PATH, the path of a tool.
func exactly(name, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case 1:
			return nil
		case 0:
			return fmt.Errorf("%s needs %s, %s: %s", called(c), name, what, firstExample(c))
		}
		return fmt.Errorf("%s takes one %s, not %d (%s)", called(c), name, len(args), short(strings.Join(args, " "), 60))
	}
}

// atLeastOne takes one argument or more, and names them where there is none.
func atLeastOne(name, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs %s, %s: %s", called(c), name, what, firstExample(c))
		}
		return nil
	}
}

// atMost takes up to n arguments, which are called what.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%s takes at most %s, not %d (%s)", called(c), what, len(args), short(strings.Join(args, " "), 60))
		}
		return nil
	}
}

// called is a command's name, without that of the program.
func called(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

func firstExample(c *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	return first
}

// none takes no arguments. What is given is most likely a command that there isn't: it names what
// is nearest.
func none(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasAvailableSubCommands():
		return fmt.Errorf("%s takes no arguments, not %s", called(c), short(strings.Join(args, " "), 60))
	}
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	meant := c.SuggestionsFor(args[0])
	if len(meant) == 0 {
		return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q: did you mean %s?", args[0], c.CommandPath(), strings.Join(meant, " or "))
}

// topic takes the name of a command, of which there is help.
func topic(c *cobra.Command, args []string) error {
	found, rest, err := c.Root().Find(args)
	if err != nil || !found.HasAvailableSubCommands() {
		return err
	}
	return none(found, rest)
}

// overview shows the help of a command that is a group of others.
func overview(c *cobra.Command, _ []string) error { return c.Help() }
