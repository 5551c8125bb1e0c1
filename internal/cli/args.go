package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exactlyOne accepts exactly one argument. The error for a missing one describes it by name and
// what: PATH, the path of a tool.
func exactlyOne(name, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case 1:
			return nil
		case 0:
			return fmt.Errorf("%s needs %s, %s: %s", commandName(c), name, what, firstExample(c))
		}
		return fmt.Errorf("%s takes one %s, not %d (%s)", commandName(c), name, len(args),
			shortenLine(strings.Join(args, " "), 60))
	}
}

// atLeastOne accepts one or more arguments. The error for a missing one describes it by name and
// what.
func atLeastOne(name, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs %s, %s: %s", commandName(c), name, what, firstExample(c))
		}
		return nil
	}
}

// oneOrTwo accepts one or two arguments. The error for a missing one describes it by name and what.
func oneOrTwo(name, what string) cobra.PositionalArgs {
	return cobra.MatchAll(atLeastOne(name, what), atMost(2, "two arguments"))
}

// atMost accepts up to n arguments. what describes them in errors.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%s takes at most %s, not %d (%s)", commandName(c), what, len(args),
				shortenLine(strings.Join(args, " "), 60))
		}
		return nil
	}
}

// explainFlag returns the error for the value of a flag that can't be parsed, in the words of this
// command line.
func explainFlag(_ *cobra.Command, err error) error {
	var v *pflag.InvalidValueError
	if !errors.As(err, &v) {
		return err
	}
	what := ""
	switch v.GetFlag().Value.Type() {
	case "int", "int64":
		what = "a whole number"
	case "float64":
		what = "a number"
	case "duration":
		what = "a duration such as 30s, 5m or 2h"
	default:
		return err
	}
	return fmt.Errorf("--%s must be %s, not %q", v.GetFlag().Name, what, shortenLine(v.GetValue(), 40))
}

// requireFlags returns an error that names the first of the flags without a value.
func requireFlags(c *cobra.Command, names ...string) error {
	for _, name := range names {
		if !c.Flags().Changed(name) {
			return usageError("%s needs --%s: %s", commandName(c), name, firstExample(c))
		}
	}
	return nil
}

// checkDurations returns an error for the first of the flags that was set to a time of 0 or less.
func checkDurations(c *cobra.Command, names ...string) error {
	for _, name := range names {
		if d, err := c.Flags().GetDuration(name); err == nil && d <= 0 && c.Flags().Changed(name) {
			return usageError("--%s is %s: it must be more than 0", name, d)
		}
	}
	return nil
}

// commandName returns a command's name without the name of the program.
func commandName(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

func firstExample(c *cobra.Command) string {
	first, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	return first
}

// noArguments accepts no arguments. An argument is most likely a mistyped command, so the error
// suggests similar ones.
func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasAvailableSubCommands():
		return fmt.Errorf("%s takes no arguments, not %s", commandName(c), shortenLine(strings.Join(args, " "), 60))
	}
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	meant := c.SuggestionsFor(args[0])
	if len(meant) == 0 {
		return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q: did you mean %s?", args[0], c.CommandPath(),
		strings.Join(meant, " or "))
}

// commandTopic accepts the name of a command, for the help command.
func commandTopic(c *cobra.Command, args []string) error {
	found, rest, err := c.Root().Find(args)
	if err != nil || !found.HasAvailableSubCommands() {
		return err
	}
	return noArguments(found, rest)
}

// showHelp is the RunE of a command that only groups others: it shows the help.
func showHelp(c *cobra.Command, _ []string) error { return c.Help() }
