package pyguest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/third_party/cpython/py"
)

// Error numbers of WASI preview 1.
const (
	ok          = 0
	errAccess   = 2
	errBadFile  = 8
	errBusy     = 10
	errExist    = 20
	errIllegal  = 25
	errInvalid  = 28
	errIO       = 29
	errIsDir    = 31
	errMany     = 33
	errName     = 37
	errNoEntry  = 44
	errNoSpace  = 51
	errNoSys    = 52
	errNotDir   = 54
	errNotEmpty = 55
	errNotSup   = 58
	errPerm     = 63
	errReadOnly = 69
	errQuota    = 19
	errTooBig   = 22
)

// codes maps the host's error names (sandbox.GuestError.Code) to error numbers.
var codes = lazily.Value[map[string]uint32]{Make: func() map[string]uint32 {
	return map[string]uint32{
		"EACCES": errAccess, "EBADF": errBadFile, "EBUSY": errBusy, "EEXIST": errExist, "EILSEQ": errIllegal,
		"EINVAL": errInvalid, "EIO": errIO,
		"EISDIR": errIsDir, "EMFILE": errMany, "ENAMETOOLONG": errName, "ENOENT": errNoEntry, "ENOSPC": errNoSpace,
		"ENOTDIR": errNotDir, "ENOTEMPTY": errNotEmpty, "ENOTSUP": errNotSup, "EPERM": errPerm, "EROFS": errReadOnly,
		"EDQUOT": errQuota, "EFBIG": errTooBig, "ENOSYS": errNoSys,
	}
}}

// imports implements all functions that the engine imports: the guest's entire interface. Addresses
// and lengths come from the guest; an invalid one panics in a slice operation or by a fault, which
// ends the guest.
type imports struct{ g *Guest }

// bytes returns n bytes of memory at at.
func (i imports) bytes(at, n uint32) []byte { return i.g.m.Memory()[at:][:n:n] }

func (i imports) put32(at, v uint32)        { binary.LittleEndian.PutUint32(i.bytes(at, 4), v) }
func (i imports) put64(at uint32, v uint64) { binary.LittleEndian.PutUint64(i.bytes(at, 8), v) }
func (i imports) get32(at uint32) uint32    { return binary.LittleEndian.Uint32(i.bytes(at, 4)) }
func (i imports) get64(at uint32) uint64    { return binary.LittleEndian.Uint64(i.bytes(at, 8)) }

// EnvHostWrite writes one line.
func (i imports) EnvHostWrite(_ *py.Module, at, n uint32) {
	b := i.bytes(at, n)
	i.g.host.Write(append(b[:len(b):len(b)], '\n'))
}

// noAnswer is the length that means there is no answer.
const noAnswer = 1<<32 - 1

// EnvHostAsk asks the host.
func (i imports) EnvHostAsk(_ *py.Module, at, n uint32) uint32 {
	return i.setAnswer(i.g.host.Ask(append([]byte(nil), i.bytes(at, n)...)))
}

// EnvHostNext waits for the next line.
func (i imports) EnvHostNext(*py.Module) uint32 { return i.setAnswer(i.g.host.Next()) }

// setAnswer keeps an answer until the guest copies it, and returns its length, or noAnswer.
func (i imports) setAnswer(answer []byte, ok bool) uint32 {
	if i.g.answer = nil; !ok || len(answer) > math.MaxInt32 {
		return noAnswer
	}
	i.g.answer = answer
	return uint32(len(answer))
}

// EnvHostAnswer copies the last answer or line.
func (i imports) EnvHostAnswer(_ *py.Module, to uint32) {
	copy(i.bytes(to, uint32(len(i.g.answer))), i.g.answer)
	i.g.answer = nil
}

// maxClock is the maximum of a guest's clock, in milliseconds.
const maxClock = 8.64e15

// EnvHostClock sets the clock.
func (i imports) EnvHostClock(_ *py.Module, ms float64) {
	if math.Abs(ms) < maxClock {
		i.g.host.SetClock(int64(ms))
	}
}

// WasiSnapshotPreview1EnvironSizesGet reports that there are no environment variables.
func (i imports) WasiSnapshotPreview1EnvironSizesGet(_ *py.Module, count, size uint32) uint32 {
	i.put32(count, 0)
	i.put32(size, 0)
	return ok
}

// WasiSnapshotPreview1EnvironGet returns no environment variables.
func (imports) WasiSnapshotPreview1EnvironGet(*py.Module, uint32, uint32) uint32 { return ok }

// WasiSnapshotPreview1ClockResGet reports a resolution of 1 ms for all clocks.
func (i imports) WasiSnapshotPreview1ClockResGet(_ *py.Module, clock, to uint32) uint32 {
	i.put64(to, uint64(time.Millisecond))
	return ok
}

// WasiSnapshotPreview1ClockTimeGet returns the guest's clock for every clock ID.
func (i imports) WasiSnapshotPreview1ClockTimeGet(_ *py.Module, clock uint32, precision uint64, to uint32) uint32 {
	i.put64(to, uint64(i.g.host.Now()*int64(time.Millisecond)))
	return ok
}

// WasiSnapshotPreview1PollOneoff sleeps: it supports only clock events.
func (i imports) WasiSnapshotPreview1PollOneoff(_ *py.Module, in, out, n, events uint32) uint32 {
	const subscription, event, clockTag = 48, 32, 0
	if n == 0 {
		return errInvalid
	}
	least, at := uint64(math.MaxUint64), uint32(0)
	for k := range min(n, 64) {
		s := in + k*subscription
		if i.bytes(s+8, 1)[0] != clockTag {
			return errNotSup
		}
		d := i.get64(s + 24)
		if binary.LittleEndian.Uint16(i.bytes(s+40, 2))&1 != 0 { // until a time of day
			d -= min(d, uint64(i.g.host.Now()*int64(time.Millisecond)))
		}
		if d < least {
			least, at = d, s
		}
	}
	i.sleep(least)
	id := i.get64(at)
	clear(i.bytes(out, event))
	i.put64(out, id)
	i.put32(events, 1)
	return ok
}

// sleep blocks for d nanoseconds.
func (i imports) sleep(d uint64) {
	ms := math.Ceil(float64(d) / 1e6)
	begin := i.g.host.Now()
	if q, err := json.Marshal(sandbox.GuestMessage{Sleep: &sandbox.Sleep{MS: ms}}); err == nil {
		if line, answered := i.g.host.Ask(q); answered {
			var m sandbox.HostMessage
			if json.Unmarshal(line, &m) == nil && m.At > 0 {
				i.g.host.SetClock(m.At)
				return
			}
		}
	}
	i.g.host.SetClock(begin + int64(min(ms, maxClock)))
}

// WasiSnapshotPreview1ProcExit ends the guest.
func (imports) WasiSnapshotPreview1ProcExit(_ *py.Module, code uint32) {
	panic(fmt.Errorf("%w with code %d", ErrExit, int32(code)))
}

// WasiSnapshotPreview1SchedYield does nothing: there are no other threads.
func (imports) WasiSnapshotPreview1SchedYield(*py.Module) uint32 { return ok }
