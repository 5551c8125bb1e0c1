package executor

import (
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/values"
)

// CPU returns the CPU time of the program, of the one that carried out its plan, and of the host
// for both.
func (r *run) CPU() time.Duration { return r.meter.total() }

// Count counts the tokens that the agent received and those that it was spared. Only the first call
// after the execution's end computes them.
func (r *run) Count() (execution.Tokens, error) {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	if r.state.spared.counted || r.state.answered == nil { // the execution has not ended
		return r.state.exec.Tokens, nil
	}
	var t execution.Tokens
	for _, raw := range r.state.answered.Content {
		var b values.Block
		if json.Unmarshal(raw, &b) == nil && b.Type == "text" {
			n, err := r.x.tokens.Count(b.Text, 0)
			if err != nil {
				return t, err
			}
			t.Returned += n
		}
	}
	all, err := r.state.spared.countTokens(func(text string) (int, error) { return r.x.tokens.Count(text, 0) })
	if err != nil {
		return t, err
	}
	t.KeptOut = max(0, all-t.Returned)
	r.state.exec.Tokens, r.state.spared.counted, r.state.spared.results = t, true, nil
	return t, nil
}
