package guest

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
)

func TestJournalsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRecorder(rapid.SampledFrom([]string{"typescript", "python"}).Draw(t, "language"), 1<<20)
		for range rapid.IntRange(0, 20).Draw(t, "entries") {
			k := rapid.SampledFrom([]session.Kind{session.Line, session.Answer}).Draw(t, "kind")
			r.Heard(k, []byte(rapid.StringMatching(`[^\n]{0,40}`).Draw(t, "text")))
			r.Said(&sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: 1, Path: "a.b"}}, k == session.Answer)
		}
		j := r.Journal()
		got, err := session.DecodeJournal(j.Encode())
		if err != nil {
			t.Fatalf("session.DecodeJournal: %v", err)
		}
		if got.Language != j.Language || got.Asked != j.Asked || len(got.Entries) != len(j.Entries) {
			t.Fatalf("%+v became %+v", j, got)
		}
		for i := range got.Entries {
			if got.Entries[i].Kind != j.Entries[i].Kind || !bytes.Equal(got.Entries[i].Text, j.Entries[i].Text) {
				t.Fatalf("entry %d: %q became %q", i, j.Entries[i].Text, got.Entries[i].Text)
			}
		}
	})
}

// A journal that exceeds the limit is nil, and stays nil.
func TestRecorderIsBounded(t *testing.T) {
	r := NewRecorder("typescript", 100)
	r.Heard(session.Line, make([]byte, 50))
	if r.Journal() == nil {
		t.Error("nothing was recorded")
	}
	for range 10 {
		r.Heard(session.Line, make([]byte, 50))
	}
	if r.Journal() != nil || r.j.Entries != nil {
		t.Error("it holds too much")
	}
	var none *Recorder
	none.Heard(session.Line, nil)
	none.Said(nil, false)
	if none.Journal() != nil {
		t.Error("nobody recorded something")
	}
}

// Requests by lines and by questions have different digests, and their order matters.
func TestDigestOfWhatWasAsked(t *testing.T) {
	call := func(path string) *sandbox.GuestMessage {
		return &sandbox.GuestMessage{Call: &sandbox.GuestCall{ID: 1, Path: path}}
	}
	seen := map[[32]byte]string{}
	for name, say := range map[string]func(asked){
		"nothing":   func(asked) {},
		"a line":    func(a asked) { a.note(call("x"), false) },
		"asked":     func(a asked) { a.note(call("x"), true) },
		"in order":  func(a asked) { a.note(call("x"), false); a.note(call("y"), false) },
		"otherwise": func(a asked) { a.note(call("y"), false); a.note(call("x"), false) },
		"one":       func(a asked) { a.note(call("xy"), false) },
	} {
		a := newAsked()
		say(a)
		if other := seen[a.sum()]; other != "" {
			t.Errorf("%s is the same as %s", name, other)
		}
		seen[a.sum()] = name
	}
}

func FuzzDecodeJournal(f *testing.F) {
	r := NewRecorder("python", 1000)
	r.Heard(session.Line, []byte(`{"run":{}}`))
	r.Heard(session.Answer, []byte(`{"answer":{"id":1}}`))
	f.Add(r.Journal().Encode())
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		j, err := session.DecodeJournal(b)
		if err != nil {
			return
		}
		again, err := session.DecodeJournal(j.Encode())
		if err != nil || !reflect.DeepEqual(j, again) {
			t.Fatalf("%+v became %+v: %v", j, again, err)
		}
	})
}
