package service

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Dialer opens streams to an agent.
type Dialer interface {
	OpenStream(ctx context.Context) (*os.File, error)
}

// An Output receives what a command writes.
type Output interface {
	// AcceptOutput is called with the bytes of standard output as they arrive, or of standard error
	// if errs is set. It must not keep p. An error ends the command.
	AcceptOutput(ctx context.Context, errs bool, p []byte) error
}

// AskAgent carries out an operation without output.
func AskAgent(ctx context.Context, d Dialer, q *Request) (*Reply, error) {
	return RunCommand(ctx, d, q, nil, nil)
}

// RunCommand carries out an operation, passes its output to out, and input to its command. If ctx
// ends, the command is killed. RunCommand returns when the operation has ended, without waiting for
// input.
func RunCommand(ctx context.Context, d Dialer, q *Request, input io.Reader, out Output) (*Reply, error) {
	conn, err := sendRequest(ctx, d, q)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 8<<10) // most replies are short, and long data isn't buffered
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if input != nil {
		go sendInput(conn, input)
	}
	for {
		kind, data, err := ReadFrame(in)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, lostAgent(err)
		}
		switch kind {
		case FrameOutput, FrameError:
			if out == nil {
				continue
			}
			if err := out.AcceptOutput(ctx, kind == FrameError, data); err != nil {
				return nil, err
			}
		case FrameReply:
			return decodeReply(data)
		default:
			return nil, lostAgent(fmt.Errorf("it sent a frame %q", kind))
		}
	}
}

// DialPort connects to a port inside.
func DialPort(ctx context.Context, d Dialer, port int) (*os.File, error) {
	conn, err := sendRequest(ctx, d, &Request{Op: OpDial, Port: port})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	kind, data, err := ReadFrame(conn) // no more than the frame: the bytes after it are the port's
	if !stop() {
		return nil, errors.Join(context.Cause(ctx), conn.Close())
	}
	if err == nil && kind != FrameReply {
		err = fmt.Errorf("it sent a frame %q", kind)
	}
	if err != nil {
		return nil, errors.Join(lostAgent(err), conn.Close())
	}
	if _, err := decodeReply(data); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// sendRequest opens a stream, and sends a request.
func sendRequest(ctx context.Context, d Dialer, q *Request) (*os.File, error) {
	line, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if len(line) > MaxRequest {
		return nil, tool.Errorf(tool.Limit, "the request has %d bytes: at most %d", len(line), MaxRequest)
	}
	conn, err := d.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(lostAgent(err), conn.Close())
	}
	return conn, nil
}

// sendInput sends standard input to a command.
func sendInput(to io.Writer, input io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := input.Read(buf)
		if n > 0 && WriteFrame(to, FrameInput, buf[:n]) != nil {
			return // the command has ended
		}
		if err != nil {
			_ = WriteFrame(to, FrameInput, nil) // its end; the command may have ended
			return
		}
	}
}

// maxError is the length of an error that is passed on, in bytes.
const maxError = 2000

// A list is a list of a reply, with at most MaxEntries entries.
type list[T any] []T

// UnmarshalJSON decodes a list.
func (l *list[T]) UnmarshalJSON(data []byte) (err error) {
	*l, err = jsonvalue.DecodeList[T](data, MaxEntries)
	return err
}

// decodeReply decodes a reply. A failure of the operation is an error.
func decodeReply(data []byte) (*Reply, error) {
	var bounded struct {
		Reply
		Processes list[Process] `json:"processes"`
		Files     list[File]    `json:"files"`
		Events    list[Event]   `json:"events"`
		Ports     list[Port]    `json:"ports"`
	}
	if err := json.Unmarshal(data, &bounded); err != nil {
		return nil, lostAgent(err)
	}
	r := bounded.Reply
	r.Processes, r.Files, r.Events, r.Ports = bounded.Processes, bounded.Files, bounded.Events, bounded.Ports
	if r.Error != "" {
		kind := r.Kind
		switch kind {
		case tool.Invalid, tool.NotFound, tool.Conflict, tool.Denied, tool.Limit, tool.Timeout, tool.Unavailable:
		default:
			kind = tool.Internal
		}
		return nil, &tool.Error{Kind: kind, Msg: tool.VisibleLine(text.Cut(r.Error, maxError))}
	}
	return &r, nil
}

// ErrLost is wrapped by the error of a stream that ended early.
var ErrLost = errors.New("the stream ended")

// lostAgent returns the error of a stream that ended early.
func lostAgent(err error) error {
	return &tool.Error{Kind: tool.Unavailable, Msg: fmt.Sprintf("the sandbox ended before it answered: %v", err),
		Err: errors.Join(ErrLost, err)}
}
