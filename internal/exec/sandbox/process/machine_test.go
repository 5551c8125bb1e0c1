//go:build linux

package process_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newMachine starts a machine with an empty folder, or skips the test.
func newMachine(t *testing.T, spec sandbox.MachineSpec) (sandbox.Machine, string) {
	t.Helper()
	d, err := process.New(process.Config{})
	if err != nil {
		t.Fatalf("process.New: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if spec.Folder == "" {
		spec.Folder = t.TempDir()
	}
	m, err := d.CreateMachine(t.Context(), spec)
	if err != nil {
		if _, perr := d.Probe(t.Context()); perr != nil {
			t.Skipf("process sandboxes can't run here: %v", perr)
		}
		t.Fatalf("CreateMachine: %v", err)
	}
	return m, spec.Folder
}

// A recorder keeps the output of a command.
type recorder struct{ out, errs bytes.Buffer }

func (r *recorder) AcceptOutput(_ context.Context, errs bool, p []byte) error {
	if errs {
		r.errs.Write(p)
	} else {
		r.out.Write(p)
	}
	return nil
}

// runInMachine runs a shell script in a machine.
func runInMachine(t *testing.T, m sandbox.Machine, script string) (*service.Exit, *recorder) {
	t.Helper()
	r := &recorder{}
	reply, err := service.RunCommand(t.Context(), m, &service.Request{Op: service.OpRun,
		Command: []string{"sh", "-c", script}, Timeout: time.Minute}, nil, r)
	if err != nil {
		t.Fatalf("run %s: %v", script, err)
	}
	return reply.Exit, r
}

// askMachine carries out an operation that must succeed.
func askMachine(t *testing.T, m sandbox.Machine, q service.Request) *service.Reply {
	t.Helper()
	r, err := service.AskAgent(t.Context(), m, &q)
	if err != nil {
		t.Fatalf("%s: %v", q.Op, err)
	}
	return r
}

func TestMachineRunsCommands(t *testing.T) {
	m, folder := newMachine(t, sandbox.MachineSpec{})
	exit, r := runInMachine(t, m, "echo out; echo err >&2; pwd; id -u; echo kept > file; exit 7")
	if exit.Status != 7 || exit.Signal != "" || r.out.String() != "out\n/workspace\n1000\n" ||
		r.errs.String() != "err\n" {
		t.Errorf("exit %+v, output %q, errors %q", exit, &r.out, &r.errs)
	}
	if b, err := os.ReadFile(filepath.Join(folder, "file")); string(b) != "kept\n" {
		t.Errorf("the file in the host's folder: %q, %v", b, err)
	}
	if exit, _ := runInMachine(t, m, "kill -9 $$"); exit.Signal != "SIGKILL" || exit.Status != -1 {
		t.Errorf("after a signal: %+v", exit)
	}
	reply, err := service.RunCommand(t.Context(), m, &service.Request{Op: service.OpRun, Command: []string{"sh", "-c",
		"sleep 1000 & sleep 1000"}, Timeout: 50 * time.Millisecond}, nil, nil)
	if err != nil || !reply.Exit.TimedOut || reply.Exit.Signal != "SIGKILL" {
		t.Errorf("after the time limit: %+v, %v", reply, err)
	}
	in := &recorder{}
	if _, err := service.RunCommand(t.Context(), m, &service.Request{Op: service.OpRun, Command: []string{"tr", "a-z",
		"A-Z"}, Input: true}, strings.NewReader("input"), in); err != nil || in.out.String() != "INPUT" {
		t.Errorf("with input: %q, %v", &in.out, err)
	}
	_, err = service.AskAgent(t.Context(), m, &service.Request{Op: service.OpRun, Command: []string{"no-such-program"}})
	if tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("an unknown program: %v", err)
	}
}

func TestMachineShowsNothingOfTheHost(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("host secret"), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	m, folder := newMachine(t, sandbox.MachineSpec{})
	if err := os.Symlink(secret, filepath.Join(folder, "link")); err != nil {
		t.Fatalf("os.Symlink: %v", err)
	}
	for _, path := range []string{"link", secret, "../../../.." + secret, "/etc/shadow", "/proc/1/environ",
		"/proc/1/mem"} {
		r, err := service.AskAgent(t.Context(), m, &service.Request{Op: service.OpRead, Path: path})
		if err == nil {
			t.Errorf("read %s: %q, want an error", path, r.Data)
		}
	}
	for _, script := range []string{"echo x > /usr/x", "echo x > /biplane/x", "mount -t tmpfs none /tmp",
		"ls /proc/1/fd", "echo > /dev/tcp/10.0.0.1/80"} {
		if exit, _ := runInMachine(t, m, script); exit.Status == 0 {
			t.Errorf("%s succeeded", script)
		}
	}
}

func TestMachineKeepsProcesses(t *testing.T) {
	m, _ := newMachine(t, sandbox.MachineSpec{})
	p := askMachine(t, m, service.Request{Op: service.OpStart, Command: []string{"sh", "-c",
		"mkfifo /workspace/pipe; echo ready; read x < /workspace/pipe; echo $x; sleep 1000"}, Dir: "/tmp"}).Process
	r := askMachine(t, m, service.Request{Op: service.OpLogs, Process: p.ID, Wait: time.Minute})
	if string(r.Data) != "ready\n" || r.Offset != 6 || r.Process.Exit != nil {
		t.Errorf("log: %q to %d", r.Data, r.Offset)
	}
	q := askMachine(t, m, service.Request{Op: service.OpStart, Command: []string{"sleep", "1000"}}).Process
	if got := askMachine(t, m, service.Request{Op: service.OpStop, Process: q.ID}).Process.Exit; got == nil ||
		got.Signal != "SIGTERM" {
		t.Errorf("after stop: %+v", got)
	}
	if all := askMachine(t, m, service.Request{Op: service.OpList}).Processes; len(all) != 2 || all[1].Exit == nil {
		t.Errorf("processes: %+v", all)
	}
	if _, err := service.AskAgent(t.Context(), m, &service.Request{Op: service.OpLogs, Process: 99}); err == nil {
		t.Error("the log of an unknown process")
	}
	// A log keeps its newest part, and offsets stay valid.
	big := askMachine(t, m, service.Request{Op: service.OpStart, Command: []string{"sh", "-c",
		"head -c 3000000 /dev/zero; echo end"}}).Process
	var last *service.Reply
	for offset := int64(0); last == nil || last.Process.Exit == nil || len(last.Data) > 0; offset = last.Offset {
		last = askMachine(t, m, service.Request{Op: service.OpLogs, Process: big.ID, Offset: offset, Wait: time.Minute})
	}
	tail := askMachine(t, m, service.Request{Op: service.OpLogs, Process: big.ID, Offset: -4})
	if last.Process.Output != 3000004 || string(tail.Data) != "end\n" {
		t.Errorf("a long log: %d bytes, %q at the end", last.Process.Output, tail.Data)
	}
	if r := askMachine(t, m, service.Request{Op: service.OpLogs, Process: big.ID}); !r.Lost {
		t.Error("the beginning of a long log is not reported as lost")
	}
}

func TestMachineUsesFiles(t *testing.T) {
	m, _ := newMachine(t, sandbox.MachineSpec{})
	askMachine(t, m, service.Request{Op: service.OpWatch, Path: "."})
	askMachine(t, m, service.Request{Op: service.OpWrite, Path: "a/b/file", Data: []byte("hello"), Truncate: true,
		Recursive: true})
	askMachine(t, m, service.Request{Op: service.OpWrite, Path: "a/b/file", Data: []byte(" you"), Offset: -1})
	if r := askMachine(t, m, service.Request{Op: service.OpRead, Path: "a/b/file", Offset: 2, Length: 5}); string(
		r.Data) != "llo y" || r.Offset != 7 || r.File.Size != 9 {
		t.Errorf("read: %q to %d of %d", r.Data, r.Offset, r.File.Size)
	}
	r := askMachine(t, m, service.Request{Op: service.OpDir, Path: "", Recursive: true})
	if len(r.Files) != 3 || r.Files[2].Name != "a/b/file" || r.Files[2].Type != "file" {
		t.Errorf("list: %+v", r.Files)
	}
	seen := map[service.Event]bool{}
	for offset := int64(0); !seen[service.Event{Path: "a", What: "created", Dir: true}]; {
		w := askMachine(t, m, service.Request{Op: service.OpWatch, Path: ".", Offset: offset, Wait: time.Minute})
		for _, e := range w.Events {
			seen[e] = true
		}
		offset = w.Offset
	}
	askMachine(t, m, service.Request{Op: service.OpMove, Path: "a/b/file", To: "moved"})
	askMachine(t, m, service.Request{Op: service.OpRemove, Path: "a", Recursive: true})
	if _, err := service.AskAgent(t.Context(), m, &service.Request{Op: service.OpStat, Path: "a"}); tool.AsError(
		err).Kind != tool.NotFound {
		t.Errorf("stat of a removed folder: %v", err)
	}
	runInMachine(t, m, "mkfifo fifo")
	for _, q := range []service.Request{{Op: service.OpRead, Path: "fifo"}, {Op: service.OpRead, Path: "/dev/zero"},
		{Op: service.OpRemove, Path: ".", Recursive: true}, {Op: service.OpRemove, Path: "/", Recursive: true},
		{Op: service.OpWrite, Path: "/usr/x", Truncate: true}} {
		if _, err := service.AskAgent(t.Context(), m, &q); err == nil {
			t.Errorf("%s %s succeeded", q.Op, q.Path)
		}
	}
}

func TestMachineFreezes(t *testing.T) {
	m, _ := newMachine(t, sandbox.MachineSpec{})
	runInMachine(t, m, "head -c 20000000 /dev/zero > /workspace/big; cat /workspace/big > /dev/null")
	if err := m.FreezeGuest(); err != nil {
		t.Fatalf("FreezeGuest: %v", err)
	}
	freed, err := m.ReclaimMemory()
	t.Logf("reclaimed %d bytes: %v", freed, err)
	if err := m.ThawGuest(); err != nil {
		t.Fatalf("ThawGuest: %v", err)
	}
	exit, r := runInMachine(t, m, "wc -c < big")
	if exit.Status != 0 || strings.TrimSpace(r.out.String()) != "20000000" {
		t.Errorf("after standby: %+v, %q", exit, &r.out)
	}
}

func TestMachineReachesPorts(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("this host has no /usr/bin/python3")
	}
	m, _ := newMachine(t, sandbox.MachineSpec{})
	p := askMachine(t, m, service.Request{Op: service.OpStart, Command: []string{"python3", "-u", "-c", `
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])
c, _ = s.accept()
c.sendall(c.recv(100).upper())
c.close()`}}).Process
	r := askMachine(t, m, service.Request{Op: service.OpLogs, Process: p.ID, Wait: time.Minute})
	ports := askMachine(t, m, service.Request{Op: service.OpPorts}).Ports
	if len(ports) != 1 || ports[0].Address != "127.0.0.1" {
		t.Fatalf("ports: %+v; log %q", ports, r.Data)
	}
	conn, err := service.DialPort(t.Context(), m, ports[0].Port)
	if err != nil {
		t.Fatalf("DialPort: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("over the port")); err != nil {
		t.Fatalf("write: %v", err)
	}
	var got bytes.Buffer
	if _, err := got.ReadFrom(conn); err != nil || got.String() != "OVER THE PORT" {
		t.Errorf("answer %q, %v", &got, err)
	}
	_, err = service.DialPort(t.Context(), m, 1)
	const want = "no process of the sandbox answers on port 1: connection refused"
	if e := tool.AsError(err); e == nil || e.Kind != tool.Unavailable || e.Msg != want {
		t.Errorf("a port without a server: %v, want %q", err, want)
	}
}

// TestMachineSurvivesFloods checks that processes don't outgrow a machine's limit, and that its
// agent then still answers.
func TestMachineSurvivesFloods(t *testing.T) {
	m, _ := newMachine(t, sandbox.MachineSpec{Processes: 100, Memory: 64 << 20})
	runInMachine(t, m, `i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done 2>/dev/null`)
	if r := askMachine(t, m, service.Request{Op: service.OpList}); len(r.Processes) != 0 {
		t.Errorf("processes: %+v", r.Processes)
	}
	p := askMachine(t, m, service.Request{Op: service.OpDir, Path: "/proc"})
	n := 0
	for _, f := range p.Files {
		if f.Name[0] >= '0' && f.Name[0] <= '9' {
			n++
		}
	}
	if n > 100 {
		t.Errorf("%d processes, at most 100", n)
	}
}

// TestMachineEnds checks that a machine reports its end, and what ended it.
func TestMachineEnds(t *testing.T) {
	m, _ := newMachine(t, sandbox.MachineSpec{})
	if err := m.EndReason(); err != nil {
		t.Errorf("EndReason of a running machine: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	<-m.EndSignal()
	if m.EndReason() == nil {
		t.Error("EndReason of a closed machine is nil")
	}
	if _, err := service.AskAgent(t.Context(), m, &service.Request{Op: service.OpList}); err == nil || errors.Is(err,
		os.ErrClosed) {
		t.Errorf("an operation of a closed machine: %v", err)
	}
}
