package execution

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

func TestThrown(t *testing.T) {
	for _, c := range []struct {
		g                    sandbox.GuestError
		kind, limit, message string
	}{
		{sandbox.GuestError{Name: "Error", Message: "m"}, "exception", "", "Error: m"},
		{sandbox.GuestError{Name: "KeyError"}, "exception", "", "KeyError, without a message"},
		{sandbox.GuestError{Name: "TimeoutError", Message: "TimeoutError"}, "exception", "",
			"TimeoutError, without a message"},
		{sandbox.GuestError{Name: "TimeoutError", Message: "TimeoutError\ncaused by: CancelledError"}, "exception", "",
			"TimeoutError, without a message\ncaused by: CancelledError"},
		{sandbox.GuestError{Name: "MemoryError", Kind: "limit", Message: "x"}, "limit", "memory",
			"the program reached its memory limit: hold less at a time"},
		{sandbox.GuestError{Name: "MemoryError"}, "limit", "memory",
			"the program reached its memory limit: hold less at a time"},
		{sandbox.GuestError{Name: "MemoryError",
			Message: "the text nests too deeply for the parser: nest brackets less deeply"}, "exception", "",
			"MemoryError: the text nests too deeply for the parser: nest brackets less deeply"},
		{sandbox.GuestError{Name: "ToolError", Kind: "limit", Message: "limit (calls): too many"}, "limit",
			"calls", "too many"},
		{sandbox.GuestError{Name: "Error", Message: "limit (fan_out): 16.8 MB are waiting"}, "limit", "fan_out",
			"16.8 MB are waiting"},
		{sandbox.GuestError{Name: "Error", Message: "limit (memory): the program's own words"}, "exception", "",
			"Error: limit (memory): the program's own words"},
		{sandbox.GuestError{Name: "RecursionError", Message: "x"}, "limit", "stack",
			"the program reached its stack limit: recurse less deeply, or use a loop"},
	} {
		if f := Thrown(nil, &c.g); f.Kind != c.kind || f.Limit != c.limit || f.Message != c.message {
			t.Errorf("c.g = %+v, f.Kind = %q, f.Limit = %s, f.Message = %q, want f.Kind == c.kind && "+
				"f.Limit == c.limit && f.Message == c.message", c.g, f.Kind, f.Limit, f.Message)
		}
	}
}
