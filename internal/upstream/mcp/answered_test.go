//go:build unix

package mcp_test

import (
	"fmt"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A server that answers one principal's bad calls with errors is up: the good calls of others still
// reach it.
func TestAnsweredErrorsKeepNobodyAway(t *testing.T) {
	r := raw(t, "")
	r.Ready(t)
	l, err := limit.New(t.Context(), limit.Config{})
	if err != nil {
		t.Fatalf("limit.New: %v", err)
	}
	call := func(who, name, args string) (*tool.Result, error) {
		to := &tool.Tool{Upstream: r.Name(), Name: name}
		c := &tool.Call{Tool: to, Path: to.Path(), Arguments: []byte(args), Principal: tool.Principal{ID: who}}
		return l.Guard(t.Context(), c, func() (*tool.Result, error) { return r.Call(t.Context(), c) })
	}
	for i := range 20 {
		for _, code := range []string{"-32603", "-32000"} {
			_, err := call("key:eve", "fail "+code, fmt.Sprintf(`{"n":%d}`, i))
			if e := tool.AsError(err); e == nil || !e.Answered {
				t.Fatalf("bad call %d: %v", i+1, err)
			}
		}
		args := fmt.Sprintf(`{"content":[],"n":%d}`, i)
		for _, who := range []string{"key:ann", "key:eve"} {
			if res, err := call(who, "echo", args); err != nil || string(res.Raw) != args {
				t.Fatalf("good call %d of %s: %v", i+1, who, err)
			}
		}
	}
}
