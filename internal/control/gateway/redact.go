package gateway

import (
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// quiet reports whether policy removes fields from the result of the call. If so, it drops the
// tool's progress and log messages: they may contain these fields in any form. Programs receive
// results that are already redacted.
func quiet(c *tool.Call, d policy.Decision) bool {
	if len(d.Redact) == 0 || c.Tool.Upstream == tool.Own {
		return false
	}
	if c.Observer != nil {
		c.Observer = quietObserver{c.Observer}
	}
	return true
}

// A quietObserver drops progress and log messages.
type quietObserver struct{ tool.Observer }

func (quietObserver) WantsProgress() bool      { return false }
func (quietObserver) OnProgress(tool.Progress) {}
func (quietObserver) WantsLogs() bool          { return false }
func (quietObserver) OnLog(tool.Log)           {}

// redacted returns the result of a call without the fields that policy removes. Of an error of a
// call that was sent, only the kind is kept.
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
