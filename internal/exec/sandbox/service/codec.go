package service

import (
	"encoding/json"
	"strconv"
)

// DecodeRequest decodes a request of the host, for the agent. It decodes only the fields that are
// present: package json would examine the whole type on first use, and a sandbox that runs one
// command uses it once.
func DecodeRequest(text []byte) (*Request, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	q := &Request{}
	for name, value := range fields {
		if to := q.findField(name); to != nil {
			if err := json.Unmarshal(value, to); err != nil {
				return nil, err
			}
		}
	}
	return q, nil
}

// findField returns a pointer to the field that has a name in JSON, or nil if there is none.
func (q *Request) findField(name string) any {
	switch name {
	case "op":
		return &q.Op
	case "command":
		return &q.Command
	case "dir":
		return &q.Dir
	case "env":
		return &q.Env
	case "input":
		return &q.Input
	case "timeout":
		return &q.Timeout
	case "process":
		return &q.Process
	case "signal":
		return &q.Signal
	case "path":
		return &q.Path
	case "to":
		return &q.To
	case "data":
		return &q.Data
	case "offset":
		return &q.Offset
	case "length":
		return &q.Length
	case "truncate":
		return &q.Truncate
	case "recursive":
		return &q.Recursive
	case "wait":
		return &q.Wait
	case "port":
		return &q.Port
	}
	return nil
}

// EncodeReply encodes a reply, for the agent. It encodes the reply to a command, which has no field
// but Exit, without package json, for the reason given at DecodeRequest.
func EncodeReply(r *Reply) ([]byte, error) {
	if r.Exit == nil {
		return json.Marshal(r)
	}
	out := strconv.AppendInt([]byte(`{"exit":{"status":`), int64(r.Exit.Status), 10)
	if r.Exit.Signal != "" { // a name, such as SIGKILL
		out = strconv.AppendQuoteToASCII(append(out, `,"signal":`...), r.Exit.Signal)
	}
	if r.Exit.TimedOut {
		out = append(out, `,"timed_out":true`...)
	}
	return append(out, "}}"...), nil
}
