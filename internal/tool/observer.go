package tool

import (
	"context"
	"encoding/json"
	"time"
)

// An Observer follows a call while it is made, as httptrace.ClientTrace follows an HTTP request. A
// wrapper embeds the Observer that it changes, and defines the methods that differ. No method is
// called after Call has returned. Methods may be called from several goroutines.
type Observer interface {
	// WantsProgress reports whether OnProgress does something: progress may cost a request to get.
	WantsProgress() bool
	OnProgress(context.Context, Progress)
	// WantsLogs reports whether OnLog does something.
	WantsLogs() bool
	OnLog(context.Context, Log) // with a log message of the tool
	// OnRemark is called with a remark for the caller about how the call was made.
	OnRemark(text string)
	// OnFindings is called with the findings of the review of the program that the call runs. They
	// are in order, and must not be modified.
	OnFindings([]Finding)
	// OnHold is called when the call starts to wait for a person, and with nil when it stops.
	OnHold(*Hold)
	// OnLabels is called with the labels of the tool's output before any of the output is returned:
	// its result, its error text, its progress, its log messages. If OnLabels returns an error,
	// none of the output is returned. A tool calls it without labels before it passes output on in
	// another way: the caller receives the labels that policy knows of the tool's output.
	OnLabels(labels []string) error
	// AwaitsTasks reports whether the tool's server may make the call a task. It does for callers
	// that can't tell, because Biplane awaits the task.
	AwaitsTasks() bool
	// OnTask is called when the tool's server has made the call a task.
	OnTask()
	// OnExecution is called with the id of the execution that the call begins.
	OnExecution(id string)
	// OnWork is called with the processor time that the host spent on the call: to check its
	// arguments and decide on them, to change its result, to search.
	OnWork(context.Context, time.Duration)
	// OnSend is called when an authorized call is about to be sent. It must not modify or keep c.
	// The gateway calls confirm, unless it is nil, after the call was recorded. If confirm returns
	// an error, the call isn't sent.
	OnSend(c *Call, decision string) (confirm func() error)
	// ListCapabilities returns the capabilities of the client that OnQuestions asks: a JSON object
	// with any of the members elicitation, sampling and roots. Nil means that no one can be asked.
	ListCapabilities() json.RawMessage
	// OnQuestions asks the client the questions of the tool's server, and returns the answers under
	// the same keys. The questions have no hidden characters and are within the limits.
	OnQuestions(context.Context, map[string]Question) (map[string]json.RawMessage, error)
}

// NoObserver is an Observer that does nothing. Other Observers embed it.
type NoObserver struct{}

// WantsProgress returns false.
func (NoObserver) WantsProgress() bool { return false }

// OnProgress does nothing.
func (NoObserver) OnProgress(context.Context, Progress) {}

// WantsLogs returns false.
func (NoObserver) WantsLogs() bool { return false }

// OnLog does nothing.
func (NoObserver) OnLog(context.Context, Log) {}

// OnRemark does nothing.
func (NoObserver) OnRemark(string) {}

// OnFindings does nothing.
func (NoObserver) OnFindings([]Finding) {}

// OnHold does nothing.
func (NoObserver) OnHold(*Hold) {}

// OnLabels returns nil.
func (NoObserver) OnLabels([]string) error { return nil }

// AwaitsTasks returns true.
func (NoObserver) AwaitsTasks() bool { return true }

// OnTask does nothing.
func (NoObserver) OnTask() {}

// OnExecution does nothing.
func (NoObserver) OnExecution(string) {}

// OnWork does nothing.
func (NoObserver) OnWork(context.Context, time.Duration) {}

// OnSend returns nil.
func (NoObserver) OnSend(*Call, string) func() error { return nil }

// ListCapabilities returns nil.
func (NoObserver) ListCapabilities() json.RawMessage { return nil }

// OnQuestions returns an error.
func (NoObserver) OnQuestions(context.Context, map[string]Question) (map[string]json.RawMessage, error) {
	return nil, &Error{Kind: Conflict, Msg: "the tool asks its caller, who can't be asked", Err: ErrNotAsked}
}

// Observe returns c.Observer, or one that does nothing.
func (c *Call) Observe() Observer {
	if c.Observer == nil {
		return NoObserver{}
	}
	return c.Observer
}
