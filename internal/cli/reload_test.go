package cli

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/daemon"
)

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
		signals: newSignals(func(error) {})}
	a.Args = []string{"serve", "--config", file, "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"}
	defer signal.Stop(a.signals.hangups)
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
	a.signals.handleHangup(false)
	await("RELOADING=1", 1)
	await("READY=1", 2)
	stop()
	await("STOPPING=1", 1)
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
}

var _ daemon.ConfigSource = (*settingsSource)(nil)
