package owned

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Bounds of single operations.
const (
	maxText     = 1 << 20 // bytes of an argument
	defaultTime = time.Minute
	maxWait     = time.Minute
	// endTime is how long the processes of a sandbox may take to end after their agent has.
	endTime = 5 * time.Second
)

// CallTool carries out a call of one of the tools.
func (s *Sandboxes) CallTool(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	name, ok := strings.CutPrefix(c.Tool.Name, tool.SandboxPrefix)
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	if !ok || i < 0 {
		return nil, tool.Errorf(tool.NotFound, "sandboxes have no tool %s", c.Tool.Name)
	}
	if c.Grant.Tier > tool.Process {
		return nil, tool.NotSent(tool.Errorf(tool.Unavailable, "policy requires tier %s, and your own sandboxes "+
			"are of tier %s", c.Grant.Tier, tool.Process))
	}
	var a arguments
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "%s: %w", c.Path, err))
	}
	switch name {
	case "create":
		i, err := s.CreateSandbox(ctx, c.Principal, c.Labels, Request{Name: a.Name, Image: a.Image, Memory: a.Memory,
			TTL: inSeconds(a.TTL), Idle: inSeconds(a.Idle), Standby: inSeconds(a.Standby), Network: a.Network})
		return answerWith(i, err)
	case "list":
		all, err := s.ListSandboxes(ctx, c.Principal)
		return answerWith(struct {
			Sandboxes []Info `json:"sandboxes"`
		}{all}, err)
	case "show":
		return answerWith(s.ShowSandbox(ctx, c.Principal, a.Sandbox))
	case "preview":
		return s.makePreview(ctx, c, &a)
	case "suspend":
		return answerWith(s.SuspendSandbox(ctx, c.Principal, a.Sandbox))
	case "resume":
		return answerWith(s.ResumeSandbox(ctx, c.Principal, a.Sandbox, c.Labels))
	case "end":
		id, err := s.EndSandbox(ctx, c.Principal, a.Sandbox)
		return answerWith(struct {
			Ended string `json:"ended"`
		}{id}, err)
	}
	q, err := a.makeRequest(name, s.cfg.Limits)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	return s.carryOut(ctx, c, a.Sandbox, name, q, a.Input)
}

// longest bounds times: a larger number of seconds would not fit in a time.Duration.
const longest = 100 * 365 * 24 * time.Hour

// inSeconds converts a number of seconds, at most longest.
func inSeconds(n float64) time.Duration {
	return time.Duration(max(-1, min(n, longest.Seconds())) * float64(time.Second))
}

// answerWith returns a value as the result of a call.
func answerWith[T any](v T, err error) (*tool.Result, error) {
	if err != nil {
		return nil, err
	}
	text, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	return tool.StructuredResult(text, string(text))
}

// makeRequest makes the request for an operation.
func (a *arguments) makeRequest(name string, l Limits) (*service.Request, error) {
	q := &service.Request{Path: a.Path, To: a.To, Recursive: a.Recursive, Process: a.Process, Signal: a.Signal,
		Length: a.Length, Dir: a.Directory, Wait: min(inSeconds(a.Wait), maxWait)}
	if a.Offset != nil {
		q.Offset = *a.Offset
	}
	switch name {
	case "run", "start":
		return q, a.fillCommand(q, name, l)
	case "write":
		return q, a.fillWrite(q)
	}
	q.Op = map[string]string{"processes": service.OpList, "logs": service.OpLogs, "stop": service.OpStop,
		"read": service.OpRead, "files": service.OpDir, "stat": service.OpStat, "mkdir": service.OpMkdir,
		"move": service.OpMove, "remove": service.OpRemove, "watch": service.OpWatch, "ports": service.OpPorts}[name]
	if strings.ContainsRune(a.Path+a.To, 0) {
		return nil, tool.Errorf(tool.Invalid, "a path has no NUL characters")
	}
	return q, nil
}

// fillCommand adds the command to a request to run or start one.
func (a *arguments) fillCommand(q *service.Request, name string, l Limits) error {
	q.Op, q.Command = name, a.Argv
	switch {
	case (a.Command == "") == (len(a.Argv) == 0):
		return tool.Errorf(tool.Invalid, "%s: set either command or argv", name)
	case a.Command != "":
		q.Command = []string{"sh", "-c", a.Command}
	}
	size := len(a.Input)
	for _, word := range q.Command {
		if size += len(word); strings.ContainsRune(word, 0) {
			return tool.Errorf(tool.Invalid, "%s: a command has no NUL characters", name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Environment)) {
		value := a.Environment[key]
		if size += len(key) + len(value); key == "" || strings.ContainsAny(key, "=\x00") ||
			strings.ContainsRune(value, 0) {
			return tool.Errorf(tool.Invalid, "%s: invalid environment variable %q", name, key)
		}
		q.Env = append(q.Env, key+"="+value)
	}
	if size > maxText {
		return tool.Errorf(tool.Limit, "%s: the command, its environment and its input are larger than 1 MiB: write a "+
			"file first", name)
	}
	q.Input, q.Timeout = a.Input != "", defaultTime
	if a.Timeout > 0 {
		q.Timeout = min(inSeconds(a.Timeout), l.RunTime)
	}
	return nil
}

// fillWrite adds the data to a request to write a file.
func (a *arguments) fillWrite(q *service.Request) error {
	q.Op, q.Recursive = service.OpWrite, true
	switch {
	case a.Text != nil && a.Base64 != nil:
		return tool.Errorf(tool.Invalid, "write: set either text or base64")
	case a.Text != nil:
		q.Data = []byte(*a.Text)
	default:
		q.Data = a.Base64
	}
	if len(q.Data) > service.MaxData {
		return tool.Errorf(tool.Limit, "write: at most 4 MiB at once: write the rest with append")
	}
	if a.Append {
		q.Offset = -1
	}
	q.Truncate = !a.Append && a.Offset == nil
	return nil
}

// carryOut carries out an operation in a sandbox.
func (s *Sandboxes) carryOut(ctx context.Context, c *tool.Call, name, op string, q *service.Request, input string) (
	*tool.Result, error) {
	h, err := s.useBox(ctx, c.Principal, name, c.Labels)
	if err != nil {
		return nil, err
	}
	defer h.endUse()
	o := c.Observe()
	if err := h.passLabels(o); err != nil {
		return nil, err
	}
	if h.wake.From != Running && h.wake.From != Idle {
		o.OnRemark(h.wake.describeWake())
	}
	if op == "run" || op == "start" || op == "write" {
		if err := s.measureBox(h.box); err != nil {
			return nil, err
		}
	}
	if op == "run" {
		return h.runCommand(ctx, q, input, o)
	}
	if op == "remove" {
		defer h.beginRemoving()()
	}
	r, err := service.AskAgent(ctx, h.machine, q)
	if lerr := h.passLabels(o); lerr != nil {
		return nil, lerr
	}
	if err != nil {
		return nil, h.explainFailure(err)
	}
	return h.answerOperation(op, r)
}

// explainFailure returns the error of an operation. If the processes have ended, it says why.
func (h *hold) explainFailure(err error) error {
	if !errors.Is(err, service.ErrLost) {
		return err
	}
	timer := time.NewTimer(endTime)
	defer timer.Stop()
	select {
	case <-h.machine.EndSignal(): // soon: the stream ends with the agent, and the rest with it
	case <-timer.C:
		return err
	}
	s := h.all
	s.mu.Lock()
	why, removed := h.why, h.removed
	s.mu.Unlock()
	switch reason := h.machine.EndReason(); {
	case removed:
		return tool.Errorf(tool.Conflict, "the sandbox was ended")
	case why != "":
		return tool.Errorf(tool.Limit, "the sandbox's processes were ended: %s", why)
	case reason != nil:
		return tool.Errorf(tool.AsError(reason).Kind, "the sandbox's processes have ended: %w", reason)
	}
	return err
}

// describeWake describes from which state a sandbox was woken.
func (w *Wake) describeWake() string {
	took := w.Took.Round(10 * time.Microsecond).String()
	switch {
	case w.From != Stopped:
		return "sandbox woken from standby (" + string(w.From) + ") in " + took
	case w.Why == "":
		return "sandbox started in " + took
	}
	return "sandbox started again in " + took + ", with its files and without its processes: " + w.Why
}

// A reply is the answer of an operation, for programs and agents.
type reply struct {
	*service.Reply
	Data   *struct{} `json:"data,omitempty"` // instead of Reply.Data
	Text   *string   `json:"text,omitempty"`
	Base64 []byte    `json:"base64,omitempty"`
	Woken  string    `json:"woken,omitempty"`
	Notes  []string  `json:"notes,omitempty"`
}

// answerOperation returns the result of an operation other than run.
func (h *hold) answerOperation(op string, r *service.Reply) (*tool.Result, error) {
	v := reply{Reply: r, Woken: h.wokenText(), Notes: h.takeNotes()}
	if op == "read" || op == "logs" {
		if utf8.Valid(r.Data) {
			text := string(r.Data)
			v.Text = &text
		} else {
			v.Base64 = r.Data
		}
	}
	text, err := tool.Marshal(v)
	if err != nil {
		return nil, err
	}
	if v.Text != nil { // plain, as agents read best
		return tool.StructuredResult(text, *v.Text)
	}
	return tool.StructuredResult(text, string(text))
}

// wokenText describes the state that the sandbox was woken from; empty if it was awake.
func (h *hold) wokenText() string {
	if h.wake.From == Running || h.wake.From == Idle {
		return ""
	}
	return h.wake.describeWake()
}
