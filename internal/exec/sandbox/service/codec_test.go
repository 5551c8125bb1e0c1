package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRequestFields checks that DecodeRequest knows every field of a request.
func TestRequestFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := rapid.Make[Request]().Draw(t, "request")
		text, err := json.Marshal(&q)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		var want Request
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		if got, err := DecodeRequest(text); err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("DecodeRequest of %s = %+v, %v, want %+v", text, got, err, want)
		}
	})
	q := &Request{Op: OpRun, Command: []string{"a"}, Dir: "d", Env: []string{"e"}, Input: true, Timeout: time.Second,
		Process: 1, Signal: 2, Path: "p", To: "t", Data: []byte("x"), Offset: 3, Length: 4, Truncate: true,
		Recursive: true, Wait: 5, Port: 6}
	for i := range reflect.TypeFor[Request]().NumField() {
		if f := reflect.ValueOf(q).Elem().Field(i); f.IsZero() {
			t.Errorf("the test has no value for field %d", i)
		}
	}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	if got, err := DecodeRequest(text); err != nil || !reflect.DeepEqual(got, q) {
		t.Errorf("DecodeRequest of %s = %+v, %v, want %+v", text, got, err, q)
	}
	for _, bad := range []string{"", "[]", "1", `{"op":1}`, `{"op":"run"`, `{"command":"x"}`, `{"port":"1"}`} {
		if q, err := DecodeRequest([]byte(bad)); err == nil {
			t.Errorf("DecodeRequest of %s = %+v, want an error", bad, q)
		}
	}
}

// TestReplyOfCommand checks that the reply to a command has the form of package json.
func TestReplyOfCommand(t *testing.T) {
	for _, e := range []Exit{{}, {Status: 255}, {Status: -1, Signal: "SIGKILL"},
		{Status: -1, Signal: "SIGKILL", TimedOut: true}, {Status: -1, Signal: `"<é\`}} {
		text, err := EncodeReply(&Reply{Exit: &e})
		if err != nil {
			t.Fatalf("EncodeReply: %v", err)
		}
		r, err := decodeReply(text)
		if err != nil || !reflect.DeepEqual(r, &Reply{Exit: &e}) {
			t.Errorf("the reply %s is %+v, %v, want %+v", text, r, err, e)
		}
	}
}

// TestReplyLists checks that a list of a reply has at most MaxEntries entries, however small an
// agent that was taken over makes them: each needs far more memory than its bytes.
func TestReplyLists(t *testing.T) {
	for _, name := range []string{"processes", "files", "events", "ports"} {
		for n, ok := range map[int]bool{MaxEntries: true, MaxEntries + 1: false} {
			text := `{"` + name + `":[` + strings.Repeat("{},", n-1) + "{}]}"
			r, err := decodeReply([]byte(text))
			switch {
			case !ok && (err == nil || !errors.Is(err, ErrLost)):
				t.Errorf("a reply with %d %s: %v, want an error", n, name, err)
			case ok && err != nil:
				t.Errorf("a reply with %d %s: %v", n, name, err)
			case ok && len(r.Processes)+len(r.Files)+len(r.Events)+len(r.Ports) != n:
				t.Errorf("a reply with %d %s has others", n, name)
			}
		}
	}
	long := `{"error":"` + strings.Repeat("x", MaxData) + `"}`
	if _, err := decodeReply([]byte(long)); err == nil || len(err.Error()) > 2*maxError {
		t.Errorf("a long error is %d bytes long", len(err.Error()))
	}
}

// TestFrames checks that frames are read as they were written, and that the length that an agent
// claims uses no memory before the bytes arrive.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		length := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 1<<20)).Draw(t, "length")
		data := bytes.Repeat([]byte("x"), length)
		if err := WriteFrame(&wire, FrameOutput, data); err != nil {
			t.Fatalf("WriteFrame: %v", err)
		}
		kind, got, err := ReadFrame(&wire)
		if err != nil || kind != FrameOutput || !bytes.Equal(got, data) {
			t.Errorf("ReadFrame = %c, %d bytes, %v, want %d bytes", kind, len(got), err, len(data))
		}
	})
	claim := []byte{FrameReply, 0, 0x7f, 0xff, 0xff, 'x'}
	if _, got, err := ReadFrame(bytes.NewReader(claim)); !errors.Is(err, io.ErrUnexpectedEOF) || cap(got) > 1<<20 {
		t.Errorf("a frame that ends early: %d bytes allocated, %v", cap(got), err)
	}
}
