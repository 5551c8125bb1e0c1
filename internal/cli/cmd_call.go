package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

func callCommand(a *app) *cobra.Command {
	var output, session string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "call TOOL [ARGUMENTS | -]",
		Short: "Call one tool",
		Long: `Calls a tool with arguments, a JSON object, and prints its result as JSON. The call is a program with
this one call: it has the same policies, limits and approvals as an agent's program, and is in the same
record. "biplane executions show" shows it afterwards. With -, the arguments are read from standard
input.`,
		Example: `  biplane call github.list_issues '{"repo": "a/b"}'
  biplane call files.list_directory '{"path": "."}' -o yaml
  biplane call github.create_issue - < issue.json`,
		Args:              atLeastOne("TOOL", "the path of a tool"),
		ValidArgsFunction: completer{a}.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if len(args) > 2 {
				return usageError("call takes a tool and its arguments in one JSON object: put it in quotes")
			}
			arguments, err := a.readArguments(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			if timeout < 0 || timeout == 0 && cmd.Flags().Changed("timeout") {
				return usageError("the timeout is %s: it must be more than 0", timeout)
			}
			return a.withEngine(cmd.Context(), true, nil, func(ctx context.Context, client *api.Client) error {
				t, err := client.Tool(ctx, args[0])
				if err != nil {
					return err
				}
				if strings.HasPrefix(t.Path, tool.Own+".") {
					return usageError("call: %s is a tool of Biplane itself, for agents: "+
						"biplane run runs programs, and biplane tools search finds tools", t.Path)
				}
				return a.runRequest(ctx, client, api.RunRequest{Code: t.Path + "(" + arguments + ")", Session: session,
					Language: "javascript", TimeoutSeconds: timeout.Seconds(), Tokens: output != "table"}, output)
			})
		},
	}
	addOutput(c, &output)
	c.Flags().StringVar(&session, "session", "", "session to call it in, by its `name`")
	c.Flags().DurationVar(&timeout, "timeout", 0, "time limit, without the time of the tool (default 1m)")
	if err := c.RegisterFlagCompletionFunc("session", completer{a}.completeSessions(2)); err != nil {
		panic(err) // unknown flag: a mistake in this package
	}
	return c
}

// readArguments returns the arguments of a call as a JavaScript literal: {} if there are none.
func (a *app) readArguments(ctx context.Context, args []string) (string, error) {
	text := "{}"
	if len(args) == 1 && args[0] != "-" {
		text = args[0]
	} else if len(args) == 1 {
		raw, err := io.ReadAll(io.LimitReader(a.readInput(ctx), programBytes+1))
		switch {
		case ctx.Err() != nil:
			return "", &api.Error{Kind: api.Canceled, Message: "canceled"}
		case err != nil:
			return "", usageError("arguments: standard input: %v", err)
		}
		text = string(raw)
	}
	if len(text) > programBytes {
		return "", usageError("the arguments have more than %d bytes", programBytes)
	}
	literal, err := writeLiteral([]byte(text))
	if err != nil {
		return "", usageError("the arguments are not usable: %v. They are a JSON object, such as '{\"name\": \"x\"}'",
			err)
	}
	return literal, nil
}

// writeLiteral returns a JSON object as a JavaScript literal that has the same value.
func writeLiteral(raw []byte) (string, error) {
	raw = bytes.TrimSpace(raw)
	if !bytes.HasPrefix(raw, []byte("{")) {
		return "", errors.New("they are not an object")
	}
	if !json.Valid(raw) {
		var v any
		return "", json.Unmarshal(raw, &v)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
		if n, ok := t.(json.Number); ok && !strings.ContainsAny(n.String(), ".eE") {
			if f, err := n.Float64(); err != nil || math.Abs(f) > 1<<53-1 {
				return "", fmt.Errorf("programs in JavaScript can't write the number %.40s exactly: "+
					"use biplane run --language python", n)
			}
		}
	}
	// In a literal, the key __proto__ has a special meaning. JSON.parse treats it like any other
	// key.
	quoted, err := json.Marshal(string(raw))
	if err != nil {
		return "", err
	}
	return "JSON.parse(" + string(quoted) + ")", nil
}
