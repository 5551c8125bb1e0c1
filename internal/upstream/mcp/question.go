package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

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

// readNeed returns what the server needs, or nil if the result is complete. modern says which
// revision the server speaks.
func readNeed(answer json.RawMessage, modern bool) (*need, error) {
	var n need
	if !modern {
		return readEarlyNeed(answer), nil
	}
	if !bytes.Contains(answer, []byte(`"resultType"`)) {
		return nil, nil
	}
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

// readEarlyNeed returns what a server of an earlier revision needs, or nil if the result is
// complete. Servers that are written for 2026-07-28 ask such a client with requests, but some do so
// only once, and then answer as in 2026-07-28: with questions instead of content.
func readEarlyNeed(answer json.RawMessage) *need {
	var n struct {
		need
		Content []json.RawMessage `json:"content"`
	}
	if !bytes.Contains(answer, []byte(`"inputRequests"`)) || json.Unmarshal(answer, &n) != nil ||
		len(n.Content) > 0 || len(n.Requests) == 0 {
		return nil
	}
	return &n.need
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
func (a asking) askClient(ctx context.Context, o tool.Observer, asked map[string]tool.Question) (json.RawMessage,
	error) {
	if len(asked) > tool.MaxQuestions {
		return nil, faultf(faultGarbled, "asked %d questions at a time, more than %d", len(asked), tool.MaxQuestions)
	}
	able, err := readCapabilities(o)
	if err != nil {
		return nil, err
	}
	clean := make(map[string]tool.Question, len(asked))
	for key, q := range asked {
		var err error
		if clean[key], err = a.cleanQuestion(key, q, able); errors.As(err, new(inputRequired)) {
			return nil, describeNeed(asked)
		} else if err != nil {
			return nil, err
		}
	}
	answers, err := o.OnQuestions(ctx, clean)
	if errors.Is(err, tool.ErrNotAsked) {
		return nil, describeNeed(asked)
	}
	if err != nil {
		return nil, err
	}
	for key, answer := range answers {
		if most := clean[key].MaxBytes(); len(answer) > most {
			return nil, tool.Errorf(tool.Invalid, "the client's answer to the %s of the tool's server is larger than "+
				"%d KiB; whether the call took effect is unknown", clean[key].Method, most>>10)
		}
	}
	return tool.Marshal(answers)
}

// narrowCapabilities returns the members of _meta of a call that say which of the capabilities,
// declared to a server before 2026-07-28 for all calls, the client of this call has. Servers that
// are written for 2026-07-28 read them in every revision, and others ignore them.
func (a asking) narrowCapabilities(capabilities json.RawMessage) []byte {
	if !a.questions {
		return nil
	}
	if capabilities == nil {
		capabilities = json.RawMessage("{}")
	}
	return append([]byte(`"io.modelcontextprotocol/clientCapabilities":`), capabilities...)
}

// readCapabilities returns what the client of a call can be asked, by capability.
func readCapabilities(o tool.Observer) (able map[string]json.RawMessage, err error) {
	if raw := o.ListCapabilities(); raw != nil {
		err = json.Unmarshal(raw, &able)
	}
	return able, err
}

// cleanQuestion returns a question without hidden characters. It returns an inputRequired if the
// client can't be asked.
func (a asking) cleanQuestion(key string, q tool.Question, able map[string]json.RawMessage) (tool.Question, error) {
	capability, ok := able[methodCapabilities[q.Method]]
	if !ok {
		return q, inputRequired{q.Method}
	}
	r, err := a.parseQuestion(key, q)
	if err != nil {
		return q, faultf(faultGarbled, "sent an invalid %s: %w", cleanLine(q.Method, 60), err)
	}
	if !r.isAnswerable(capability) {
		return q, inputRequired{q.Method}
	}
	return tool.Question{Method: q.Method, Params: r.params}, nil
}

// encodeCapabilities returns the capabilities declared to a server of a revision before
// 2026-07-28. They hold for all calls. Questions to a client that lacks them are refused. Roots
// are declared only if the transport shows which call a request belongs to: servers keep roots,
// and other clients use the same server.
func (a asking) encodeCapabilities(transport string) string {
	switch {
	case !a.questions:
		return "{}"
	case transport == kindHTTP:
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

// refuseQuestion answers a request of the server that no client can answer.
func (s *session) refuseQuestion(r *jsonrpc.Request) {
	if s.questions && r.Method == "elicitation/create" {
		s.answerRequest(r, json.RawMessage(`{"action":"cancel"}`), nil)
		return
	}
	s.answerRequest(r, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
		Message: "method not found: the client of this call has no such capability"})
}

// relayQuestions asks the client of the call p, and answers the server's requests. If the call ends
// meanwhile, it stops asking.
func (s *session) relayQuestions(ctx context.Context, p *pending, o tool.Observer, all []*jsonrpc.Request, round int) {
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
	s.setAsking(p, true)
	defer s.setAsking(p, false)
	able, err := readCapabilities(o)
	if err != nil || round > tool.MaxRounds {
		able = nil // all are refused
	}
	open, asked := map[string]*jsonrpc.Request{}, map[string]tool.Question{}
	for i, r := range all {
		key := "question"
		if i > 0 {
			key += strconv.Itoa(i + 1)
		}
		q, err := s.cleanQuestion(key, tool.Question{Method: r.Method, Params: r.Params}, able)
		if err != nil {
			s.answerFailedQuestion(r, err)
			continue
		}
		open[key], asked[key] = r, q
	}
	if len(asked) == 0 {
		return
	}
	raw, err := s.askClient(ctx, o, asked)
	var answers map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &answers)
	}
	for key, r := range open {
		switch {
		case err != nil:
			s.answerFailedQuestion(r, err)
		case !isObject(answers[key]):
			s.refuseQuestion(r)
		default:
			s.answerRequest(r, answers[key], nil)
		}
	}
}

// answerFailedQuestion answers a question that the client did not answer.
func (s *session) answerFailedQuestion(r *jsonrpc.Request, err error) {
	switch {
	case errors.As(err, new(inputRequired)):
		s.refuseQuestion(r)
	case isFault(err, faultGarbled):
		s.answerRequest(r, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()})
	default:
		s.answerRequest(r, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client did not answer"})
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
