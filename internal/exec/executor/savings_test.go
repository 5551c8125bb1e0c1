package executor

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestSpared(t *testing.T) {
	t.Parallel()
	quarter := func(text string) int { return len(text) / 4 }
	var s savings
	if n := s.countResults(quarter); n != 0 {
		t.Errorf("no results: %d tokens, want 0", n)
	}
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), maxSeen-400)))
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), maxSeen))) // too much to hold
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), 400)))
	if len(s.results) != 2 || s.bytes != maxSeen || s.beyond != maxSeen {
		t.Errorf("%d results of %d bytes held and %d bytes beyond, want 2 of %d and %d",
			len(s.results), s.bytes, s.beyond, maxSeen, maxSeen)
	}
	if n := s.countResults(quarter); n != maxSeen/2 {
		t.Errorf("%d tokens; want %d: those held, and as many estimated", n, maxSeen/2)
	}
}

func TestSparedCountsOnce(t *testing.T) {
	t.Parallel()
	counted := 0
	count := func(text string) int { counted++; return len(text) }
	var s savings
	s.addResult(json.RawMessage("0123456789"))
	if got := s.countTokens(count); got != (execution.Tokens{}) || counted != 0 {
		t.Errorf("before the answer is made: %+v, counted %d texts; want nothing", got, counted)
	}
	s.answer = tool.Text(false, "abc")
	want := execution.Tokens{Returned: 3, KeptOut: 7}
	for range 2 {
		if got := s.countTokens(count); got != want || counted != 2 {
			t.Errorf("got %+v, counted %d texts; want %+v of 2 texts", got, counted, want)
		}
	}
	if s.results != nil {
		t.Error("the results are held after their tokens are counted")
	}
}
