package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/biplane-dev/biplane/api"
	"github.com/spf13/cobra"
)

// addOutput adds the flag -o of all commands that print a list or an object.
func addOutput(c *cobra.Command, to *string) {
	c.Flags().StringVarP(to, "output", "o", "table", "table, json or yaml")
	completeWords(c, "output", outputs...)
}

// outputs are the values of -o.
var outputs = []string{"table", "json", "yaml"}

// checkOutput returns an error if a value of -o is unknown.
func checkOutput(output string) error {
	if !slices.Contains(outputs, output) {
		return usageError("output %q is not one of %s", output, strings.Join(outputs, ", "))
	}
	return nil
}

// printOutput writes v as JSON, as YAML or as a table, depending on -o.
func (a *app) printOutput(output string, v any, table func(w io.Writer)) error {
	if err := checkOutput(output); err != nil {
		return err
	}
	if output != "table" {
		return a.printData(output, v)
	}
	table(a.Out)
	return nil
}

// printData writes v as JSON or as YAML, depending on -o.
func (a *app) printData(output string, v any) error {
	if output == "yaml" {
		return a.printYAML(v)
	}
	return a.printJSON(v)
}

// printAll fetches and prints a list.
func printAll[T any](a *app, cmd *cobra.Command, output string,
	get func(*api.Client, context.Context) (T, error), table func(io.Writer, T)) error {
	return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := get(client, ctx)
		if err != nil {
			return err
		}
		return a.printOutput(output, all, func(w io.Writer) { table(w, all) })
	})
}

// printOne fetches and prints the object with a name.
func printOne[T any](a *app, cmd *cobra.Command, output string,
	get func(*api.Client, context.Context, string) (T, error), name string, text func(io.Writer, T)) error {
	return printAll(a, cmd, output, func(c *api.Client, ctx context.Context) (T, error) {
		return get(c, ctx, name)
	}, text)
}

// listOf makes a method of a part of the client into one of the client, for printAll.
func listOf[P, T any](part func(*api.Client) P, list func(P, context.Context) (T, error),
) func(*api.Client, context.Context) (T, error) {
	return func(c *api.Client, ctx context.Context) (T, error) { return list(part(c), ctx) }
}

// getterOf makes a method of a part of the client into one of the client, for printOne.
func getterOf[P, T any](part func(*api.Client) P, get func(P, context.Context, string) (T, error),
) func(*api.Client, context.Context, string) (T, error) {
	return func(c *api.Client, ctx context.Context, name string) (T, error) { return get(part(c), ctx, name) }
}

// printJSON writes v as indented JSON.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.Out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printYAML writes v as YAML, using its JSON field names.
func (a *app) printYAML(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return writeYAML(a.Out, b.Bytes())
}

// writeColumns writes rows in columns. Cells are single lines without control characters, since
// external text must not control the terminal.
func writeColumns(w io.Writer, rows ...[]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = cleanLine(c)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush()
}

// cleanLine returns s on one line, without control characters.
func cleanLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}

// stripControls returns s without control characters, except line breaks and tabs.
func stripControls(s string) string {
	ls := strings.Split(s, "\n")
	for i, l := range ls {
		parts := strings.Split(strings.TrimSuffix(l, "\r"), "\t")
		for j, p := range parts {
			parts[j] = cleanLine(p)
		}
		ls[i] = strings.Join(parts, "\t")
	}
	return strings.Join(ls, "\n")
}

// shortenLine returns the first line of s, shortened to n characters.
func shortenLine(s string, n int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = cleanLine(s)
	if r := []rune(s); len(r) > n {
		return strings.TrimSpace(string(r[:n-1])) + "…"
	}
	return s
}
