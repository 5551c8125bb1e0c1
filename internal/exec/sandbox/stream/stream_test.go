package stream

import (
	"io"
	"slices"
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

// quiet is a Recorder that records nothing.
type quiet struct{}

func (quiet) RecordLine([]byte, struct{}) {}

func TestStreamPush(t *testing.T) {
	s := New(Config[struct{}]{Line: 100, Recorder: quiet{}})
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
	first.AddCredit(6)
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
	s := New(Config[struct{}]{Line: 100, Recorder: quiet{}})
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

// TestCutLine cuts lines that come in pieces of every size, and refuses one that is too long.
func TestCutLine(t *testing.T) {
	const sent = "one\n\nthree and more\n"
	for size := 1; size <= len(sent); size++ {
		s := New(Config[struct{}]{Line: 14, Recorder: quiet{}})
		var got []string
		for piece := range slices.Chunk([]byte(sent), size) {
			for rest := piece; len(rest) > 0; {
				var line []byte
				var err error
				if line, rest, err = s.CutLine(rest); err != nil {
					t.Fatalf("pieces of %d bytes: %v", size, err)
				}
				if line != nil {
					got = append(got, string(line))
				}
			}
		}
		if want := []string{"one", "", "three and more"}; !slices.Equal(got, want) {
			t.Errorf("pieces of %d bytes: %q, want %q", size, got, want)
		}
	}
	s := New(Config[struct{}]{Line: 14, Recorder: quiet{}})
	if _, _, err := s.CutLine([]byte("three and ")); err != nil {
		t.Fatalf("CutLine: %v", err)
	}
	if _, _, err := s.CutLine([]byte("more!\n")); err != ErrLong {
		t.Errorf("err = %v, want %v", err, ErrLong)
	}
}

// TestStreamFull is a guest that has asked for much at once, and hasn't read it: it gets all of it,
// within a bound.
func TestStreamFull(t *testing.T) {
	s := New(Config[struct{}]{Line: 1 << 30, Recorder: quiet{}})
	line := make([]byte, 4<<20)
	for sent := 0; sent < MaxBuffered; sent += len(line) + 1 {
		if s.Full() {
			t.Fatalf("%d bytes are too much", sent)
		}
		if err := s.Send(line, struct{}{}, false); err != nil {
			t.Fatalf("Send: %v", err)
		}
	}
	if !s.Full() || MaxBuffered < 2*MaxUnread {
		t.Fatal("there is no bound, or one that reads in parallel come to")
	}
}
