package mcp_test

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

// answering declines every question.
type answering struct {
	tool.NoObserver
	capabilities string
	asked        map[string]tool.Question
	rounds       int
}

func (o *answering) ListCapabilities() json.RawMessage { return json.RawMessage(o.capabilities) }

func (o *answering) OnQuestions(_ context.Context, asked map[string]tool.Question) (map[string]json.RawMessage,
	error) {
	o.asked, o.rounds = asked, o.rounds+1
	answers := map[string]json.RawMessage{}
	for key := range asked {
		answers[key] = json.RawMessage(`{"action":"decline"}`)
	}
	return answers, nil
}
