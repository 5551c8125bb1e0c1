package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/commands.md")

const commandsPage = "../../docs/commands.md"

// TestCommandsPage checks that the page of commands matches their help.
func TestCommandsPage(t *testing.T) {
	a := &app{Process: Process{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Version: "dev"}}
	want := commandsText(a.newRoot())
	if *update {
		if err := os.WriteFile(commandsPage, []byte(want), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	got, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the commands' help says: run go test ./internal/cli -update", commandsPage)
	}
}

const commandsHead = `# Command line

Results go to standard output, everything else to standard error. Every command that prints a list or an object accepts
` + "`-o json` and `-o yaml`; without `-o`, it prints a table. `biplane help COMMAND` prints what " +
	"follows here. `biplane\ncompletion SHELL` " + `prints a script for tab completion.

| exit code | meaning |
|---|---|
`

func commandsText(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(commandsHead)
	for _, e := range exitMeanings {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.meaning)
	}
	b.WriteString("\n[Errors](errors.md) lists the kinds of errors with their exit codes. These flags hold for " +
		"every command:\n\n")
	writeFlags(&b, root.PersistentFlags())
	for _, c := range root.Commands() {
		writeCommand(&b, c, "##")
	}
	return b.String()
}

// writeCommand writes the help of c and of its subcommands, under headings that begin with mark.
func writeCommand(b *strings.Builder, c *cobra.Command, mark string) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", mark, c.CommandPath(), about)
	if c.Runnable() && !c.HasSubCommands() {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n",
			strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		b.WriteString("\n")
		writeFlags(b, c.LocalNonPersistentFlags())
	}
	for _, sub := range c.Commands() {
		writeCommand(b, sub, mark+"#")
	}
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		kind, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		switch f.DefValue {
		case "", "0", "0s", "false", "[]", "table":
		default:
			if !strings.Contains(about, "default") {
				about += " (default " + strings.Trim(f.DefValue, "[]") + ")"
			}
		}
		fmt.Fprintf(b, "- `%s`: %s\n", name, about)
	})
}
