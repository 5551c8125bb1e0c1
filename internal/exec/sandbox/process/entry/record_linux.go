package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// A starter is a program without a runtime, which makes the system calls of a list, one after the
// other, and ends at the first that fails, with its error as exit status. It is a file of four
// parts: headers, the code (starterCode), the list, and what its arguments refer to, at fixed
// addresses.
const (
	codeAddress = 0x10000000
	listAddress = 0x20000000 // record_linux_amd64.s knows it, too
	dataAddress = 0x30000000
	pageSize    = 4096

	maxStarter = 256 << 10 // bytes
)

// An elfHeader is the header of an executable file: Elf64_Ehdr of elf(5). Package elf has it, too,
// but makes the small program start later.
type elfHeader struct {
	Ident                          [16]byte
	Type, Machine                  uint16
	Version                        uint32
	Entry, Segments, Sections      uint64 // an address, and offsets in the file
	Flags                          uint32
	Size, SegmentSize              uint16
	SegmentCount, SectionSize      uint16
	SectionCount, SectionNameIndex uint16
}

// An elfSegment is a part of the file that is mapped: Elf64_Phdr of elf(5).
type elfSegment struct {
	Type, Flags                                        uint32
	Offset, Address, Physical, InFile, InMemory, Align uint64
}

// Values of these fields, as elf(5) names them: ET_EXEC; PT_LOAD and PT_GNU_STACK; PF_X, PF_W and
// PF_R.
const (
	elfStatic  = 2
	elfLoad    = 1
	elfStack   = 0x6474e551
	elfExecute = 1
	elfWrite   = 2
	elfRead    = 4
)

// A recorder records system calls for a starter.
type recorder struct {
	calls  []recorded
	data   []byte          // what arguments refer to
	made   map[string]bool // paths of the new root
	opened map[int]bool    // descriptors of the process
}

// A recorded is a system call. The starter knows this layout.
type recorded struct {
	Number    uint64 // comparison: of 16 bytes at two addresses
	Arguments [6]uint64
	Want      uint64 // the result; anyResult: any but an error
	Ignored   uint64 // an error that doesn't count as a failure; nothing: there is none
}

const (
	recordSize = 9 * 8
	anyResult  = 1<<64 - 1
	comparison = 1<<64 - 1
	nothing    = 1 << 63
)

// A place is an offset in recorder.data, which an argument refers to.
type place int

// newRecorder returns a recorder for a process that has the descriptors below first.
func newRecorder(first int) *recorder {
	r := &recorder{calls: make([]recorded, 0, 256), data: make([]byte, 0, 32<<10),
		made: map[string]bool{newRoot: true}, opened: map[int]bool{}}
	for fd := range first {
		r.opened[fd] = true
	}
	return r
}

// addCall records a system call.
func (r *recorder) addCall(want uint64, ignored unix.Errno, number uintptr, args []any) error {
	c := recorded{Number: uint64(number), Want: want, Ignored: nothing}
	if ignored != 0 {
		c.Ignored = -uint64(ignored)
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			c.Arguments[i] = uint64(arg)
		case uintptr:
			c.Arguments[i] = uint64(arg)
		case place:
			c.Arguments[i] = r.addressOf(arg)
		case string:
			if strings.IndexByte(arg, 0) >= 0 {
				return unix.EINVAL
			}
			c.Arguments[i] = r.addressOf(r.addData([]byte(arg + "\x00")))
		case []byte:
			c.Arguments[i] = r.addressOf(r.addData(arg))
		case []unix.SockFilter:
			var filter []byte
			for _, f := range arg {
				filter = append(filter, memoryOf(&f)...)
			}
			at := r.addressOf(r.addData(filter))
			program := binary.LittleEndian.AppendUint64(nil, uint64(len(arg))) // struct sock_fprog
			c.Arguments[i] = r.addressOf(r.addData(binary.LittleEndian.AppendUint64(program, at)))
		default:
			return fmt.Errorf("record system call %d: argument %d has the type %T", number, i, arg)
		}
	}
	r.calls = append(r.calls, c)
	return nil
}

// addOpen records a system call that returns a new descriptor, and returns that: the lowest free
// one. The starter fails if it is another.
func (r *recorder) addOpen(number uintptr, args []any) (fd int, err error) {
	for r.opened[fd] {
		fd++
	}
	r.opened[fd] = true
	return fd, r.addCall(uint64(fd), 0, number, args)
}

// addComparison records that a path must refer to the file of a descriptor.
func (r *recorder) addComparison(path string, fd int) error {
	var there, here unix.Stat_t // begins with the device and the number of the file
	at, of := r.addData(memoryOf(&there)), r.addData(memoryOf(&here))
	return errors.Join(
		r.addCall(anyResult, 0, unix.SYS_NEWFSTATAT, []any{unix.AT_FDCWD, path, at, 0}),
		r.addCall(anyResult, 0, unix.SYS_FSTAT, []any{fd, of}),
		r.addCall(anyResult, 0, comparison, []any{at, of}))
}

// addExecution records the execution of a program.
func (r *recorder) addExecution(path string, args, environment []string) error {
	return r.addCall(anyResult, 0, unix.SYS_EXECVE, []any{path, r.addTexts(args), r.addTexts(environment)})
}

// addTexts adds a list of texts, as execve(2) reads it.
func (r *recorder) addTexts(texts []string) place {
	var list []byte
	for _, t := range texts {
		list = binary.LittleEndian.AppendUint64(list, r.addressOf(r.addData([]byte(t+"\x00"))))
	}
	return r.addData(binary.LittleEndian.AppendUint64(list, 0))
}

// addData adds memory that an argument refers to.
func (r *recorder) addData(b []byte) place {
	at := (len(r.data) + 7) &^ 7
	r.data = append(r.data, make([]byte, at-len(r.data))...)
	r.data = append(r.data, b...)
	return place(at)
}

// addressOf returns the address of memory in a starter.
func (r *recorder) addressOf(at place) uint64 { return dataAddress + uint64(at) }

// makeStarter returns the starter as a program: a static executable of ELF.
func (r *recorder) makeStarter() ([]byte, error) {
	code := starterCode()
	list := len(r.calls) * recordSize
	if len(code) == 0 || len(code) > pageSize || list+len(r.data) > maxStarter {
		return nil, errors.New("the calls don't fit in a starter")
	}
	data := (2*pageSize + list + pageSize - 1) &^ (pageSize - 1)
	segment := func(flags uint32, offset, address, size int) elfSegment {
		return elfSegment{Type: elfLoad, Flags: flags, Offset: uint64(offset), Address: uint64(address),
			Physical: uint64(address), InFile: uint64(size), InMemory: uint64(size), Align: pageSize}
	}
	segments := []elfSegment{segment(elfRead|elfExecute, pageSize, codeAddress, len(code)),
		segment(elfRead, 2*pageSize, listAddress, list),
		segment(elfRead|elfWrite, data, dataAddress, len(r.data)),
		{Type: elfStack, Flags: elfRead | elfWrite, Align: 16}}
	const headers, programs = 64, 56 // sizes of elfHeader and elfSegment
	header := elfHeader{Type: elfStatic, Machine: starterMachine, Version: 1, Entry: codeAddress, Segments: headers,
		Size: headers, SegmentSize: programs, SegmentCount: uint16(len(segments))}
	copy(header.Ident[:], "\x7fELF\x02\x01\x01") // 64 bits, little endian
	out := make([]byte, data, data+len(r.data))
	copy(out, memoryOf(&header))
	for i := range segments {
		copy(out[headers+i*programs:], memoryOf(&segments[i]))
	}
	copy(out[pageSize:], code)
	for i := range r.calls {
		copy(out[2*pageSize+i*recordSize:], memoryOf(&r.calls[i]))
	}
	return append(out, r.data...), nil
}
