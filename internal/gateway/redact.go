package gateway

import (
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// quiet reports whether policy leaves fields out of what the call gives. What its tool says meanwhile is not passed on then:
// nobody can say which fields that holds. Programs are given results that were redacted already.
func quiet(c *tool.Call, d policy.Decision) bool {
	if len(d.Redact) == 0 || c.Tool.Upstream == tool.Own {
		return false
	}
	c.Progress, c.Log = nil, nil
	return true
}

// redacted is what a call came to, without the fields that policy leaves out. Of an error of a call that was sent its kind
// is left.
func redacted(r *tool.Result, err error, paths []string) (*tool.Result, error) {
	if err != nil {
		e := tool.AsError(err)
		if e.Unsent {
			return nil, err
		}
		return nil, &tool.Error{Kind: e.Kind, Msg: "the tool failed (" + string(e.Kind) + "): what it says is left out, since policy leaves fields out of its results", Err: err}
	}
	if r == nil {
		return nil, nil
	}
	return policy.Redact(r, paths), nil
}
