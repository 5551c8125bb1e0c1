package tool

import (
	"encoding/json"
	"errors"
)

// Limits on the questions asked during one call.
const (
	MaxRounds    = 10       // times that a server may ask
	MaxQuestions = 10       // questions at a time
	MaxQuestion  = 64 << 10 // bytes of one question or answer
	MaxSampling  = 1 << 20  // bytes of a question to a model, or of its answer: they may contain images
)

// A Question is a request of a tool's server to the client of a call, during the call (MCP,
// InputRequest).
type Question struct {
	Method string          `json:"method"` // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage `json:"params,omitempty"`
}

// MaxBytes returns the maximum size of the question's parameters, and of its answer.
func (q Question) MaxBytes() int {
	if q.Method == "sampling/createMessage" {
		return MaxSampling
	}
	return MaxQuestion
}

// ErrNotAsked is the cause of errors of OnQuestions if the client can't be asked.
var ErrNotAsked = errors.New("the client can't be asked")
