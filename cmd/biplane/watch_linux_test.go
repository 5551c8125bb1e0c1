package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a new pseudo-terminal.
func openTerminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock the terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("number of the terminal: %v", err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open the terminal: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatalf("size of the terminal: %v", err)
	}
	return user, program
}

// readUntil reads from the terminal until its new output has a text.
func readUntil(t *testing.T, user *os.File, out *bytes.Buffer, want string) {
	t.Helper()
	from, chunk := out.Len(), make([]byte, 4096)
	for !strings.Contains(out.String()[from:], want) {
		n, err := user.Read(chunk)
		out.Write(chunk[:n])
		if err != nil {
			t.Fatalf("the terminal ended before %q: %v\n%s", want, err, out.String()[from:])
		}
	}
}

// TestWatch decides requests at a terminal: one is approved, after all of its arguments were shown,
// and one is denied. Then the terminal is as it was, also after Ctrl-C.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "biplane.yaml"),
		"mcpServers:\n  stub: {command: stub}\ntools:\n  stub.echo: {read_only: false}\n", 0o600)
	runBlock(t, dir, `biplane run -c 'await stub.echo({message: "the first"})' < /dev/null`, 3)
	long := `"x ".repeat(3000) + "the last word"`
	runBlock(t, dir, `biplane run -c 'await stub.echo({message: `+long+`})' </dev/null`, 3)
	for _, quit := range []string{"q", "\x03"} {
		user, program := openTerminal(t)
		before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatalf("state of the terminal: %v", err)
		}
		c := exec.CommandContext(t.Context(), "biplane", "watch")
		c.Dir, c.Env = dir, append(documentEnvironment(dir), "TERM=xterm")
		c.Stdin, c.Stdout, c.Stderr = program, program, program
		if err := c.Start(); err != nil {
			t.Fatalf("start biplane watch: %v", err)
		}
		var out bytes.Buffer
		typed := func(keys, want string) {
			t.Helper()
			if _, err := user.WriteString(keys); err != nil {
				t.Fatalf("type %q: %v", keys, err)
			}
			readUntil(t, user, &out, want)
		}
		if quit == "q" {
			readUntil(t, user, &out, "WAITING FOR A PERSON: 2")
			readUntil(t, user, &out, `{"message":"the first"}`)
			typed("a", ": approved")
			readUntil(t, user, &out, "WAITING FOR A PERSON: 1")
			typed("a", "this is another request")
			typed("a", "press space to see all of the arguments first")
			for !strings.Contains(out.String(), "the last word") {
				typed(" ", "arguments, lines")
			}
			typed("d", ": denied")
		}
		readUntil(t, user, &out, "WAITING FOR A PERSON: 0")
		typed(quit, "\x1b[?25h\x1b[?1049l")
		if err := c.Wait(); err != nil {
			t.Errorf("after %q biplane watch ended with %v; want no error", quit, err)
		}
		after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("after %q the terminal is %+v, %v; want %+v", quit, after, err, before)
		}
	}
	printed := runBlock(t, dir, "biplane approvals list --all", 0)
	if !strings.Contains(printed, "approved") || !strings.Contains(printed, "denied") {
		t.Errorf("the requests are\n%s\nwant one approved and one denied", printed)
	}
}
