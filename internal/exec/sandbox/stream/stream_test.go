package stream

import (
	"io"
	"strings"
	"testing"
)

// A hearer is a sandbox that has a stream pushed, and has room for so many bytes.
type hearer struct {
	room  int
	heard strings.Builder
	end   error
}

func (h *hearer) AcceptPush(p []byte, end error) int {
	h.heard.Write(p)
	if end != nil {
		h.end = end
	}
	n := min(h.room, len(p))
	h.room -= n
	return n
}

// quiet is the Handler of a guest that sends nothing.
type quiet struct{}

func (quiet) HandleLine([]byte) error     { return nil }
func (quiet) RecordLine([]byte, struct{}) {}
func (quiet) RefuseLine() error           { return nil }

func TestStreamPush(t *testing.T) {
	s := New(Config[struct{}]{Line: 100, Handler: quiet{}})
	say := func(line string) {
		t.Helper()
		if err := s.Send([]byte(line), struct{}{}, false); err != nil {
			t.Fatal(err)
		}
	}
	say("one")
	first, h := s.Open(), &hearer{room: 8}
	first.Push(h)
	say("two")
	if h.heard.String() != "one\ntwo\n" || s.Unread() || h.end != nil {
		t.Fatalf("%q %v %v", h.heard.String(), s.Unread(), h.end)
	}
	say("three")
	if !s.Unread() || s.Pause() {
		t.Fatal("there is a line for which there was no room")
	}
	first.Took(6)
	if s.Unread() || !s.Pause() || h.end != io.EOF {
		t.Fatal("all is taken, and it is to end:", h.end)
	}
	say("four") // the Run that is to end hasn't yet
	_ = first.Close()
	if !s.Resume() || !s.Unread() {
		t.Fatal("the next Run has nothing to hear")
	}
	_ = first.Close() // it is over since long
	second, h2 := s.Open(), &hearer{room: 1 << 10}
	second.Push(h2)
	_ = first.Close()
	say("five")
	s.End()
	s.End()
	if got := h2.heard.String(); got != "four\nfive\n" || h2.end != io.EOF {
		t.Fatalf("%q %v", got, h2.end)
	}
	_ = second.Close()
	_ = s.Close()
	late := &hearer{}
	s.Open().Push(late)
	if late.end != io.EOF || strings.Contains(h.heard.String(), "four") {
		t.Fatal("a stream that is closed has no end")
	}
}

// A guest that stands still in a pause gets the lines of the next Run one by one; what it leaves is
// that Run's.
func TestStreamNext(t *testing.T) {
	s := New(Config[struct{}]{Line: 100, Handler: quiet{}})
	r, h := s.Open(), &hearer{room: 100}
	r.Push(h)
	if !s.Pause() || h.end != io.EOF {
		t.Fatal("it is not paused")
	}
	got := make(chan string)
	go func() { got <- string(s.Next(t.Context())) }()
	for _, line := range []string{"one", "two", "three"} {
		if err := s.Send([]byte(line), struct{}{}, false); err != nil {
			t.Fatal(err)
		}
	}
	if line := <-got; line != "one" {
		t.Error(line)
	}
	if line := string(s.Next(t.Context())); line != "two" {
		t.Error(line)
	}
	_ = r.Close()
	if !s.Resume() {
		t.Error("it was not paused")
	}
	h = &hearer{room: 100}
	s.Open().Push(h)
	if h.heard.String() != "three\n" {
		t.Error(h.heard.String())
	}
	s.End()
	if line := s.Next(t.Context()); line != nil {
		t.Errorf("%q", line)
	}
}

// TestStreamFull is a guest that has asked for much at once, and hasn't read it: it gets all of it,
// within a bound.
func TestStreamFull(t *testing.T) {
	s := New(Config[struct{}]{Line: 1 << 30, Handler: quiet{}})
	line := make([]byte, 4<<20)
	for sent := 0; sent < MaxMade; sent += len(line) + 1 {
		if s.Full() {
			t.Fatalf("%d bytes are too much", sent)
		}
		if err := s.Send(line, struct{}{}, false); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Full() || MaxMade < 2*MaxUnread {
		t.Fatal("there is no bound, or one that reads in parallel come to")
	}
}
