package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSpared(t *testing.T) {
	quarter := func(text string) (int, error) { return len(text) / 4, nil }
	var s savings
	if n, err := s.countResults(quarter); n != 0 || err != nil {
		t.Errorf("no results: %d tokens, %v", n, err)
	}
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), maxSeen-400)))
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), maxSeen))) // too much to hold
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), 400)))
	if len(s.results) != 2 || s.bytes != maxSeen || s.beyond != maxSeen {
		t.Errorf("%d results of %d bytes held and %d bytes beyond, want 2 of %d and %d",
			len(s.results), s.bytes, s.beyond, maxSeen, maxSeen)
	}
	if n, err := s.countResults(quarter); n != maxSeen/2 || err != nil {
		t.Errorf("%d tokens, %v; want %d: those held, and as many estimated", n, err, maxSeen/2)
	}
	failure := errors.New("no tokenizer")
	if _, err := s.countResults(func(string) (int, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("got %v, want the tokenizer's error", err)
	}
}

func TestSparedCountsOnce(t *testing.T) {
	counted := 0
	count := func(text string) (int, error) { counted++; return len(text), nil }
	var s savings
	s.addResult(json.RawMessage("0123456789"))
	if got, err := s.countTokens(count); got != (execution.Tokens{}) || counted != 0 || err != nil {
		t.Errorf("before the answer is made: %+v, %v, counted %d texts; want nothing", got, err, counted)
	}
	s.answer = tool.Text(false, "abc")
	want := execution.Tokens{Returned: 3, KeptOut: 7}
	for range 2 {
		if got, err := s.countTokens(count); got != want || counted != 2 || err != nil {
			t.Errorf("got %+v, %v, counted %d texts; want %+v of 2 texts", got, err, counted, want)
		}
	}
	if s.results != nil {
		t.Error("the results are held after their tokens are counted")
	}
}
