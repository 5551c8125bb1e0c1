package service

import (
	"encoding/json"
	"reflect"
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
