package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/tokens"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Gateway is another MCP server, to compare this one with.
type Gateway struct {
	Name string   // used in names of yardsticks: lower-case letters, digits and '_'
	Argv []string // its command and arguments, over stdio
	URL  string   // instead of Argv: its endpoint, over Streamable HTTP
	pid  int      // of the process at URL; 0: unknown
}

// patience is the time limit for one gateway.
const patience = 2 * time.Minute

var gatewayName = lazily.Regexp(`^[a-z][a-z0-9_]{0,31}$`)

// ParseGateway parses "name=command args..." or "name=http://...". Arguments are separated by
// spaces; '...' and "..." quote spaces. Errors are *tool.Error of kind Invalid.
func ParseGateway(s string) (Gateway, error) {
	name, command, ok := strings.Cut(s, "=")
	if !ok || !gatewayName.Get().MatchString(name) {
		return Gateway{}, tool.Errorf(tool.Invalid,
			"gateway %q: write name=command args... or name=http://..., the name in lower-case letters, "+
				"digits and _", s)
	}
	if strings.HasPrefix(command, "http://") || strings.HasPrefix(command, "https://") {
		return Gateway{Name: name, URL: command}, nil
	}
	argv, err := splitWords(command)
	if err != nil || len(argv) == 0 {
		return Gateway{}, tool.Errorf(tool.Invalid,
			"gateway %q: its command is missing, or a quote in it is not closed", name)
	}
	return Gateway{Name: name, Argv: argv}, nil
}

// splitWords splits a command line like a simple shell.
func splitWords(s string) ([]string, error) {
	var out []string
	var b strings.Builder
	var quote rune
	in := false
	for _, c := range s {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t':
			if in {
				out = append(out, b.String())
				b.Reset()
			}
			in = false
		default:
			b.WriteRune(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if in {
		out = append(out, b.String())
	}
	return out, nil
}

// measureGateways measures the gateways that the user named, one after the other, and Biplane in
// the same way.
func (r *runner) measureGateways(ctx context.Context) error {
	if len(r.cfg.Gateways) == 0 {
		return nil
	}
	for _, g := range r.cfg.Gateways {
		r.measureYardsticks(ctx, g)
	}
	if err := r.measureSelf(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// measureYardsticks adds the yardsticks of a gateway. If it fails, they are missing.
func (r *runner) measureYardsticks(ctx context.Context, g Gateway) {
	r.reportProgress("measuring: %s (%s)", g.Name, cmp.Or(g.URL, strings.Join(g.Argv, " ")))
	figures, err := r.measureGateway(ctx, g)
	if err != nil {
		var names []string
		for _, row := range gatewayRows {
			names = append(names, g.Name+row.name)
		}
		figures = missingFigures(err.Error(), names...)
	}
	r.addYardsticks(figures...)
}

// measureGateway measures the handshake (from the start of the process, if it has a command), the
// size of the list of tools for a model, the cheapest call, calls of a server behind it, and its
// memory after them.
func (r *runner) measureGateway(ctx context.Context, g Gateway) ([]Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	counter := &tokens.Counter{}
	var s gatewayClient
	hello, err := collectDurations(ctx, r.countRounds(10), func() (time.Duration, error) {
		if s != nil {
			_ = s.Close() // errors at its end don't matter
		}
		start := time.Now()
		var err error
		s, err = g.openSession(ctx)
		return time.Since(start), err
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	defs, err := s.ListDefinitions(ctx)
	if err != nil {
		return nil, err
	}
	bytes, count := 0, 0
	var names []string
	for _, d := range defs {
		bytes, count = bytes+len(d), count+counter.Count(d, 0)
		var def struct{ Name string }
		if err := json.Unmarshal([]byte(d), &def); err != nil {
			return nil, err
		}
		names = append(names, def.Name)
	}
	out := []Figure{
		durationFigure(g.Name+"_initialize", hello),
		numberFigure(g.Name+"_tools_list_bytes",
			float64(bytes)), numberFigure(g.Name+"_tools_list_tokens", float64(count)),
	}
	one := gatewayRunner{r, g, s, defs, names}
	out = append(out, one.measureCheapest(ctx))
	pass, err := one.measurePass(ctx)
	if err != nil {
		pass = missingFigures(err.Error(), g.Name+"_pass", g.Name+"_pass_per_second")
	}
	return append(append(out, pass...), one.measureSize(ctx)), nil
}

// A gatewayRunner measures one gateway in a session with it.
type gatewayRunner struct {
	*runner
	gateway Gateway
	session gatewayClient
	defs    []string // of its tools
	names   []string
}

// measureCheapest measures a gateway's cheapest call.
func (r gatewayRunner) measureCheapest(ctx context.Context) Figure {
	g := r.gateway
	call, err := r.findCheapest(ctx)
	if err != nil {
		return missingFigures(err.Error(), g.Name+"_call")[0]
	}
	took, err := repeatCalls(ctx, r.countRounds(200), func() error {
		_, err := r.session.CallTool(ctx, call.name, call.args)
		return err
	})
	if err != nil {
		return missingFigures(fmt.Sprintf("%s: %v", call.name, err), g.Name+"_call")[0]
	}
	r.reportProgress("%s_call is %s", g.Name, call)
	r.notes = append(r.notes, fmt.Sprintf("%s_call: the round trip of %s", g.Name, call))
	return durationFigure(g.Name+"_call", took)
}

// An attempt is a call that may be cheap.
type attempt struct {
	name string
	args map[string]string
}

// String formats the call as it is sent.
func (a attempt) String() string {
	args, err := tool.Marshal(a.args)
	if err != nil {
		return a.name
	}
	return a.name + " " + string(args)
}

// runsCode matches names of tools that run a program. codeArgs are the names of their argument for
// it.
var (
	runsCode = lazily.Regexp(`(?i)(execut|eval|run|code|script|python|javascript|typescript)`)
	codeArgs = []string{"code", "script", "source", "program", "expression", "javascript", "python_code", "js",
		"input", "query"}
)

// findCheapest returns the cheapest call that succeeds, after a few rounds of each. It tries 1+1 in
// tools that seem to run code, and tools that need no argument and, by their name, change nothing.
func (r gatewayRunner) findCheapest(ctx context.Context) (attempt, error) {
	var all []attempt
	for i, d := range r.defs {
		var def struct {
			Schema struct {
				Required   []string
				Properties map[string]json.RawMessage
			} `json:"input_schema"`
		}
		if err := json.Unmarshal([]byte(d), &def); err != nil {
			return attempt{}, err
		}
		all = append(all, listAttempts(r.names[i], def.Schema.Required, func(p string) bool {
			return def.Schema.Properties[p] != nil
		})...)
	}
	if len(all) == 0 {
		return attempt{}, errors.New("it has no tool that seems to run code, and none that can be called without " +
			"arguments and surely changes nothing")
	}
	best, took := attempt{}, time.Duration(0)
	var last error
	for _, a := range all[:min(len(all), 40)] {
		each, err := repeatCalls(ctx, 3, func() error { _, err := r.session.CallTool(ctx, a.name, a.args); return err })
		if err != nil {
			last = err
			continue
		}
		if d := slices.Min(each); best.name == "" || d < took {
			best, took = a, d
		}
	}
	if best.name == "" {
		return attempt{}, fmt.Errorf("no call of it succeeds; the last one: %w", last)
	}
	return best, ctx.Err()
}

// harmless matches names of tools that change nothing.
var harmless = lazily.Regexp(`(?i)^(.*[_.-])?(ping|echo|version|status|health|list|get|now|time|info|help|read|show|search)([_.-].*)?$`)

// listAttempts returns the calls of one tool that are worth a try.
func listAttempts(name string, required []string, has func(string) bool) []attempt {
	if runsCode.Get().MatchString(name) {
		var out []attempt
		for _, arg := range codeArgs {
			if !has(arg) || len(required) > 1 || len(required) == 1 && required[0] != arg {
				continue
			}
			for _, code := range []string{"1+1", "return 1+1"} {
				out = append(out, attempt{name, map[string]string{arg: code}})
			}
		}
		return out
	}
	if len(required) == 0 && harmless.Get().MatchString(name) {
		return []attempt{{name, map[string]string{}}}
	}
	if len(required) == 1 && harmless.Get().MatchString(name) &&
		slices.Contains([]string{"message", "text", "input"}, required[0]) {
		return []attempt{{name, map[string]string{required[0]: "x"}}}
	}
	return nil
}
