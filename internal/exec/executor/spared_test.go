package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestSpared(t *testing.T) {
	quarter := func(text string) (int, error) { return len(text) / 4, nil }
	var s spared
	if n, err := s.countTokens(quarter); n != 0 || err != nil {
		t.Errorf("no results: %d tokens, %v", n, err)
	}
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), maxSeen-400)))
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), maxSeen))) // too much to hold
	s.addResult(json.RawMessage(bytes.Repeat([]byte("x"), 400)))
	if len(s.results) != 2 || s.bytes != maxSeen || s.beyond != maxSeen {
		t.Errorf("%d results of %d bytes held and %d bytes beyond, want 2 of %d and %d",
			len(s.results), s.bytes, s.beyond, maxSeen, maxSeen)
	}
	if n, err := s.countTokens(quarter); n != maxSeen/2 || err != nil {
		t.Errorf("%d tokens, %v; want %d: those held, and as many estimated", n, err, maxSeen/2)
	}
	failure := errors.New("no tokenizer")
	if _, err := s.countTokens(func(string) (int, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("got %v, want the tokenizer's error", err)
	}
}
