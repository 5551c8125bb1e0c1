package stream

import (
	"io"
	"strings"
	"testing"
)

// A limitedSink is a Sink with room for a limited number of bytes.
type limitedSink struct {
	room  int
	heard strings.Builder
	end   error
}

func (h *limitedSink) AcceptPush(p []byte, end error) int {
	h.heard.Write(p)
	if end != nil {
		h.end = end
	}
	n := min(h.room, len(p))
	h.room -= n
	return n
}

// quiet is the Handler of a guest that sends nothing, and a Recorder.
type quiet struct{}

func (quiet) HandleLine([]byte) error     { return nil }
func (quiet) RecordLine([]byte, struct{}) {}
func (quiet) RefuseLine() error           { return nil }

func TestStreamPush(t *testing.T) {
	s := New(Config[struct{}]{Line: 100, Handler: quiet{}, Recorder: quiet{}})
	say := func(line string) {
		t.Helper()
		if err := s.Send([]byte(line), struct{}{}, false); err != nil {
			t.Fatalf("Send: %v", err)
		}
	}
	say("one")
	first, h := s.Open(), &limitedSink{room: 8}
	first.Push(h)
	say("two")
	if h.heard.String() != "one\ntwo\n" || s.Unread() || h.end != nil {
		t.Fatalf("h.heard.String() = %q, s.Unread() = %v, h.end = %v, want h.heard.String() == "+
			"\"one\\ntwo\\n\" && !s.Unread() && h.end == nil", h.heard.String(), s.Unread(), h.end)
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
	second, h2 := s.Open(), &limitedSink{room: 1 << 10}
	second.Push(h2)
	_ = first.Close()
	say("five")
	s.End()
	s.End()
	if got := h2.heard.String(); got != "four\nfive\n" || h2.end != io.EOF {
		t.Fatalf(`got = %q, h2.end = %v, want got == "four\nfive\n" && h2.end == io.EOF`, got, h2.end)
	}
	_ = second.Close()
	_ = s.Close()
	late := &limitedSink{}
	s.Open().Push(late)
	if late.end != io.EOF || strings.Contains(h.heard.String(), "four") {
		t.Fatal("a stream that is closed has no end")
	}
}

// A guest that stands still in a pause gets the lines of the next Run one by one; what it leaves is
// that Run's.
func TestStreamNext(t *testing.T) {
	s := New(Config[struct{}]{Line: 100, Handler: quiet{}, Recorder: quiet{}})
	r, h := s.Open(), &limitedSink{room: 100}
	r.Push(h)
	if !s.Pause() || h.end != io.EOF {
		t.Fatal("it is not paused")
	}
	got := make(chan string)
	go func() { got <- string(s.Next(t.Context())) }()
	for _, line := range []string{"one", "two", "three"} {
		if err := s.Send([]byte(line), struct{}{}, false); err != nil {
			t.Fatalf("Send: %v", err)
		}
	}
	if line := <-got; line != "one" {
		t.Errorf(`line = %v, want "one"`, line)
	}
	if line := string(s.Next(t.Context())); line != "two" {
		t.Errorf(`line = %v, want "two"`, line)
	}
	_ = r.Close()
	if !s.Resume() {
		t.Error("it was not paused")
	}
	h = &limitedSink{room: 100}
	s.Open().Push(h)
	if h.heard.String() != "three\n" {
		t.Errorf(`h.heard.String() = %v, want "three\n"`, h.heard.String())
	}
	s.End()
	if line := s.Next(t.Context()); line != nil {
		t.Errorf("line = %q, want nil", line)
	}
}

// TestStreamFull is a guest that has asked for much at once, and hasn't read it: it gets all of it,
// within a bound.
func TestStreamFull(t *testing.T) {
	s := New(Config[struct{}]{Line: 1 << 30, Handler: quiet{}, Recorder: quiet{}})
	line := make([]byte, 4<<20)
	for sent := 0; sent < MaxMade; sent += len(line) + 1 {
		if s.Full() {
			t.Fatalf("%d bytes are too much", sent)
		}
		if err := s.Send(line, struct{}{}, false); err != nil {
			t.Fatalf("Send: %v", err)
		}
	}
	if !s.Full() || MaxMade < 2*MaxUnread {
		t.Fatal("there is no bound, or one that reads in parallel come to")
	}
}
