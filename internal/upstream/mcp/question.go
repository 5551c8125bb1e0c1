package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/biplane-dev/biplane/internal/tool"
)

// methodCapabilities are the questions that servers may ask, with the capability that each requires
// of the client.
var methodCapabilities = map[string]string{
	"elicitation/create":     "elicitation",
	"sampling/createMessage": "sampling",
	"roots/list":             "roots",
}

// An inputRequired is the error of a tool that asks for input when no one can be asked.
type inputRequired struct{ what string }

func (e inputRequired) Error() string { return e.what }

// A need is what a server requires to complete a call (2026-07-28, InputRequiredResult). If it has
// no requests, the server only wants the call to be repeated with its state.
type need struct {
	Type     string                   `json:"resultType"`
	Requests map[string]tool.Question `json:"inputRequests"`
	State    json.RawMessage          `json:"requestState"`
}

// readNeed returns what the server needs, or nil if the result is complete.
func readNeed(answer json.RawMessage) (*need, error) {
	var n need
	if json.Unmarshal(answer, &n) != nil || n.Type == "" || n.Type == "complete" {
		return nil, nil
	}
	if n.Type != "input_required" {
		return nil, faultf(faultGarbled, "answered with a result of unknown type %q", cleanLine(n.Type, 60))
	}
	if len(n.Requests) == 0 && len(n.State) == 0 {
		return nil, faultf(faultGarbled, "asked for input without saying which")
	}
	return &n, nil
}

// declareCapabilities returns the members of _meta of a request, with the capabilities of the
// client that made the call. If tasks is set, they include tasks, which Biplane awaits itself.
func declareCapabilities(meta []byte, capabilities json.RawMessage, tasks bool) []byte {
	if tasks {
		const extensions = `{"extensions":{"` + tasksExtension + `":{}}`
		rest := bytes.TrimPrefix(capabilities, []byte("{"))
		if len(rest) <= 1 {
			capabilities = json.RawMessage(extensions + "}")
		} else {
			capabilities = append(json.RawMessage(extensions+","), rest...)
		}
	}
	if capabilities == nil {
		return meta
	}
	return append(bytes.Clone(bytes.TrimSuffix(meta, []byte("{}"))), capabilities...)
}

// askClient asks the client of a call, and returns its answers as a JSON object.
func (s *session) askClient(ctx context.Context, o tool.Observer, asked map[string]tool.Question) (json.RawMessage,
	error) {
	if len(asked) > tool.MaxQuestions {
		return nil, faultf(faultGarbled, "asked %d questions at a time, more than %d", len(asked), tool.MaxQuestions)
	}
	var able map[string]json.RawMessage
	if raw := o.ListCapabilities(); raw != nil {
		if err := json.Unmarshal(raw, &able); err != nil {
			return nil, err
		}
	}
	clean := make(map[string]tool.Question, len(asked))
	for key, q := range asked {
		if _, ok := able[methodCapabilities[q.Method]]; !ok {
			return nil, describeNeed(asked)
		}
		r, err := s.parseQuestion(key, q)
		if err != nil {
			return nil, faultf(faultGarbled, "sent an invalid %s: %w", cleanLine(q.Method, 60), err)
		}
		if !r.isAnswerable(able[methodCapabilities[q.Method]]) {
			return nil, describeNeed(asked)
		}
		clean[key] = tool.Question{Method: q.Method, Params: r.params}
	}
	answers, err := o.OnQuestions(ctx, clean)
	if errors.Is(err, tool.ErrNotAsked) {
		return nil, describeNeed(asked)
	}
	if err != nil {
		return nil, err
	}
	for key, a := range answers {
		if most := clean[key].MaxBytes(); len(a) > most {
			return nil, tool.Errorf(tool.Invalid, "the client's answer to the %s of the tool's server is larger than "+
				"%d KiB; whether the call took effect is unknown", clean[key].Method, most>>10)
		}
	}
	return tool.Marshal(answers)
}

// encodeCapabilities returns the capabilities declared to a server of a revision before
// 2026-07-28. They hold for all calls. Questions to a client that lacks them are refused. Roots
// are declared only if the transport shows which call a request belongs to: servers keep roots,
// and other clients use the same server.
func (s *session) encodeCapabilities() string {
	switch {
	case !s.questions:
		return "{}"
	case s.profile.kind == kindHTTP:
		return `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`
	}
	return `{"elicitation":{"form":{},"url":{}},"sampling":{}}`
}

// handleRequest answers a request of the server: ping, or a question to the client of the call in
// whose exchange it arrived.
func (s *session) handleRequest(r *jsonrpc.Request, from int64) {
	if s.modern.Load() {
		s.logViolation("ignored a request: since 2026-07-28 servers can't send any", "method", cleanLine(r.Method, 80))
		return
	}
	switch {
	case r.Method == "ping":
		s.answerRequest(r, json.RawMessage("{}"), nil)
		return
	case s.questions && methodCapabilities[r.Method] != "" && (from != 0 || r.Method != "roots/list"):
		if s.passQuestion(r, from) {
			return
		}
	}
	s.refuseQuestion(r)
}

// answerRequest answers a request of the server with a result or an error.
func (s *session) answerRequest(r *jsonrpc.Request, result json.RawMessage, failure error) {
	answer := &jsonrpc.Response{ID: r.ID, Result: result, Error: failure}
	body, err := jsonrpc.EncodeMessage(answer)
	if err != nil {
		s.logViolation("ignored a request that can't be answered", "error", err)
		return
	}
	s.sendLater(&message{body: body})
}

// passQuestion passes a request of the server to the call whose client is asked. from is the call
// in whose exchange the request arrived, or 0 if the transport can't say: then it belongs to the
// only call in progress. It returns false if no client can be asked, or if it has too many
// questions already.
func (s *session) passQuestion(r *jsonrpc.Request, from int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *pending
	for id, p := range s.pending {
		switch {
		case !p.call || from != 0 && id != from:
		case found != nil:
			return false // the question may be about any of them
		default:
			found = p
		}
	}
	if found == nil || found.asked == nil || from == 0 && s.hasAbandoned(found.owner) {
		return false
	}
	select {
	case found.asked <- r:
		return true
	default:
		return false
	}
}

// abandonedTime is how long a server may still ask about a call that the caller no longer waits
// for.
const abandonedTime = 10 * time.Minute

// hasAbandoned reports whether a question may be about a call of another principal than owner, who
// no longer waits for its answer. The caller must hold s.mu.
func (s *session) hasAbandoned(owner string) bool {
	for who, at := range s.abandoned {
		if who != owner && time.Since(at) <= abandonedTime {
			return true
		}
	}
	return false
}

// refuseQuestion answers a request of the server that no client can answer.
func (s *session) refuseQuestion(r *jsonrpc.Request) {
	if s.questions && r.Method == "elicitation/create" {
		s.answerRequest(r, json.RawMessage(`{"action":"cancel"}`), nil)
		return
	}
	s.answerRequest(r, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
		Message: "method not found: the client of this call has no such capability"})
}

// relayQuestion asks the client of the call p, and answers the server's request. If the call ends
// meanwhile, it stops asking.
func (s *session) relayQuestion(ctx context.Context, p *pending, o tool.Observer, r *jsonrpc.Request, round int) {
	if round > tool.MaxRounds {
		s.refuseQuestion(r)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	})
	const key = "question"
	answers, err := s.askClient(ctx, o, map[string]tool.Question{key: {Method: r.Method, Params: r.Params}})
	var unable inputRequired
	switch {
	case errors.As(err, &unable):
		s.refuseQuestion(r)
	case isFault(err, faultGarbled):
		s.answerRequest(r, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()})
	case err != nil:
		s.answerRequest(r, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client did not answer"})
	default:
		var all map[string]json.RawMessage
		if json.Unmarshal(answers, &all) != nil || !isObject(all[key]) {
			s.refuseQuestion(r)
			return
		}
		s.answerRequest(r, all[key], nil)
	}
}

// describeNeed returns an error with the questions.
func describeNeed(asked map[string]tool.Question) error {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		var p struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(asked[key].Params, &p)
		text := asked[key].Method
		if p.Message != "" {
			text += ": " + p.Message
		}
		texts = append(texts, text)
	}
	return inputRequired{cleanLine(strings.Join(texts, "; "), 300)}
}
