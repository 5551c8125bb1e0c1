//go:build linux && (amd64 || arm64)

package pyguest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// wasiCalls returns all WASI functions that read arguments of the guest, bound to arguments from a
// and w.
func wasiCalls(i imports, a []uint32, w uint64) []func() uint32 {
	m := i.g.m
	return []func() uint32{
		func() uint32 { return i.WasiSnapshotPreview1EnvironSizesGet(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1ClockResGet(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1ClockTimeGet(m, a[0], w, a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1PollOneoff(m, a[0], a[1], a[2], a[3]) },
		func() uint32 { return i.WasiSnapshotPreview1FdClose(m, a[0]) },
		func() uint32 { return i.WasiSnapshotPreview1FdFdstatGet(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1FdFdstatSetFlags(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1FdFilestatGet(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1FdFilestatSetSize(m, a[0], w) },
		func() uint32 { return i.WasiSnapshotPreview1FdPread(m, a[0], a[1], a[2], w, a[3]) },
		func() uint32 { return i.WasiSnapshotPreview1FdPrestatGet(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1FdPrestatDirName(m, a[0], a[1], a[2]) },
		func() uint32 { return i.WasiSnapshotPreview1FdPwrite(m, a[0], a[1], a[2], w, a[3]) },
		func() uint32 { return i.WasiSnapshotPreview1FdRead(m, a[0], a[1], a[2], a[3]) },
		func() uint32 { return i.WasiSnapshotPreview1FdReaddir(m, a[0], a[1], a[2], w, a[3]) },
		func() uint32 { return i.WasiSnapshotPreview1FdSeek(m, a[0], w, a[1], a[2]) },
		func() uint32 { return i.WasiSnapshotPreview1FdTell(m, a[0], a[1]) },
		func() uint32 { return i.WasiSnapshotPreview1FdWrite(m, a[0], a[1], a[2], a[3]) },
		func() uint32 { return i.WasiSnapshotPreview1PathCreateDirectory(m, a[0], a[1], a[2]) },
		func() uint32 { return i.WasiSnapshotPreview1PathFilestatGet(m, a[0], a[1], a[2], a[3], a[4]) },
		func() uint32 {
			return i.WasiSnapshotPreview1PathOpen(m, a[0], a[1], a[2], a[3], a[4], w, w, a[5], a[6])
		},
		func() uint32 { return i.WasiSnapshotPreview1PathReadlink(m, a[0], a[1], a[2], a[3], a[4], a[5]) },
		func() uint32 { return i.WasiSnapshotPreview1PathRemoveDirectory(m, a[0], a[1], a[2]) },
		func() uint32 { return i.WasiSnapshotPreview1PathRename(m, a[0], a[1], a[2], a[3], a[4], a[5]) },
		func() uint32 { return i.WasiSnapshotPreview1PathUnlinkFile(m, a[0], a[1], a[2]) },
		func() uint32 { i.EnvHostAnswer(m, a[0]); return 0 },
		func() uint32 { i.EnvHostAsk(m, a[0], a[1]); return 0 },
		func() uint32 { i.EnvHostClock(m, float64(int64(w))); return 0 },
	}
}

// A quietHost answers every question with the same line and discards output.
type quietHost struct {
	*machine
	answer []byte
}

func (q quietHost) Write([]byte)              {}
func (q quietHost) Ask([]byte) ([]byte, bool) { return q.answer, true }

// FuzzImports calls the host's functions with arguments that a guest might pass. Each call must
// return an error number or end the guest with a trap. No call may access memory outside the guest,
// or leave the file table in a state that the guest couldn't have written.
func FuzzImports(f *testing.F) {
	f.Add(uint8(13), []byte{4, 0, 0, 0, 0, 0, 100, 0, 1, 0, 0, 0, 16, 0, 100, 0}, uint64(1)<<40,
		[]byte(`{"answer":{"value":"AAAA"}}`), []byte("/lib/python3.13/os.pyc"))
	f.Add(uint8(20), []byte{3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 22, 0, 0, 0, 0, 0, 0, 0}, uint64(1<<1|1<<6),
		[]byte(`{"answer":{"value":{"dir":false,"size":-5}}}`), []byte("../../x"))
	f.Add(uint8(14), []byte{3, 0, 0, 0, 0, 0, 100, 0, 255, 255, 255, 255}, uint64(0),
		[]byte(`{"answer":{"value":[{"name":"a"}]}}`), []byte{})
	f.Fuzz(func(t *testing.T, which uint8, args []byte, w uint64, answer, memory []byte) {
		m := start(t)
		const at = 100 << 16
		m.m.SetMemory(m.region[:m.size])
		copy(m.m.Memory()[at:], memory)
		g := &Guest{m: m.m, host: quietHost{m, answer}, library: library}
		i := imports{g}
		if len(memory) > 3 { // a file slot that a guest may have overwritten
			copy(m.m.Memory()[m.m.BpFiles():][:slotSize], memory)
		}
		a := make([]uint32, 8)
		for k := range a {
			if len(args) >= 4*k+4 {
				a[k] = binary.LittleEndian.Uint32(args[4*k:])
			}
		}
		calls := wasiCalls(i, a, w)
		if err := m.enter(func() error {
			calls[int(which)%len(calls)]()
			return nil
		}); err != nil && strings.Contains(err.Error(), "panic") {
			t.Errorf(`err = %v, want err == nil || !strings.Contains(err.Error(), "panic")`, err)
		}
		m.m.SetMemory(m.region[:m.size:testMemory])
		m.nexts = 0
	})
}

// TestScribbles checks that a guest that overwrites its file table gets just an OSError.
func TestScribbles(t *testing.T) {
	m := start(t)
	done, fail, err := m.run(sandbox.Run{Session: true,
		Code: "f = open('workspace/a', 'w+')\nf.write('x')\nf.flush()\nf.fileno()"})
	if err != nil || fail != nil {
		t.Fatalf("fail = %v, err = %v, want err == nil && fail == nil", fail, err)
	}
	var fd uint32
	if err := json.Unmarshal(done.Value, &fd); err != nil || fd < firstFile {
		t.Fatalf("descriptor %s: %v", done.Value, err)
	}
	slot := m.m.Memory()[m.m.BpFiles()+(fd-firstFile)*slotSize:]
	for _, v := range []uint32{0xffffffff, 5, 0, 1} {
		binary.LittleEndian.PutUint32(slot, v)
		binary.LittleEndian.PutUint32(slot[16:], 0xfffffff0*(v&1))
		_, fail, err := m.run(sandbox.Run{Session: true, Code: "f.write('y')\nf.flush()"})
		if err != nil || fail == nil || fail.Name != "OSError" {
			t.Errorf("with kind %d: %v %v", v, fail, err)
		}
	}
}

// TestLastWord runs programs whose values use so much memory that too little may be left to send
// them. Each must end.
func TestLastWord(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for n := 50; n <= 110; n += 6 {
		m := start(t)
		done, fail, err := m.run(sandbox.Run{Code: fmt.Sprintf("'x' * (%d << 20)", n)})
		switch {
		case err != nil:
			t.Errorf("%d MiB: %v", n, err)
		case fail != nil && fail.Kind != "limit":
			t.Errorf("%d MiB: %+v", n, fail)
		case done != nil && len(done.Value) != n<<20+2:
			t.Errorf("%d MiB came to %d bytes", n, len(done.Value))
		}
		m.close()
	}
}
