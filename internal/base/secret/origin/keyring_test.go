package origin

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
)

// TestKeyring reads the real Secret Service, if this machine has one.
func TestKeyring(t *testing.T) {
	startSecretService(t)
	for name, value := range map[string]string{"A": "value of a", "UNUSED": "value of b"} {
		if err := keyring.Set(keyringService, name, value); err != nil {
			t.Fatalf("set %s: %v", name, err)
		}
	}
	got, err := NewKeyring().ReadSecrets(t.Context(), []string{"A", "NONE"})
	if err != nil || !maps.Equal(got, map[string]string{"A": "value of a"}) {
		t.Errorf("ReadSecrets: %v, %v, want A", got, err)
	}
}

// busSettings are those of a bus that starts no services.
const busSettings = `<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><policy context="default">` +
	`<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// startSecretService starts a bus and a keyring of the test's own.
func startSecretService(t *testing.T) {
	t.Helper()
	for _, program := range []string{"dbus-daemon", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(name, dir)
	}
	if err := os.Mkdir(filepath.Join(dir, "keyrings"), 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	settings := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(settings, []byte(busSettings), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	bus := exec.Command("dbus-daemon", "--config-file="+settings, "--nofork", "--print-address")
	out, err := bus.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	startProgram(t, bus)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the address of the bus: %v", err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
	ring := exec.Command("gnome-keyring-daemon", "--unlock", "--foreground", "--components=secrets")
	ring.Stdin, ring.Env = strings.NewReader("password"), os.Environ()
	startProgram(t, ring)
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := keyring.Set(keyringService, "FIRST", "value")
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the keyring does not start: %v", err)
		}
	}
}

// startProgram starts a program, and ends it with the test.
func startProgram(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// brokenKeys panic, as the library does when its bus ends while the keyring asks for a password.
type brokenKeys struct{}

func (brokenKeys) getKey(string) (string, error) { panic("the bus ended") }

// TestKeyringErrors checks what happens without a keyring, and with one that doesn't answer.
func TestKeyringErrors(t *testing.T) {
	keyring.MockInitWithError(errors.New("no such bus"))
	_, err := NewKeyring().ReadSecrets(t.Context(), []string{"A"})
	if err == nil || !strings.Contains(err.Error(), "the system's keyring can't be read: no such bus") {
		t.Errorf("without a keyring: %v", err)
	}
	k := NewKeyring()
	k.wait = time.Millisecond
	k.turn <- struct{}{} // another read waits for a person
	if _, err := k.ReadSecrets(t.Context(), []string{"A"}); err == nil ||
		!strings.Contains(err.Error(), "it may be locked, unlock it") {
		t.Errorf("with a locked keyring: %v", err)
	}
	broken := NewKeyring()
	broken.from = brokenKeys{}
	for range 2 { // the next one need not wait
		if _, err := broken.ReadSecrets(t.Context(), []string{"A"}); err == nil ||
			!strings.Contains(err.Error(), "it ended meanwhile") {
			t.Errorf("with a bus that ends: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.ReadSecrets(ctx, []string{"A"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a canceled context: %v", err)
	}
}
