package form

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The options of a form.
const (
	approveOne = "approve"
	denyOne    = "deny"
	leave      = "leave"
	approveAll = "approve all"
	denyAll    = "deny all"
	choose     = "as chosen below"
)

// An Answer is the client's answer to a form (MCP, ElicitResult).
type Answer struct {
	Action  string           // "accept", "decline", "cancel"
	Content jsonvalue.Object // with "accept"
}

// An Outcome is the result of an answer.
type Outcome struct {
	Execution string // the execution that the form was about; empty: a call of the client's own
	Decided   int    // number of requests decided
	Denied    int    // how many of them were denied
	// Late says why the last of the other requests could not be decided: someone else decided it
	// first. It is nil if that decision approved the call.
	Late error
}

// A state is the sealed state of a form, which comes back with the answer.
type state struct {
	Nonce     string         `json:"n"`
	Principal string         `json:"p"`
	Tool      string         `json:"t"`
	Arguments string         `json:"a"` // digest of the arguments of the call in which the form was shown
	Execution string         `json:"x,omitempty"`
	Requests  []shownRequest `json:"r"`
	Expires   time.Time      `json:"e"`
}

type shownRequest struct {
	ID     string `json:"i"`
	Digest string `json:"d"`
	Tool   string `json:"-"`
}

const purpose = "approval form"

func (d *Desk) seal(s *state) (string, error) {
	s.Nonce = rand.Text()
	text, err := json.Marshal(s)
	if err != nil {
		return "", tool.Errorf(tool.Internal, "form: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(d.cfg.Key.Seal(purpose, text)), nil
}

// maxState is the maximum length of a sealed state.
const maxState = 16 << 10

// Again rebuilds the form for a state that a client sent without an answer. It also returns the
// execution that the form is about; empty: a call of the client's own. f is nil if nothing on it is
// pending any longer.
func (d *Desk) Again(ctx context.Context, c Call, sent string) (f *Form, execution string, err error) {
	s, err := d.unseal(c, sent)
	if err != nil {
		return nil, "", err
	}
	if s.Execution != "" {
		f, _, err = d.Execution(ctx, c, s.Execution)
		return f, s.Execution, err
	}
	f, err = d.Request(ctx, c, s.Requests[0].ID)
	return f, "", err
}

// unseal opens the state of a form. It returns an error unless the form was shown to c's principal
// in this call and has not expired.
func (d *Desk) unseal(c Call, sent string) (*state, error) {
	s := &state{}
	sealed, err := base64.RawURLEncoding.DecodeString(sent)
	if err == nil && len(sent) <= maxState {
		if sealed, err = d.cfg.Key.Unseal(purpose, sealed); err == nil {
			err = json.Unmarshal(sealed, s)
		}
	}
	switch {
	case err != nil || len(sent) > maxState || len(s.Requests) == 0:
		return nil, tool.Errorf(tool.Invalid,
			"unknown requestState: nothing was decided or called; omit it to make a new call")
	case s.Principal != c.Principal.ID:
		return nil, tool.Errorf(tool.Denied, "the form was shown to another user: nothing was decided or called")
	case s.Tool != c.Tool || s.Arguments != digestArguments(c.Arguments):
		return nil, tool.Errorf(tool.Invalid,
			"the form belongs to another call, or the arguments have changed: nothing was decided or called")
	case !d.cfg.Clock.Now().Before(s.Expires):
		return nil, tool.Errorf(tool.Conflict, "the form is too old: nothing was decided or called; %s", again(s))
	}
	return s, nil
}

// again returns the advice on how to be asked again.
func again(s *state) string {
	if s.Execution != "" {
		return "call resume with {\"execution\": \"" + s.Execution + "\"} to be asked again"
	}
	return "make the call again, without requestState, to be asked again"
}

// Answer accepts the answer to the form with the state sent, which was shown in the call c.
// Requests that the answer leaves undecided stay pending, and are not shown here again for a while.
// It returns an error if the answer was refused, or if a decision failed.
func (d *Desk) Answer(ctx context.Context, c Call, sent string, a Answer) (*Outcome, error) {
	s, who, decisions, note, err := d.accept(ctx, c, sent, a)
	if err != nil {
		d.cfg.People.RecordRefusal(ctx, c, err)
		return nil, err
	}
	out := &Outcome{Execution: s.Execution}
	for i, r := range s.Requests {
		if decisions[i] == leave {
			if err := d.use(c.Principal.ID, leftKey(c.Principal.ID, r.ID), d.cfg.Clock.Now().Add(maxAge)); err != nil &&
				tool.AsError(err).Kind == tool.Limit {
				return nil, err
			}
			continue
		}
		now, err := d.cfg.Requests.Decide(ctx, who, r.ID, decisions[i] == approveOne, note)
		switch {
		case err == nil:
			if out.Decided++; decisions[i] == denyOne {
				out.Denied++
			}
		case tool.AsError(err).Kind != tool.Conflict:
			return nil, err
		case now == nil || now.State != approval.Approved:
			out.Late = err
		}
	}
	return out, nil
}

// accept checks an answer, and returns its form, its decider and its decisions.
func (d *Desk) accept(ctx context.Context, c Call, sent string, a Answer) (s *state, who approval.Decider,
	decisions []string, note string, err error) {
	if s, err = d.unseal(c, sent); err != nil {
		return
	}
	var ok bool
	if who, ok = d.cfg.People.IdentifyDecider(c.Principal); !ok {
		err = tool.Errorf(tool.Denied,
			"decisions can't be made in this client: use the command line or the approvals page")
		return
	}
	if decisions, note, err = s.parseDecisions(a); err != nil {
		return
	}
	// Use the form up before anything is decided: of two simultaneous answers, only one is
	// accepted.
	if err = d.use(s.Principal, s.Nonce, s.Expires); err == nil {
		err = d.checkShown(ctx, s)
	}
	return
}

// checkShown returns an error if a request is not the one that was shown.
func (d *Desk) checkShown(ctx context.Context, s *state) error {
	for _, shown := range s.Requests {
		r, err := d.cfg.Requests.Get(ctx, shown.ID)
		if err != nil {
			return err
		}
		if r.Digest != shown.Digest || r.Principal != s.Principal || r.Execution != s.Execution {
			return tool.Errorf(tool.Conflict,
				"request %s differs from what the form showed: nothing was decided; %s", r.ID, again(s))
		}
	}
	return nil
}

// parseDecisions parses the decision for each request: approveOne, denyOne or leave. It is strict:
// an ambiguous answer decides nothing.
func (s *state) parseDecisions(a Answer) (decisions []string, note string, err error) {
	decisions = slices.Repeat([]string{leave}, len(s.Requests))
	switch a.Action {
	case "accept":
	case "decline", "cancel":
		return decisions, "", nil
	default:
		return nil, "", invalidAnswerf("its action must be accept, decline or cancel, not %q", text.Clip(a.Action, 40))
	}
	fields, err := textFields(a.Content)
	if err != nil {
		return nil, "", err
	}
	note, decision := fields["note"], fields["decision"]
	delete(fields, "note")
	delete(fields, "decision")
	if len(s.Requests) == 1 {
		if decision != approveOne && decision != denyOne {
			return nil, "", invalidAnswerf("its decision is not one of the choices")
		}
		decisions[0] = decision
	} else if err := parseChoices(decisions, decision, fields); err != nil {
		return nil, "", err
	}
	for k := range fields {
		return nil, "", invalidAnswerf("it has the unexpected field %q", text.Clip(k, 40))
	}
	return decisions, note, nil
}

// textFields returns the fields of an answer, which must all be short texts.
func textFields(content jsonvalue.Object) (map[string]string, error) {
	fields := map[string]string{}
	for k, v := range content {
		t, ok := v.(string)
		if !ok || len(t) > maxNote {
			return nil, invalidAnswerf("%q must be text of at most %d bytes", text.Clip(k, 40), maxNote)
		}
		fields[k] = t
	}
	return fields, nil
}

// parseChoices sets the decisions of a form with several requests, from the decision for all and
// the field of each request. It removes these fields.
func parseChoices(decisions []string, forAll string, fields map[string]string) error {
	for i := range decisions {
		switch forAll {
		case approveAll:
			decisions[i] = approveOne
		case denyAll:
			decisions[i] = denyOne
		case choose:
		default:
			return invalidAnswerf("its decision is not one of the choices")
		}
		key := callKey(i)
		choice, ok := fields[key]
		delete(fields, key)
		switch {
		case !ok || choice == "":
		case choice != approveOne && choice != denyOne && choice != leave:
			return invalidAnswerf("%s must be approve, deny or leave", key)
		case forAll != choose && choice != decisions[i]:
			return invalidAnswerf("it has %q, which contradicts %s", forAll, key)
		default:
			decisions[i] = choice
		}
	}
	return nil
}

func invalidAnswerf(format string, args ...any) error {
	e := tool.Errorf(tool.Invalid, format, args...)
	e.Msg = "the answer to the form can't be read: " + e.Msg + "; nothing was decided"
	return e
}

func digestArguments(args json.RawMessage) string {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	sum := sha256.Sum256(args)
	return hex.EncodeToString(sum[:])
}

// maxUsed is how many used forms and undecided requests are remembered.
const maxUsed = 20_000

func leftKey(principal, request string) string { return principal + " left " + request }

// An answerUse is an answered form, or a request left undecided.
type answerUse struct {
	principal string // who answered
	until     time.Time
}

// use remembers key until the given time. It returns an error of kind Conflict if key is remembered
// already. Principals share the number of remembered keys.
func (d *Desk) use(principal, key string, until time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Clock.Now()
	if now.Before(d.used[key].until) {
		return tool.Errorf(tool.Conflict, "the form was already answered: nothing was decided")
	}
	d.forget(key)
	err := d.room.Acquire(principal, 1)
	if err != nil {
		for k, u := range d.used {
			if !now.Before(u.until) {
				d.forget(k)
			}
		}
		err = d.room.Acquire(principal, 1)
	}
	if err != nil {
		return tool.Errorf(tool.Limit,
			"too many forms were answered in the last hour (%w): nothing was decided; decide on the command line", err)
	}
	d.used[key] = answerUse{principal, until}
	return nil
}

// forget forgets what may be remembered. d.mu is held.
func (d *Desk) forget(key string) {
	if u, ok := d.used[key]; ok {
		delete(d.used, key)
		d.room.Release(u.principal, 1)
	}
}

func (d *Desk) isUsed(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.Clock.Now().Before(d.used[key].until)
}
