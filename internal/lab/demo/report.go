package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// A Report is the result of the demonstration.
type Report struct {
	Job         string      `json:"job"`
	Ways        []Way       `json:"ways"`
	Deactivated []string    `json:"deactivated"` // by each of the ways
	Program     string      `json:"program"`     // the program that the agent submitted
	Assumptions Assumptions `json:"assumptions"`
	Seconds     float64     `json:"seconds"` // the whole demonstration, including the start of all processes
}

// Assumptions are the values that were not measured.
type Assumptions struct {
	Tokenizer   string  `json:"tokenizer"`
	TurnSeconds float64 `json:"turn_seconds"`      // from a request to the model's first token
	WriteSpeed  float64 `json:"tokens_per_second"` // that the model writes
}

// A Way is one way to do the job, with its cost.
type Way struct {
	Name        string  `json:"name"`
	Tools       int     `json:"tools"` // defined for the model
	Turns       int     `json:"turns"` // round trips to the model
	Calls       int     `json:"calls"` // made by the model
	Tokens      Tokens  `json:"tokens"`
	Seconds     Seconds `json:"seconds"`
	Deactivated int     `json:"deactivated"`        // found in the database afterwards
	Answered    string  `json:"answered,omitempty"` // the result of execute

	took time.Duration
}

// Tokens are token counts of the messages as they were sent.
type Tokens struct {
	Definitions int `json:"definitions"` // of the tools: name, description, input schema
	Job         int `json:"job"`         // the user's request
	Calls       int `json:"calls"`       // name and arguments
	Results     int `json:"results"`     // text of the results
	Answer      int `json:"answer"`      // the model's final message
	Context     int `json:"context"`     // sum of the above: the context at the end
	Read        int `json:"read"`        // tokens read over all turns; each turn reads the whole context
	Written     int `json:"written"`     // calls and answer
}

// Seconds are the times of one way.
type Seconds struct {
	Tools float64 `json:"tools"` // measured: from sending calls to having all results
	Model float64 `json:"model"` // assumed: turns and writing
	Total float64 `json:"total"`
}

func newReport(cfg Config) *Report {
	return &Report{Job: job, Program: program, Assumptions: Assumptions{
		Tokenizer: "o200k_base", TurnSeconds: cfg.TurnLatency.Seconds(), WriteSpeed: cfg.WriteSpeed,
	}}
}

func roundSeconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond)) / float64(time.Second)
}

func (w *Way) setTotals(cfg Config) {
	w.Tokens.Context = w.countContext()
	w.Seconds.Tools = roundSeconds(w.took)
	w.Seconds.Model = roundSeconds(time.Duration(w.Turns)*cfg.TurnLatency +
		time.Duration(float64(w.Tokens.Written)/cfg.WriteSpeed*float64(time.Second)))
	w.Seconds.Total = w.Seconds.Tools + w.Seconds.Model
}

// Write prints the report for a person.
func (r *Report) Write(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe job: %s\n\n", wrapText(r.Job, 100, "         "))
	r.writeTable(&b)
	first, last := r.Ways[0], r.Ways[len(r.Ways)-1]
	fmt.Fprintf(&b, "\nAs one program the context holds %s fewer tokens at the end. Over all turns the model reads "+
		"%s fewer than tool by\n"+
		"tool, %s fewer than with parallel calls.\n", formatRatio(first.Tokens.Context, last.Tokens.Context),
		formatRatio(first.Tokens.Read, last.Tokens.Read), formatRatio(r.Ways[1].Tokens.Read, last.Tokens.Read))
	fmt.Fprintf(&b, "\nThe program that the agent sent, after searching for the tools:\n\n%s\n\nWhat came back:\n\n%s\n", indentLines(r.Program), indentLines(last.Answered))
	fmt.Fprint(&b, r.formatNotes())
	fmt.Fprint(&b, connectText)
	_, _ = io.WriteString(w, b.String()) // there is no one to report an error to
}

func (r *Report) writeTable(b *strings.Builder) {
	row := func(label string, cell func(Way) string) {
		line := fmt.Sprintf("%-38s", label)
		for _, w := range r.Ways {
			line += fmt.Sprintf("%18s", cell(w))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	num := func(f func(Way) int) func(Way) string { return func(w Way) string { return text.Group(f(w)) } }
	rule := func() { b.WriteString(strings.Repeat("─", 38+18*len(r.Ways)) + "\n") }
	row("", func(w Way) string { return w.Name })
	rule()
	row("tokens: tool definitions", num(func(w Way) int { return w.Tokens.Definitions }))
	row("        the job", num(func(w Way) int { return w.Tokens.Job }))
	row("        the model's calls", num(func(w Way) int { return w.Tokens.Calls }))
	row("        results of the calls", num(func(w Way) int { return w.Tokens.Results }))
	row("        the model's answer", num(func(w Way) int { return w.Tokens.Answer }))
	row("        context at the end", num(func(w Way) int { return w.Tokens.Context }))
	row("        read over all turns", num(func(w Way) int { return w.Tokens.Read }))
	rule()
	row("model turns", num(func(w Way) int { return w.Turns }))
	row("tool calls by the model", num(func(w Way) int { return w.Calls }))
	row("time in tools, measured", func(w Way) string { return fmt.Sprintf("%.2f s", w.Seconds.Tools) })
	row("time with a model, assumed", func(w Way) string { return fmt.Sprintf("%.1f s", w.Seconds.Total) })
	rule()
	row("customers deactivated, in database", num(func(w Way) int { return w.Deactivated }))
}

func (r *Report) formatNotes() string {
	a := r.Assumptions
	return fmt.Sprintf(`
Measured: the MCP messages between the agent and this Biplane, which ran the real servers, the real door and the real
sandbox. Definitions are name, description and input schema of each tool, as clients hand them to a model; calls are name
and arguments; results are the text of the answers. Counted with %s (OpenAI's); for Claude it is an estimate.
It ran with policy: open, so that nothing waited for you; by default a person is asked before anything is changed.
All ways began with the same database and left the same changes in it, compared record by record.

Assumed: no model took part. The agents are scripts that make a good model's choices (largest pages; details only of
customers that may be inactive; with parallel calls everything that can be asked at once is, which few models do with 32
calls). A model is taken to need %.1f s a turn and to write %.0f tokens a second. A system prompt and a provider's own
framing come on top, the same for each way. Prompt caches make reading again cheaper, not shorter. The job is one that
suits a program.
`, a.Tokenizer, a.TurnSeconds, a.WriteSpeed)
}

const connectText = `
Put Biplane in front of your own tools. It reads the mcpServers you already have. Tools that only read are called at
once; a call that may change something waits until you say biplane approvals approve:

    claude mcp add biplane -- biplane mcp --config /path/to/.mcp.json

or, in the configuration of any MCP client:

    { "mcpServers": { "biplane": { "command": "biplane", "args": ["mcp", "--config", "/path/to/.mcp.json"] } } }
`

func formatRatio(a, b int) string {
	if b == 0 {
		return "∞ times"
	}
	x := float64(a) / float64(b)
	if x >= 10 {
		return fmt.Sprintf("%.0f times", x)
	}
	return fmt.Sprintf("%.1f times", x)
}

func indentLines(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// wrapText breaks s into lines of at most width runes; all but the first begin with prefix.
func wrapText(s string, width int, prefix string) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(s) {
		l := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case n+1+l > width:
			b.WriteString("\n" + prefix)
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += l
	}
	return b.String()
}
