//go:build linux && (amd64 || arm64)

package pyguest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/third_party/cpython/py"
)

// A machine is a guest in its own memory, with a host whose time is virtual. It never actually
// waits.
type machine struct {
	t      testing.TB
	g      *Guest
	m      *py.Module
	region []byte
	size   int

	clock, reads int64
	events       []event
	seq          int
	out          []sandbox.GuestMessage
	ended        bool
	calls        []sandbox.GuestCall
	nexts, asks  int
	disk         wallclock.Clock // of fs: clock when a file operation begins
	fs           *vfs.FS
	tools        func(path string, args json.RawMessage) (value any, after time.Duration, err *sandbox.GuestError)
}

// An event is a line that the host sends at a given time.
type event struct {
	at, seq int64
	m       sandbox.HostMessage
	timer   bool
}

const (
	reservation = 8<<30 + 1<<16
	testTime    = 1767225600000
)

var (
	bootOnce sync.Once
	booted   []byte
	bootErr  error
	library  *Library
	spare    []byte
)

// reserve returns reserved address space.
func reserve(t testing.TB) []byte {
	if r := spare; r != nil {
		spare = nil
		return r
	}
	r, err := unix.Mmap(-1, 0, reservation, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatalf("unix.Mmap: %v", err)
	}
	return r
}

const testMemory = 256 << 20

// newMachine returns a machine with memory image, or one that has not booted if image is nil.
func newMachine(t testing.TB, image []byte) *machine {
	if library == nil {
		library = NewLibrary()
	}
	m := &machine{t: t, clock: testTime, region: reserve(t)}
	m.fs = vfs.New(vfs.Config{Clock: &m.disk, Quota: vfs.Quota{}})
	m.g = New(m, library)
	m.m = m.g.Module()
	m.size = max(len(image), py.MemoryPages<<16)
	m.m.Grow = m.grow
	m.access(0, m.size)
	copy(m.region, image)
	m.m.SetMemory(m.region[:m.size:testMemory])
	t.Cleanup(m.close)
	return m
}

func (m *machine) close() {
	if m.region == nil {
		return
	}
	_ = unix.Madvise(m.region[:m.size], unix.MADV_DONTNEED)
	_ = unix.Mprotect(m.region[:m.size], unix.PROT_NONE)
	spare, m.region = m.region, nil
}

func (m *machine) access(from, to int) {
	if err := unix.Mprotect(m.region[from:to], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		m.t.Fatalf("unix.Mprotect: %v", err)
	}
}

func (m *machine) grow(size int) bool {
	m.access(m.size, size)
	m.size = size
	return true
}

// bootImage returns the memory of a booted guest.
func bootImage(t testing.TB) []byte {
	bootOnce.Do(func() {
		m := newMachine(t, nil)
		bootErr = m.enter(m.g.Boot)
		booted = bytes.Clone(m.m.Memory())
		m.close()
	})
	if bootErr != nil {
		t.Fatalf("bootErr = %v, want nil", bootErr)
	}
	return booted
}

func start(t testing.TB) *machine {
	return newMachine(t, bootImage(t))
}

// enter calls f, which runs the guest.
func (m *machine) enter(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if x := recover(); x != nil {
			switch trap, ok := m.m.AsTrap(x); {
			case ok:
				err = trap
			default:
				if e, isErr := x.(error); isErr &&
					(errors.Is(e, ErrExit) || errors.Is(e, ErrMemory) || errors.Is(e, errQuiet)) {
					err = e
					return
				}
				err = fmt.Errorf("panic: %v\n%s", x, debug.Stack())
			}
		}
	}()
	return f()
}

// Methods of the Host.

func (m *machine) Write(line []byte) {
	var g sandbox.GuestMessage
	if err := json.Unmarshal(line, &g); err != nil || bytes.IndexByte(line, '\n') != len(line)-1 {
		m.t.Errorf("the guest wrote %q: %v", line, err)
	}
	m.out = append(m.out, g)
	switch {
	case g.Call != nil:
		m.calls = append(m.calls, *g.Call)
		m.call(g.Call)
	case g.Timer != nil:
		m.events = slices.DeleteFunc(m.events, func(e event) bool { return e.timer })
		if g.Timer.MS >= 0 {
			m.plan(time.Duration(g.Timer.MS*float64(time.Millisecond)), sandbox.HostMessage{Wake: &sandbox.Wake{}},
				true)
		}
	case g.Done != nil || g.Fail != nil:
		if m.ended {
			m.t.Errorf("the guest ended twice: %s", line)
		}
		m.ended = true
	}
}

func (m *machine) plan(after time.Duration, h sandbox.HostMessage, timer bool) {
	m.seq++
	m.events = append(m.events,
		event{m.clock + int64((after+time.Millisecond-1)/time.Millisecond), int64(m.seq), h, timer})
}

func (m *machine) call(c *sandbox.GuestCall) {
	if m.tools == nil {
		m.tools = echo
	}
	v, after, e := m.tools(c.Path, c.Args)
	a := &sandbox.Answer{ID: c.ID, Error: e}
	if e == nil && v != nil {
		a.Value, _ = json.Marshal(v)
	}
	m.plan(after, sandbox.HostMessage{Answer: a}, false)
}

// echo is a tool that returns the path and the arguments of the call.
func echo(path string, args json.RawMessage) (any, time.Duration, *sandbox.GuestError) {
	if args == nil {
		args = json.RawMessage("{}")
	}
	return map[string]any{"path": path, "args": args}, 10 * time.Millisecond, nil
}

// line returns the next line that the host sends, or nil.
func (m *machine) line() []byte {
	if len(m.events) == 0 {
		return nil
	}
	k := 0
	for i, e := range m.events {
		if f := m.events[k]; e.at < f.at || e.at == f.at && e.seq < f.seq {
			k = i
		}
	}
	e := m.events[k]
	m.events = slices.Delete(m.events, k, k+1)
	m.clock = max(m.clock, e.at)
	e.m.At = m.clock
	b, err := json.Marshal(e.m)
	if err != nil {
		m.t.Fatalf("json.Marshal: %v", err)
	}
	return b
}

// errQuiet unwinds a guest that waits for a line that never arrives.
var errQuiet = errors.New("the guest waits for what never comes")

func (m *machine) Next() ([]byte, bool) {
	m.nexts++
	b := m.line()
	if b == nil {
		panic(errQuiet)
	}
	return b, true
}

func (m *machine) Now() int64 {
	if m.reads++; m.reads%4096 == 0 {
		m.clock++
	}
	return m.clock
}

func (m *machine) SetClock(ms int64) { m.clock = max(m.clock, ms) }

func (m *machine) Ask(question []byte) ([]byte, bool) {
	m.asks++
	var q sandbox.GuestMessage
	if err := json.Unmarshal(question, &q); err != nil {
		m.t.Errorf("the guest asked %q: %v", question, err)
	}
	a := &sandbox.Answer{}
	switch {
	case q.File != nil:
		m.disk.Set(time.UnixMilli(m.clock))
		v, err := m.fs.Do(q.File, nil)
		var e *vfs.Error
		if errors.As(err, &e) {
			a.Error = &sandbox.GuestError{Message: e.Error(), Code: e.Code}
		} else if err != nil {
			a.Error = &sandbox.GuestError{Message: err.Error()}
		}
		a.Value = v
	case q.Sleep != nil:
		m.clock += int64(q.Sleep.MS)
	default:
		m.t.Errorf("the guest asked %q", question)
	}
	b, err := json.Marshal(sandbox.HostMessage{At: m.clock, Answer: a})
	if err != nil {
		m.t.Fatalf("json.Marshal: %v", err)
	}
	return b, true
}

// names lists the tools of the test programs by namespace.
var names = map[string][]string{"github": {"list_issues", "get_issue", "create_issue"}, "slack": {"post"}}

// run runs a program to its end and returns its last message.
func (m *machine) run(r sandbox.Run) (done *sandbox.Done, fail *sandbox.GuestError, err error) {
	m.out, m.ended, m.calls = nil, false, nil
	if r.Name == "" {
		r.Name = "program.py"
	}
	if r.Seed == "" {
		r.Seed = strings.Repeat("5a", 32)
	}
	if r.Namespaces == nil {
		r.Namespaces = names
	}
	m.plan(0, sandbox.HostMessage{Run: &r}, false)
	for !m.ended {
		b := m.line()
		if b == nil {
			return nil, nil, errQuiet
		}
		if err := m.enter(func() error {
			if err := m.g.Deliver(b); err != nil {
				return err
			}
			return m.g.Idle()
		}); err != nil {
			return nil, nil, err
		}
	}
	for _, o := range m.out {
		if o.Done != nil {
			done = o.Done
		}
		if o.Fail != nil {
			fail = &o.Fail.Error
		}
	}
	return done, fail, nil
}

// console returns the program's log as "level: text" lines.
func (m *machine) console() string {
	var b strings.Builder
	for _, o := range m.out {
		if o.Console != nil {
			fmt.Fprintf(&b, "%s: %s\n", o.Console.Level, o.Console.Text)
		}
	}
	return b.String()
}
