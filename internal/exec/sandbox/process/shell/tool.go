package shell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

const usage = `usage: tool [--raw] PATH [--NAME VALUE]... [--json OBJECT]
       tool search WORDS...
       tool PATH --help
       tool emit FILE

Calls a tool, and prints its result as JSON. Errors are printed to standard error; the exit status is
then 1. Write a flag without a value for true, --no-NAME for false, and repeat a flag for a list.
--json has arguments as a JSON object, or - to read it from standard input. --raw prints a text
without quotes. "tool search" finds tools by what they do. "tool emit" gives a file to the user.

  tool search open issues of a repository
  tool github.list_issues --repo a/b --limit 3 | jq -r '.[].title'
`

// searchPath is the path of the tool search.
const searchPath = "biplane.search"

// A command is a parsed command line of the command tool.
type command struct {
	request
	help bool // show the usage, or the tool's if Path is set
	raw  bool // print a text without quotes
	text bool // print the hits of a search as text
}

// runTool runs the command tool, and returns its exit code.
func runTool(args []string, in io.Reader, out, errs io.Writer, ask asker) int {
	c, err := parseCommand(args, in)
	switch {
	case err != nil:
		fmt.Fprintln(errs, "tool: "+err.Error())
		return 1
	case c.help && c.Path == "":
		fmt.Fprint(out, usage)
		return 0
	case c.help:
		path, one := c.Path, "1"
		flags := []sandbox.Flag{{Name: "query", Value: &path}, {Name: "limit", Value: &one}}
		c.request, c.text = request{Path: searchPath, Flags: flags}, true
	}
	a, err := ask(&c.request)
	switch {
	case err != nil:
		fmt.Fprintln(errs, "tool: "+err.Error())
		return 1
	case a.Error != nil:
		fmt.Fprintln(errs, "tool: "+describeError(c.Path, a.Error))
		return 1
	case c.Emit != "":
		return 0
	}
	if _, err := io.WriteString(out, c.formatValue(a.Value)+"\n"); err != nil {
		fmt.Fprintln(errs, "tool: write the result: "+err.Error())
		return 1
	}
	return 0
}

// describeError returns the text of a failed call.
func describeError(path string, e *sandbox.GuestError) string {
	text := e.Message
	if !strings.Contains(text, path) {
		text = path + ": " + text
	}
	return text
}

// formatValue returns a result as it is printed.
func (c *command) formatValue(value json.RawMessage) string {
	if len(value) == 0 {
		return "null"
	}
	var text string
	if (c.raw || c.text) && json.Unmarshal(value, &text) == nil {
		return text
	}
	var hits []struct{ Path, Description, Call, Example, Note string }
	if !c.text || json.Unmarshal(value, &hits) != nil {
		return string(value)
	}
	var b strings.Builder
	for i, h := range hits {
		if i > 0 {
			b.WriteString("\n")
		}
		if h.Note != "" {
			b.WriteString(h.Note + "\n\n")
		}
		b.WriteString(h.Path)
		if h.Description != "" {
			b.WriteString(" - " + h.Description)
		}
		for _, part := range []string{h.Call, h.Example} {
			if part != "" {
				b.WriteString("\n" + part)
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parseCommand parses the arguments of the command tool. in is read for --json -.
func parseCommand(args []string, in io.Reader) (*command, error) {
	c := &command{}
	for len(args) > 0 && (args[0] == "--raw" || args[0] == "-r") {
		c.raw, args = true, args[1:]
	}
	if len(args) == 0 {
		return nil, errors.New("the path of a tool is missing: tool github.list_issues, or tool search WORDS; " +
			"see tool --help")
	}
	first, rest := args[0], args[1:]
	switch {
	case first == "--help" || first == "-h" || first == "help" && len(rest) == 0:
		c.help = true
		return c, nil
	case strings.HasPrefix(first, "-"):
		return nil, fmt.Errorf("unknown option %s: see tool --help", shortenWord(first))
	case first == "emit" && len(rest) != 1:
		return nil, errors.New("emit takes one file or handle: tool emit report.pdf")
	case first == "emit":
		c.Emit = rest[0]
		return c, nil
	case first == "search":
		c.text, first = true, searchPath
	}
	c.Path = first
	words, err := c.parseFlags(rest, in)
	switch query := strings.Join(words, " "); {
	case err != nil:
		return nil, err
	case first == searchPath && query != "":
		c.Flags = append(c.Flags, sandbox.Flag{Name: "query", Value: &query})
	case len(words) > 0:
		return nil, fmt.Errorf("unexpected argument %s: arguments have names, --NAME VALUE", shortenWord(words[0]))
	}
	return c, nil
}

// parseFlags parses what follows the path of a tool. It returns the words that belong to no flag.
func (c *command) parseFlags(args []string, in io.Reader) (words []string, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		name, value, given := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case word == "-h" || word == "--help":
			c.help = true
			return nil, nil
		case !strings.HasPrefix(word, "--") || name == "":
			words = append(words, word)
			continue
		case !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			value, given = args[i], true
		}
		switch {
		case name == "json" && !given:
			return nil, errors.New("--json needs a JSON object, or - to read it from standard input")
		case name == "json":
			if err := c.setObject(value, in); err != nil {
				return nil, err
			}
		case given:
			c.Flags = append(c.Flags, sandbox.Flag{Name: name, Value: &value})
		default:
			c.Flags = append(c.Flags, sandbox.Flag{Name: name})
		}
	}
	return words, nil
}

// setObject sets the arguments that are a JSON object.
func (c *command) setObject(text string, in io.Reader) error {
	if c.Args != nil {
		return errors.New("--json is given twice: write one object")
	}
	if text == "-" {
		b, err := readAtMost(in, maxRequest)
		if err != nil {
			return fmt.Errorf("--json: read standard input: %w", err)
		}
		text = string(b)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil || fields == nil {
		return fmt.Errorf("--json needs a JSON object, not %s", shortenWord(strings.TrimSpace(text)))
	}
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(text)); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	c.Args = line.Bytes()
	return nil
}

// shortenWord returns the beginning of a word, quoted.
func shortenWord(word string) string {
	const most = 40
	if r := []rune(word); len(r) > most {
		word = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", word)
}
