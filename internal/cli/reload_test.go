package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/daemon"
)

// TestHangups checks what SIGHUP does: commands that reload nothing end, and so does one whose
// terminal was closed.
func TestHangups(t *testing.T) {
	for _, c := range []struct {
		name               string
		reloads, had, has  bool
		wantEnd, wantReads bool
	}{
		{"a command that reloads nothing", false, false, false, true, false},
		{"a service", true, false, false, false, true},
		{"at a terminal", true, true, true, false, true},
		{"the terminal was closed", true, true, false, true, false},
	} {
		ended := false
		h := &hangups{end: func() { ended = true }, signals: make(chan os.Signal, 1)}
		if c.reloads {
			h.reload, h.terminal = make(chan struct{}, 1), c.had
		}
		h.handleSignal(c.has)
		h.handleSignal(c.has) // a second one is no other request
		if ended != c.wantEnd || len(h.reload) == 1 != c.wantReads {
			t.Errorf("%s: ended %t, reloads %d, want %t and %t", c.name, ended, len(h.reload), c.wantEnd, c.wantReads)
		}
	}
}

// TestServiceNotices checks what the service manager receives while `serve` starts, reloads and
// stops.
func TestServiceNotices(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatalf("ListenUnixgram: %v", err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	t.Setenv("WATCHDOG_USEC", "60000000")
	file := filepath.Join(dir, "biplane.yaml")
	if err := os.WriteFile(file, []byte("policy: open\n"), 0o600); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	a := &app{Process: Process{Out: &strings.Builder{}, Err: &strings.Builder{}, Version: "test"}, logFormat: "text",
		hangups: &hangups{}}
	a.Args = []string{"serve", "--config", file, "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	root := a.newRoot()
	root.SetArgs(a.Args)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	seen := map[string]int{}
	await := func(want string, n int) {
		buf := make([]byte, 200)
		for seen[want] < n {
			k, err := socket.Read(buf)
			if err != nil {
				t.Fatalf("read the socket: %v", err)
			}
			first, _, _ := strings.Cut(string(buf[:k]), "\n")
			seen[first]++
		}
	}
	await("READY=1", 1)
	await("WATCHDOG=1", 1)
	a.hangups.handleSignal(false)
	await("RELOADING=1", 1)
	await("READY=1", 2)
	stop()
	await("STOPPING=1", 1)
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

var _ daemon.ConfigSource = (*settingsSource)(nil)
