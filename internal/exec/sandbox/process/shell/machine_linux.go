package shell

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxStreams is the maximum number of operations under way in a machine.
const maxStreams = 256

// A steward is the agent of a machine: it carries out the operations of package service.
type steward struct {
	children  children
	processes processTable
	watchers  watcherTable
	slots     chan struct{} // one for each operation under way
}

// serveMachine runs the agent of a machine until the driver closes the connection.
func serveMachine() error {
	if err := protectAgent(); err != nil {
		return err
	}
	unix.CloseOnExec(socketFD)
	s := &steward{slots: make(chan struct{}, maxStreams)}
	s.children.wake = make(chan struct{}, 1)
	go s.children.reapForever()
	if _, err := unix.Write(socketFD, []byte("R\n")); err != nil {
		return err
	}
	for {
		fd, err := receiveStream(socketFD)
		if err != nil {
			return nil // the driver is gone
		}
		conn := os.NewFile(uintptr(fd), "stream")
		select {
		case s.slots <- struct{}{}:
			go func() {
				defer func() { <-s.slots }()
				s.serveStream(conn)
			}()
		default:
			go refuseStream(conn)
		}
	}
}

// receiveStream receives a descriptor from the driver.
func receiveStream(fd int) (int, error) {
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, data, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return -1, err
		case n == 0:
			return -1, io.EOF
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) == 0 {
			return -1, errors.Join(err, io.ErrUnexpectedEOF)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return -1, errors.Join(err, io.ErrUnexpectedEOF)
		}
		return fds[0], unix.SetNonblock(fds[0], true)
	}
}

// A stream is one operation under way.
type stream struct {
	conn *os.File
	in   *bufio.Reader

	mu sync.Mutex // for writing frames
}

// sendFrame sends a frame. An error means that the host no longer wants it.
func (s *stream) sendFrame(kind byte, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return service.WriteFrame(s.conn, kind, data)
}

// sendReply ends the operation.
func (s *stream) sendReply(r *service.Reply, err error) {
	if r == nil || err != nil {
		r = &service.Reply{}
	}
	if err != nil {
		e := tool.AsError(err)
		r.Error, r.Kind = e.Msg, e.Kind
		if e.Kind == tool.Internal {
			r.Error, r.Kind = err.Error(), kindOfFileError(err)
		}
	}
	if text, err := service.EncodeReply(r); err == nil {
		_ = s.sendFrame(service.FrameReply, text) // the host may have left
	}
}

// kindOfFileError returns the kind of an error of the system.
func kindOfFileError(err error) tool.Kind {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return tool.NotFound
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		return tool.Denied
	case errors.Is(err, os.ErrExist), errors.Is(err, unix.ENOTEMPTY):
		return tool.Conflict
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG),
		errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return tool.Limit
	}
	return tool.Invalid
}

// refuseStream answers that too many operations are under way.
func refuseStream(conn *os.File) {
	defer conn.Close()
	(&stream{conn: conn}).sendReply(nil, tool.Errorf(tool.Limit,
		"more than %d operations are under way in this sandbox: wait for some", maxStreams))
}

// serveStream carries out the operation of a stream.
func (s *steward) serveStream(conn *os.File) {
	defer conn.Close()
	st := &stream{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	line, err := readRequest(st.in)
	if err != nil {
		return // the host has left
	}
	q, err := service.DecodeRequest(line)
	if err != nil {
		st.sendReply(nil, tool.Errorf(tool.Invalid, "the request is invalid: %w", err))
		return
	}
	switch q.Op {
	case service.OpRun:
		st.sendReply(s.runCommand(st, q))
	case service.OpDial:
		s.dialPort(st, q)
	default:
		st.sendReply(s.answerRequest(st, q))
	}
}

// readRequest reads a line of bounded length.
func readRequest(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > service.MaxRequest:
			return nil, io.ErrShortBuffer
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// answerRequest carries out an operation that has only a reply.
func (s *steward) answerRequest(st *stream, q *service.Request) (*service.Reply, error) {
	switch q.Op {
	case service.OpStart:
		return s.startBackground(q)
	case service.OpStop:
		return s.stopBackground(q)
	case service.OpList:
		return &service.Reply{Processes: s.processes.listProcesses()}, nil
	case service.OpLogs:
		return s.readLog(st, q)
	case service.OpRead:
		return readPart(q)
	case service.OpWrite:
		return writePart(q)
	case service.OpDir:
		return listFolder(q)
	case service.OpStat:
		return statFile(q)
	case service.OpMkdir:
		return &service.Reply{}, os.MkdirAll(placeOf(q.Path), 0o755)
	case service.OpMove:
		return &service.Reply{}, os.Rename(placeOf(q.Path), placeOf(q.To))
	case service.OpRemove:
		return removeFile(q)
	case service.OpWatch:
		return s.watchFiles(st, q)
	case service.OpPorts:
		return listPorts()
	}
	return nil, tool.Errorf(tool.Invalid, "unknown operation %q", q.Op)
}

// awaitHangup returns a channel that is closed when the host closes the stream.
func (s *stream) awaitHangup() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = s.in.ReadByte() // the host sends nothing more
	}()
	return gone
}
