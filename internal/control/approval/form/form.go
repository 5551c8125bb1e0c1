// Package form shows pending calls to the person at an agent's own client, as one form (MCP,
// client/elicitation), and turns the answer into decisions.
//
// For each call a form shows what the approval is bound to, and the full arguments. Calls too large
// for that are left out. An answer is accepted only for the form that was shown. The form has a
// sealed state that names who was asked, in which call, the requests with their digests, and the
// expiry. It can be answered once. All decisions go through the gate.
package form

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Config configures a Desk. Requests, Key and People must be set.
type Config struct {
	Requests approval.Requests
	Key      *secret.Key // seals states; stays the same after a restart, so that forms stay valid
	People   People
	Clock    *wallclock.Clock // nil: the system's
}

// People knows who decides in agents' clients, and what happens outside of them.
type People interface {
	// IdentifyDecider returns the person at a principal's client as a decider. If it returns false,
	// no decisions are made there.
	IdentifyDecider(tool.Principal) (approval.Decider, bool)
	// LocateRequest returns the address or command that shows a request, for calls that don't fit
	// on a form.
	LocateRequest(id string) string
	// RecordRefusal records that an answer was refused as a whole: forged, used before, from
	// another call or from another principal.
	RecordRefusal(ctx context.Context, c Call, why error)
}

// Limits of a form.
const (
	maxCalls     = 10       // on one form
	maxArguments = 8 << 10  // of one call, in bytes, as shown
	maxText      = 24 << 10 // of the whole form
	maxAge       = time.Hour
	maxNote      = 1 << 10
)

// A Desk builds forms and accepts their answers. It is safe for concurrent use.
type Desk struct {
	cfg Config

	mu   sync.Mutex
	used map[string]answerUse // answered forms and requests left undecided
	room *queue.Shares
}

// New returns a Desk.
func New(cfg Config) *Desk {
	return &Desk{cfg: cfg, used: map[string]answerUse{}, room: queue.NewShares("forms", "remembered", maxUsed)}
}

// A Call is the call in which a person is asked. The answer must come in the same call.
type Call struct {
	Principal tool.Principal
	Tool      string // path
	Arguments json.RawMessage
}

// A Form is a form for the client to show to its user.
type Form struct {
	Message string
	Schema  json.RawMessage // of the answer: an object of strings (2025-06-18 and later)
	// State is passed to Answer. It is sealed, so clients can't read it.
	State string
	ids   []string
}

// Execution returns a form with the pending requests of an execution that c's principal may decide
// on. It is nil if there are none, or if the principal has already left all of them undecided.
// waiting is the number of its pending calls, including calls that others decide on.
func (d *Desk) Execution(ctx context.Context, c Call, execution string) (f *Form, waiting int, err error) {
	all, err := d.cfg.Requests.List(ctx,
		approval.Query{States: []approval.State{approval.Pending}, Execution: execution, Limit: 1000})
	if err != nil {
		return nil, 0, err
	}
	all = slices.DeleteFunc(all, func(r approval.Request) bool { return r.Principal != c.Principal.ID })
	slices.SortStableFunc(all, func(a, b approval.Request) int { // in the order in which the program made them
		return cmp.Or(cmp.Compare(len(a.Call), len(b.Call)), cmp.Compare(a.Call, b.Call))
	})
	f, err = d.form(c, execution, all)
	return f, len(all), err
}

// Request is like Execution, for one call that a client makes directly.
func (d *Desk) Request(ctx context.Context, c Call, id string) (*Form, error) {
	r, err := d.cfg.Requests.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.State != approval.Pending || r.Principal != c.Principal.ID || r.Execution != "" {
		return nil, nil
	}
	return d.form(c, "", []approval.Request{*r})
}

// Open reports whether any request on f is still pending.
func (d *Desk) Open(ctx context.Context, f *Form) bool {
	for _, id := range f.ids {
		if d.waits(ctx, id) {
			return true
		}
	}
	return false
}

// Untouched reports whether all requests on f are still pending.
func (d *Desk) Untouched(ctx context.Context, f *Form) bool {
	for _, id := range f.ids {
		if !d.waits(ctx, id) {
			return false
		}
	}
	return true
}

func (d *Desk) waits(ctx context.Context, id string) bool {
	r, err := d.cfg.Requests.Get(ctx, id)
	return err == nil && r.State == approval.Pending
}

// form builds a form of those requests in all that can be decided here.
func (d *Desk) form(c Call, execution string, all []approval.Request) (*Form, error) {
	who, ok := d.cfg.People.IdentifyDecider(c.Principal)
	if !ok {
		return nil, nil
	}
	s := &state{Principal: c.Principal.ID, Tool: c.Tool, Arguments: digestArguments(c.Arguments), Execution: execution,
		Expires: d.cfg.Clock.Now().Add(maxAge)}
	var blocks []string
	var elsewhere []string
	size := 0
	for i := range all {
		r := &all[i]
		if d.cfg.Requests.May(who, r) != nil || d.isUsed(leftKey(c.Principal.ID, r.ID)) {
			continue
		}
		text, fits := show(r, len(blocks)+1)
		if !fits || len(blocks) == maxCalls || size+len(text) > maxText {
			elsewhere = append(elsewhere, r.ID)
			continue
		}
		blocks, size = append(blocks, text), size+len(text)
		s.Requests = append(s.Requests, shownRequest{ID: r.ID, Digest: r.Digest, Tool: r.Tool})
		if r.Expires.Before(s.Expires) {
			s.Expires = r.Expires
		}
	}
	if len(blocks) == 0 {
		return nil, nil
	}
	f := &Form{Message: d.writeMessage(s, blocks, elsewhere), Schema: schema(s.Requests)}
	for _, r := range s.Requests {
		f.ids = append(f.ids, r.ID)
	}
	var err error
	f.State, err = d.seal(s)
	return f, err
}

// writeMessage returns the text that the person reads.
func (d *Desk) writeMessage(s *state, blocks, elsewhere []string) string {
	var b strings.Builder
	switch {
	case s.Execution == "":
		b.WriteString("This call waits for your decision.")
	case len(blocks) == 1:
		b.WriteString("A program waits for your decision on one call.")
	default:
		fmt.Fprintf(&b, "A program waits for your decision on %d calls.", len(blocks))
	}
	b.WriteString(" An approved call is made once, with exactly these arguments.\n\n```\n")
	b.WriteString(strings.Join(blocks, "\n"))
	b.WriteString("```\n")
	if n := len(elsewhere); n > 0 {
		fmt.Fprintf(&b, "\n%d more are not shown and not decided here, because they are too large or too many for a "+
			"form (%s).\n", n, d.cfg.People.LocateRequest(elsewhere[0]))
	}
	b.WriteString("\nTo leave it pending, decline or cancel.")
	return b.String()
}

// show formats a request as lines, and reports whether it fits. Nothing in the request can break a
// line.
func show(r *approval.Request, n int) (text string, fits bool) {
	args, err := arguments(r)
	if err != nil || len(args) > maxArguments {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "call %d: %s\n", n, tool.VisibleLine(r.Tool))
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s: %s\n", name, tool.VisibleLine(value))
		}
	}
	b.WriteString(args)
	line("reason", r.Reason)
	line("data read", strings.Join(r.Labels, ", "))
	line("likely faults in the program", strings.Join(tool.FindingRules(r.Findings), ", "))
	line("asked by", r.Principal)
	line("agent", r.Agent)
	line("client", r.Client)
	line("request", r.ID)
	line("digest", r.Digest)
	line("expires", r.Expires.UTC().Format(time.RFC3339))
	return b.String(), b.Len() <= maxArguments+4<<10
}

// arguments formats the arguments of a call, or the calls of a plan.
func arguments(r *approval.Request) (string, error) {
	if r.Tool != tool.PlanPath {
		args, err := oneLine(r.Arguments)
		return "  arguments: " + args + "\n", err
	}
	p, err := plan.Parse(r.Arguments)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	n := "1 call"
	if len(p.Writes) != 1 {
		n = fmt.Sprintf("%d calls", len(p.Writes))
	}
	fmt.Fprintf(&b, "  all writes of the program: %s\n", n)
	for i, w := range p.Writes {
		args, err := oneLine(w.Arguments)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "  %d. %s %s\n", i+1, tool.VisibleLine(w.Tool), args)
		if w.Simulated {
			b.WriteString("     its arguments contain a simulated answer: the call will be refused\n")
		}
	}
	return b.String(), nil
}

// oneLine formats arguments without insignificant white space, and with invisible characters
// escaped. It returns an error if there are no arguments: a list omits large ones.
func oneLine(args json.RawMessage) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, args); err != nil {
		return "", err
	}
	return tool.VisibleLine(b.String()), nil
}

// schema returns the JSON schema of the answer.
func schema(calls []shownRequest) json.RawMessage {
	type property struct {
		Type        string   `json:"type"`
		Title       string   `json:"title"`
		Description string   `json:"description,omitempty"`
		Enum        []string `json:"enum,omitempty"`
		MaxLength   int      `json:"maxLength,omitempty"`
	}
	props := map[string]property{
		"note": {Type: "string", Title: "Note", Description: "for the record and for the agent; may be empty",
			MaxLength: maxNote},
	}
	if len(calls) == 1 {
		props["decision"] = property{Type: "string", Title: "Decision", Enum: []string{approveOne, denyOne}}
	} else {
		props["decision"] = property{Type: "string", Title: "Decision", Enum: []string{approveAll, denyAll, choose}}
		for i, c := range calls {
			props[callKey(i)] = property{Type: "string", Title: fmt.Sprintf("Call %d", i+1), Description: "with \"" +
				choose + "\": " + text.Clip(tool.VisibleLine(c.Tool), 80), Enum: []string{approveOne, denyOne, leave}}
		}
	}
	text, err := tool.Marshal(struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
		Type       string              `json:"type"`
	}{props, []string{"decision"}, "object"})
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	return text
}

func callKey(i int) string { return fmt.Sprintf("call_%d", i+1) }
