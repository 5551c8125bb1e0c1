// Package service defines the operations of a machine (sandbox.Machine) that its agent carries out
// for the host: run commands, start and stop processes, read their output again, use files, watch
// them, and connect to ports. Each operation has its own stream. The host sends one Request. The
// agent answers with frames, and ends with one Reply. The agent is not trusted: all that it sends
// is bounded.
//
// AskAgent, RunCommand and DialPort are the host's end; package process/shell has the agent.
package service

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The operations.
const (
	OpRun    = "run"    // run a command to its end, with its output
	OpStart  = "start"  // start a process in the background
	OpStop   = "stop"   // send a signal to a background process and its descendants
	OpList   = "list"   // list the background processes
	OpLogs   = "logs"   // read the output of a background process from an offset
	OpRead   = "read"   // read a part of a file
	OpWrite  = "write"  // write a part of a file
	OpDir    = "dir"    // list a folder
	OpStat   = "stat"   // describe a file or a folder
	OpMkdir  = "mkdir"  // make a folder and those above it
	OpMove   = "move"   // move a file or a folder
	OpRemove = "remove" // remove a file or a folder
	OpWatch  = "watch"  // wait for changes of files
	OpPorts  = "ports"  // list the TCP ports that processes listen on
	OpDial   = "dial"   // connect to a TCP port of 127.0.0.1
)

// Bounds of a stream.
const (
	MaxRequest = 8 << 20 // bytes of a Request as JSON
	MaxFrame   = 8 << 20 // bytes of a frame
	MaxData    = 4 << 20 // bytes of a file or a log in one Request or Reply
	MaxEntries = 10_000  // entries of a folder, events, processes, ports in one Reply
)

// A Request is a request of the host. Each operation reads only the fields that it needs.
type Request struct {
	Op      string        `json:"op"`
	Command []string      `json:"command,omitempty"` // run, start: the program and its arguments
	Dir     string        `json:"dir,omitempty"`     // run, start: default /workspace
	Env     []string      `json:"env,omitempty"`     // run, start: NAME=value, besides the sandbox's own
	Input   bool          `json:"input,omitempty"`   // run: frames with standard input follow
	Timeout time.Duration `json:"timeout,omitempty"` // run: the command is killed after this time; 0: never
	Process int           `json:"process,omitempty"` // stop, logs
	Signal  int           `json:"signal,omitempty"`  // stop; 0: SIGTERM, then SIGKILL
	Path    string        `json:"path,omitempty"`    // relative to /workspace, or absolute
	To      string        `json:"to,omitempty"`      // move
	Data    []byte        `json:"data,omitempty"`    // write
	Offset  int64         `json:"offset,omitempty"`  // read, write, logs, watch: where to begin
	Length  int64         `json:"length,omitempty"`  // read, logs: at most this many bytes; 0: MaxData
	// write: Data replaces the file; otherwise it is written at Offset, or at the end if that is -1
	Truncate  bool          `json:"truncate,omitempty"`
	Recursive bool          `json:"recursive,omitempty"` // dir, remove
	Wait      time.Duration `json:"wait,omitempty"`      // logs, watch: how long to wait if there is nothing new
	Port      int           `json:"port,omitempty"`      // dial
}

// A Reply ends an operation.
type Reply struct {
	Error     string    `json:"error,omitempty"`
	Kind      tool.Kind `json:"kind,omitempty"` // of Error
	Exit      *Exit     `json:"exit,omitempty"`
	Process   *Process  `json:"process,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	Data      []byte    `json:"data,omitempty"`
	Offset    int64     `json:"offset,omitempty"` // where Data ends, or the first event that is still to come
	// Lost means that there was more before Data or Events than is kept.
	Lost    bool    `json:"lost,omitempty"`
	File    *File   `json:"file,omitempty"`
	Files   []File  `json:"files,omitempty"`
	Events  []Event `json:"events,omitempty"`
	Ports   []Port  `json:"ports,omitempty"`
	Clipped bool    `json:"clipped,omitempty"` // a list has more than MaxEntries
}

// An Exit says how a command ended.
type Exit struct {
	Status   int    `json:"status"`           // -1 after a signal
	Signal   string `json:"signal,omitempty"` // "SIGKILL"
	TimedOut bool   `json:"timed_out,omitempty"`
}

// A Process is a process in the background.
type Process struct {
	ID      int       `json:"id"` // not the system's
	Command []string  `json:"command"`
	Started time.Time `json:"started"`
	Exit    *Exit     `json:"exit,omitempty"` // nil: it runs
	Output  int64     `json:"output"`         // bytes that it has written
}

// A File describes a file or a folder.
type File struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"` // "file", "dir", "link", "other"
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Mode     uint32    `json:"mode"`             // permissions
	Target   string    `json:"target,omitempty"` // of a link
}

// An Event is a change of a file.
type Event struct {
	Path string `json:"path"`
	What string `json:"what"` // "created", "changed", "removed"
	Dir  bool   `json:"dir,omitempty"`
}

// A Port is a TCP port that a process listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`
}

// Kinds of frames.
const (
	FrameOutput = 'o' // standard output
	FrameError  = 'e' // standard error
	FrameReply  = 'r' // a Reply, the last frame
	FrameInput  = 'i' // standard input, to the agent; empty: its end
	FrameSignal = 's' // a signal for the command, to the agent: one byte
)

// WriteFrame writes a frame: its kind, the length of its data, and the data.
func WriteFrame(w io.Writer, kind byte, data []byte) error {
	head := make([]byte, 5, 5+len(data))
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(data)))
	_, err := w.Write(append(head, data...))
	return err
}

// ReadFrame reads a frame.
func ReadFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes, at most %d", n, MaxFrame)
	}
	var b bytes.Buffer
	b.Grow(int(min(n, firstPart)) + bytes.MinRead)
	if _, err = io.CopyN(&b, r, int64(n)); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return head[0], b.Bytes(), err
}

// firstPart is how many bytes of a frame have memory before they arrive.
const firstPart = 64 << 10
