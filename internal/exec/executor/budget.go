package executor

import (
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
)

// CPU returns the CPU time of the program and of the program that carried out its plan, including
// the host's work for both.
func (r *run) CPU() time.Duration { return r.meter.total() }

// Count returns the number of tokens that the agent received, and the number that it didn't have to
// read. It counts them only in the first call after the answer was made.
func (r *run) Count() (execution.Tokens, error) {
	return r.spared.countTokens(func(text string) int { return r.x.tokens.Count(text, 0) }), nil
}
