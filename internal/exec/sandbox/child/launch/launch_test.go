//go:build linux

package launch

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the tests start the test binary as a child or a parent, depending on its argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(child(os.Args[2], os.Args[len(os.Args)-1]))
	}
	if len(os.Args) > 1 && os.Args[1] == "parent" {
		os.Exit(parent())
	}
	os.Exit(m.Run())
}

// child sends its plan and its environment over the socket, and then ends as how says. It returns
// the exit code.
func child(plan, how string) int {
	conn := os.NewFile(3, "parent")
	if _, err := io.WriteString(conn, plan+" "+strings.Join(os.Environ(), " ")+"\n"); err != nil {
		return 90
	}
	switch how {
	case "fail":
		os.Stderr.WriteString("these are its last words\n")
		return 3
	case "talk":
		os.Stderr.WriteString(strings.Repeat("x", 2*maxSaid))
		return 0
	}
	_, _ = conn.Read(make([]byte, 1)) // until the parent hangs up or kills this process
	return 4
}

// parent starts a child and prints the name of the plan used.
func parent() int {
	p, number, err := Start([]string{"child"}, 0, []string{"wait"})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	os.Stdout.WriteString(plans[number].name)
	p.Kill()
	_, _ = p.Wait()
	return 0
}

// said returns the first data that a child sends.
func said(t *testing.T, p *Process) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := syscall.Read(p.Socket, b)
	if err != nil {
		t.Fatalf("syscall.Read: %v", err)
	}
	return string(b[:n])
}

func start(t *testing.T, how string) *Process {
	t.Helper()
	p, number, err := Start([]string{"child"}, 0, []string{how})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { syscall.Close(p.Socket) })
	text := said(t, p)
	if plan, env, _ := strings.Cut(strings.TrimSpace(text), " "); plan != plans[number].name ||
		env != strings.Join(Environment(), " ") {
		t.Fatalf("plan %d: %q", number, text)
	}
	return p
}

func TestEnds(t *testing.T) {
	p := start(t, "fail")
	if status, err := p.Wait(); err != nil || status.ExitStatus() != 3 ||
		p.Said.Text() != "these are its last words\n" {
		t.Errorf("status = %v, err = %v, p.Said.Text() = %q, want err == nil && status.ExitStatus() == "+
			"3 && p.Said.Text() == \"these are its last words\\n\"", status, err, p.Said.Text())
	}
	p.Kill() // sends no signal, because the process ID may have been reused
	p = start(t, "talk")
	if status, err := p.Wait(); err != nil || status.ExitStatus() != 0 || len(p.Said.Text()) != maxSaid {
		t.Errorf("status = %v, err = %v, len(p.Said.Text()) = %d, want err == nil && "+
			"status.ExitStatus() == 0 && len(p.Said.Text()) == maxSaid", status, err, len(p.Said.Text()))
	}
	p = start(t, "wait")
	go p.Kill()
	if status, err := p.Wait(); err != nil || status.Signal() != syscall.SIGKILL {
		t.Errorf("status = %v, err = %v, want err == nil && status.Signal() == syscall.SIGKILL", status, err)
	}
}

// TestHangsUp closes the parent's end of the socket. The child has no copy of it, so it must end.
func TestHangsUp(t *testing.T) {
	p, _, err := Start([]string{"child"}, 0, []string{"wait"})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	said(t, p)
	syscall.Close(p.Socket)
	late := time.AfterFunc(20*time.Second, p.Kill)
	defer late.Stop()
	if status, err := p.Wait(); err != nil || status.ExitStatus() != 4 {
		t.Errorf("status = %v, err = %v, want err == nil && status.ExitStatus() == 4", status, err)
	}
}

// TestBegun checks that a begun process can be taken once, and is ended if no one claims it.
func TestBegun(t *testing.T) {
	b := Begin([]string{"child"})
	p, ok, err := b.Take()
	if err != nil || !ok {
		t.Fatalf("ok = %v, err = %v, want err == nil && ok", ok, err)
	}
	if again, ok, err := b.Take(); again != nil || ok || err != nil {
		t.Errorf("it was given twice: %v %v", ok, err)
	}
	p.Kill()
	if _, err := p.Wait(); err != nil {
		t.Errorf("Wait: %v", err)
	}
	syscall.Close(p.Socket)
	b.Close()
	Begin([]string{"child"}).Close()
	var none *EarlyProcess
	none.Close()
}

// TestRefused checks that the error names the plans that failed.
func TestRefused(t *testing.T) {
	was := Called
	defer func() { Called = was }()
	Called = "with\x00zero"
	_, _, err := Start([]string{"child"}, 0, nil)
	if err == nil {
		t.Fatal("it began")
	}
	for _, name := range []string{"user", "plain"} {
		if !slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(l string) bool {
			return strings.HasPrefix(l, name+": ")
		}) {
			t.Errorf("%s, err = %v", name, err)
		}
	}
}

// TestLacking runs out of file descriptors, which must not lead to a plan with less protection.
func TestLacking(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatalf("syscall.Getrlimit: %v", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: was.Max}); err != nil {
		t.Fatalf("syscall.Setrlimit: %v", err)
	}
	_, _, err := Start([]string{"child"}, 0, []string{"wait"})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatalf("syscall.Setrlimit: %v", err)
	}
	if !errors.Is(err, syscall.EMFILE) || !strings.HasPrefix(err.Error(), "user: ") ||
		strings.Contains(err.Error(), "plain: ") {
		t.Errorf("err = %v", err)
	}
}

// TestGroup starts a process for an ordinary user in root's group, as is common in containers. It
// must be in as many namespaces as a process of another group.
func TestGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be anybody")
	}
	path := filepath.Join(t.TempDir(), "parent")
	binary, err := os.ReadFile(program)
	if err == nil {
		err = errors.Join(os.WriteFile(path, binary, 0o700), os.Chmod(path, 0o755))
	}
	for dir := filepath.Dir(path); err == nil && dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	plan := func(group uint32) string {
		cmd := exec.CommandContext(t.Context(), path, "parent")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: group}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("err = %v, out = %s, want err == nil", err, out)
		}
		return string(out)
	}
	if want, got := plan(1000), plan(0); got != want {
		t.Errorf("its plan is %q, that of another group %q", got, want)
	}
}

func TestDecimal(t *testing.T) {
	for n, want := range map[int]string{0: "0", 1: "1", 10: "10", 4096: "4096"} {
		if got := decimal(n); got != want {
			t.Errorf("n = %d, got = %s, want want", n, got)
		}
	}
}
