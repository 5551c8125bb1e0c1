package executor

import (
	"encoding/json"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxSeen is the maximum size of the tool results that an execution holds to count their tokens, in
// bytes.
const maxSeen = 8 << 20

// A savings holds the results of a program's calls, which its agent did not have to read, until
// their tokens are counted. It is safe for concurrent use.
type savings struct {
	mu      sync.Mutex // guards the fields below
	results []json.RawMessage
	bytes   int               // of results
	beyond  int               // bytes of the results over maxSeen
	answer  *tool.Result      // what the agent reads; nil: it isn't made yet
	tokens  *execution.Tokens // nil: not counted yet
}

// addResult adds the result of a call.
func (s *savings) addResult(result json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+len(result) <= maxSeen {
		s.results = append(s.results, result)
		s.bytes += len(result)
	} else {
		s.beyond += len(result)
	}
}

// countTokens returns the number of tokens of the answer, and by how many the results have more,
// given a function that returns the number of a text. It counts once, after the answer is made. The
// tokens of the results over maxSeen are estimated.
func (s *savings) countTokens(count func(text string) int) (t execution.Tokens) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.tokens != nil:
		return *s.tokens
	case s.answer == nil:
		return t
	}
	for _, raw := range s.answer.Content {
		var b values.Block
		if json.Unmarshal(raw, &b) == nil && b.Type == "text" {
			t.Returned += count(b.Text)
		}
	}
	t.KeptOut = max(0, s.countResults(count)-t.Returned)
	s.tokens, s.results = &t, nil
	return t
}

// setAnswer sets the answer of which countTokens counts the tokens, and returns the size of the
// results that are held.
func (s *savings) setAnswer(answer *tool.Result) (held int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	return s.bytes
}

// currentTokens returns the numbers of tokens; zero: they are not counted yet.
func (s *savings) currentTokens() execution.Tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		return execution.Tokens{}
	}
	return *s.tokens
}

// countResults counts the tokens of the results. s.mu is held.
func (s *savings) countResults(count func(text string) int) (all int) {
	for _, raw := range s.results {
		all += count(string(raw))
	}
	if s.bytes > 0 {
		all += int(float64(s.beyond) * float64(all) / float64(s.bytes))
	}
	return all
}

// Count returns the number of tokens that the agent received, and the number that it didn't have to
// read. It counts them only in the first call after the answer was made.
func (r *run) Count() (execution.Tokens, error) {
	return r.spared.countTokens(func(text string) int { return r.x.tokens.Count(text, 0) }), nil
}
