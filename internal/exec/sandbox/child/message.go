package child

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// specSize is the size in bytes of a spec without the runtime's name: Memory, CPU, Stack, Output.
const specSize = 32

func appendSpec(b []byte, s sandbox.Spec) []byte {
	for _, v := range []int64{s.Memory, int64(s.CPU), s.Stack, s.Output} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(b, s.Runtime...)
}

func parseSpec(b []byte) (sandbox.Spec, error) {
	if len(b) < specSize || len(b) > specSize+maxRuntime {
		return sandbox.Spec{}, protocolErrorf("a spec of %d bytes", len(b))
	}
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return sandbox.Spec{Memory: at(0), CPU: time.Duration(at(1)), Stack: at(2), Output: at(3),
		Runtime: string(b[specSize:])}, nil
}

// maxRuntime is the maximum length of a runtime's name, in bytes.
const maxRuntime = 64

// A command is the part of a sandbox.Cmd that is sent to the child.
type command struct {
	keep, asks, next, once bool
	cpu                    time.Duration
}

const commandSize = 9

func (c command) append(b []byte) []byte {
	var flags byte
	if c.keep {
		flags |= 1
	}
	if c.asks {
		flags |= 2
	}
	if c.next {
		flags |= 4
	}
	if c.once {
		flags |= 8
	}
	b = append(b, flags)
	return binary.LittleEndian.AppendUint64(b, uint64(c.cpu))
}

func parseCommand(b []byte) (command, error) {
	if len(b) != commandSize || b[0] > 15 {
		return command{}, protocolErrorf("a command of %d bytes", len(b))
	}
	return command{
		keep: b[0]&1 != 0, asks: b[0]&2 != 0, next: b[0]&4 != 0, once: b[0]&8 != 0,
		cpu: time.Duration(binary.LittleEndian.Uint64(b[1:])),
	}, nil
}

// A result is the outcome of an operation. The encoding begins with a byte that is 1 for an error.
// The exit code (4 bytes), CPU time (8) and memory (8) of a Run follow; other operations leave them
// zero. The rest is empty, an error as JSON, or the capabilities of a probe.
type result struct {
	exit  int
	usage sandbox.Usage
	rest  []byte // of a successful probe
	err   error
}

const resultSize = 21

func (r result) append(b []byte) []byte {
	failed := byte(0)
	if r.err != nil {
		failed, r.rest = 1, encodeError(r.err)
	}
	b = append(b, failed)
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(r.exit)))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.usage.CPU))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.usage.Memory))
	return append(b, r.rest...)
}

func parseResult(b []byte) (r result, err error) {
	if len(b) < resultSize || b[0] > 1 {
		return r, protocolErrorf("a result of %d bytes", len(b))
	}
	r.exit = int(int32(binary.LittleEndian.Uint32(b[1:])))
	r.usage.CPU = time.Duration(binary.LittleEndian.Uint64(b[5:]))
	r.usage.Memory = int64(binary.LittleEndian.Uint64(b[13:]))
	if r.usage.CPU < 0 || r.usage.Memory < 0 {
		return r, protocolErrorf("a usage below zero")
	}
	rest := b[resultSize:]
	if b[0] == 0 {
		r.rest = append([]byte(nil), rest...)
		return r, nil
	}
	r.err, err = decodeError(rest)
	return r, err
}

// A wireError is the encoding of an error sent from the child to the parent.
type wireError struct {
	Text     string    `json:"text"` // complete text, for the log
	Limit    string    `json:"limit,omitempty"`
	Snapshot string    `json:"snapshot,omitempty"`
	Engine   string    `json:"engine,omitempty"`
	Kind     tool.Kind `json:"kind,omitempty"`
	Msg      string    `json:"msg,omitempty"` // message of a LimitError or tool.Error
}

// maxText is the maximum length of each text in an error, in bytes.
const maxText = 4 << 10

func encodeError(err error) []byte {
	e := wireError{Text: cutText(err.Error())}
	var limit *sandbox.LimitError
	var engine *sandbox.EngineError
	var typed *tool.Error
	switch {
	case errors.As(err, &limit):
		e.Limit, e.Msg = cutText(limit.Limit), cutText(limit.Msg)
	case errors.As(err, &engine):
		e.Snapshot, e.Engine = cutText(engine.Snapshot), cutText(engine.Engine)
	case errors.As(err, &typed):
		e.Kind, e.Msg = typed.Kind, cutText(typed.Msg)
	}
	b, err := json.Marshal(e)
	if err != nil {
		return []byte(`{"text":"an error that can't be written"}`)
	}
	return b
}

// decodeError decodes an error sent by a child, which is not trusted.
func decodeError(b []byte) (error, error) {
	var e wireError
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, protocolErrorf("an error that isn't JSON")
	}
	text := errors.New(cutText(e.Text))
	switch {
	case e.Limit != "":
		return &sandbox.LimitError{Limit: cutText(e.Limit), Msg: cutText(e.Msg)}, nil
	case e.Snapshot != "" || e.Engine != "":
		return &sandbox.EngineError{Snapshot: cutText(e.Snapshot), Engine: cutText(e.Engine)}, nil
	}
	switch e.Kind {
	case "":
		return text, nil
	case tool.Invalid, tool.NotFound, tool.Conflict, tool.Denied, tool.Limit, tool.Timeout, tool.Unavailable,
		tool.Canceled, tool.Internal:
		return &tool.Error{Kind: e.Kind, Msg: cutText(e.Msg), Err: text}, nil
	}
	return nil, protocolErrorf("an error of an unknown kind")
}

// cutText returns s as valid UTF-8, cut to maxText bytes.
func cutText(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "�")
}

// A hello is the first message of a child.
type hello struct {
	Protections []Protection `json:"protections"`
	Error       string       `json:"error,omitempty"` // reason why the child can't serve
	// Capabilities is the driver's capabilities, if its probe succeeded. If it is nil, kindProbe
	// returns the error.
	Capabilities *sandbox.Capabilities `json:"capabilities,omitempty"`
}

func parseHello(f frame, err error) (hello, error) {
	var h hello
	if err != nil {
		return h, err
	}
	if f.kind != kindHello || f.box != 0 || f.op != 0 {
		return h, protocolErrorf("a first frame that isn't a hello")
	}
	if err := json.Unmarshal(f.payload, &h); err != nil {
		return h, protocolErrorf("a hello that isn't JSON")
	}
	if len(h.Protections) > 64 {
		return h, protocolErrorf("a hello with %d protections", len(h.Protections))
	}
	for i := range h.Protections {
		p := &h.Protections[i]
		p.Name, p.Detail = cutText(p.Name), cutText(p.Detail)
	}
	h.Error = cutText(h.Error)
	return h, nil
}

// Questions and answers are sent in parts. Each part begins with the question's number (4 bytes)
// and whether more parts follow (1 byte).
const partHeader = 5

// maxAsk is the maximum size of a question or an answer, in bytes: the largest carry files in
// base64.
const maxAsk = 128 << 20

// sendParts sends b as a question or an answer, in parts.
func sendParts(w *writer, k kind, box, op, number uint32, b []byte) error {
	for {
		part := b[:min(len(b), partSize)]
		b = b[len(part):]
		var h [partHeader]byte
		binary.LittleEndian.PutUint32(h[:], number)
		if len(b) > 0 {
			h[4] = 1
		}
		if err := w.send(k, box, op, h[:], part); err != nil {
			return err
		}
		if len(b) == 0 {
			return nil
		}
	}
}

// parsePart parses one part of a question or an answer.
func parsePart(b []byte) (number uint32, more bool, text []byte, err error) {
	if len(b) < partHeader || b[4] > 1 {
		return 0, false, nil, protocolErrorf("a part of a question of %d bytes", len(b))
	}
	return binary.LittleEndian.Uint32(b), b[4] == 1, b[partHeader:], nil
}

func tooLong(what string) error { return fmt.Errorf("%s is longer than %d MiB", what, maxAsk>>20) }
