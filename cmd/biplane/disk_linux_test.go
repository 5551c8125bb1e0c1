package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/api"
)

// disk mounts a small file system over the data folder.
func (c *crash) disk(bytes int) {
	c.Helper()
	if err := os.MkdirAll(c.data(), 0o700); err != nil {
		c.Fatalf("os.MkdirAll: %v", err)
	}
	err := unix.Mount("tmpfs", c.data(), "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
	if errors.Is(err, unix.EPERM) {
		c.Skip("no file system can be mounted here: ", err)
	} else if err != nil {
		c.Fatalf("err = %v, want nil", err)
	}
	c.Cleanup(func() {
		c.kill()
		if err := unix.Unmount(c.data(), unix.MNT_DETACH); err != nil {
			c.Errorf("unix.Unmount: %v", err)
		}
	})
}

// fill uses up all free space on the disk.
func (c *crash) fill() (free func()) {
	c.Helper()
	name := filepath.Join(c.data(), "filler")
	f, err := os.Create(name)
	if err != nil {
		c.Fatalf("os.Create: %v", err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			c.Fatalf("err = %v, want nil", err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			c.Errorf("os.Remove: %v", err)
		}
	}
}

// one runs a program that makes one write, and returns why it was not made.
func (c *crash) one(key string) error {
	c.Helper()
	x, err := c.client().Run(c.ctx, api.RunRequest{Code: fmt.Sprintf("await ledger.write({ key: %q })", key)})
	switch {
	case err != nil:
		return err
	case x.Error != nil:
		return errors.New(x.Error.Message)
	}
	return nil
}

// full makes writes until one is refused, since the database may still have free pages.
func (c *crash) full(label string) {
	c.Helper()
	for i := range 1000 {
		key := fmt.Sprintf("%s%d", label, i)
		err := c.one(key)
		asked, _ := c.ledger.of(key)
		switch {
		case err == nil && asked[key] != 1:
			c.Fatalf("%s went well, and was sent %d times", key, asked[key])
		case err == nil:
			continue
		case asked[key] != 0:
			c.Fatalf("%s was sent, though: %v", key, err)
		case !strings.Contains(err.Error(), "free space on the data folder's disk"):
			c.Fatalf("%s: it doesn't say what is wrong and what to do: %v", key, err)
		}
		return
	}
	c.Fatal("a thousand writes went well on a disk without space")
}

// TestDiskFull fills the disk under a biplane. Writes must be refused and not sent, with advice.
// When there is space again, everything must continue, with and without a kill -9 in between.
func TestDiskFull(t *testing.T) {
	c := newCrash(t, 1)
	c.disk(24 << 20)
	c.begin()
	c.settle()
	if err := c.one("before"); err != nil {
		t.Fatalf("one: %v", err)
	}
	free := c.fill()
	c.full("full")
	free()
	if err := c.one("after"); err != nil {
		t.Fatalf("there is room again: %v", err)
	}
	c.rest()

	free = c.fill()
	c.full("again")
	c.kill()
	out, err := c.command("run", "-c", "1 + 1").CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("full")) && !bytes.Contains(out, []byte("no space left")) {
		t.Errorf("begun without room: %v\n%s", err, out)
	}
	free()
	c.begin()
	c.rest()
	if err := c.one("restarted"); err != nil {
		t.Fatalf("one: %v", err)
	}
	c.length()
}

// TestDiskReadOnly starts a biplane on a read-only folder. It must report that and do nothing.
func TestDiskReadOnly(t *testing.T) {
	c := newCrash(t, 1)
	c.disk(24 << 20)
	c.begin()
	if err := c.one("before"); err != nil {
		t.Fatalf("one: %v", err)
	}
	c.kill()
	if err := unix.Mount("", c.data(), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatalf("unix.Mount: %v", err)
	}
	out, err := c.command("run", "-c", `await ledger.write({ key: "readonly" })`).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("read-only")) ||
		!bytes.Contains(out, []byte("data folder")) && !bytes.Contains(out, []byte(c.data())) {
		t.Errorf("err = %v, out = %s", err, out)
	}
	if asked, _ := c.ledger.of("readonly"); len(asked) > 0 {
		t.Errorf("sent all the same: %v", asked)
	}
	if err := unix.Mount("", c.data(), "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatalf("unix.Mount: %v", err)
	}
	c.begin()
	c.rest()
	if err := c.one("after"); err != nil {
		t.Fatalf("one: %v", err)
	}
}

// TestDiskTorn starts biplane on folders whose last write to the database was torn. It was cut off
// at any byte, or followed by part of an unfinished page. Everything that was on the disk must be
// there, and no execution may be left half-done. A database with other damage must be refused.
func TestDiskTorn(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := newCrash(t, 1)
	c.begin()
	c.settle()
	for range 3 {
		if _, err := c.client().Run(c.ctx,
			api.RunRequest{Code: `n += 1; await ledger.read({ key: "torn" })`, Session: "ts"}); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	c.kill()
	whole := filepath.Join(c.dir, "whole")
	copyFolder(t, whole, c.data())
	wal, err := os.ReadFile(filepath.Join(whole, "biplane.db-wal"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	last := len(wal)
	torn := map[string][]byte{
		"part of a frame":       append(bytes.Clone(wal), bytes.Repeat([]byte{0x5a}, 1234)...),
		"frames of zeros":       append(bytes.Clone(wal), make([]byte, 3*4120)...),
		"a frame written twice": append(bytes.Clone(wal), wal[last-4120:]...),
	}
	for _, cut := range []int{1, 24, 512, 4095, 4096, 4119, 4120, 4121, 2*4120 + 7, 5*4120 + 100} {
		torn[fmt.Sprintf("cut by %d bytes", cut)] = wal[:last-cut]
	}
	for _, b := range []int{1, 4000, 4115} {
		flipped := bytes.Clone(wal)
		flipped[last-b] ^= 0x80
		torn[fmt.Sprintf("byte %d from the end is another", b)] = flipped
	}
	for name, text := range torn {
		c.restore(whole)
		if err := os.WriteFile(filepath.Join(c.data(), "biplane.db-wal"), text, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		c.begin()
		c.rest()
		x, err := c.client().Run(c.ctx, api.RunRequest{Code: "n", Session: "ts"})
		if err != nil || x.Error != nil {
			t.Errorf("%s, err = %v, x = %+v, want err == nil && x.Error == nil", name, err, x)
		} else if whole := len(text) >= last && !strings.Contains(name, "is another"); whole &&
			compact(x.Value) != "3" {
			t.Errorf("%s: the session has %s", name, x.Value)
		}
		if err := c.one("torn, " + name); err != nil {
			t.Errorf("%s, err = %v, want nil", name, err)
		}
		c.kill()
	}

	c.restore(whole)
	if out, err := c.command("sessions").CombinedOutput(); err != nil { // a clean exit leaves a single file
		t.Fatalf("err = %v, out = %s, want err == nil", err, out)
	}
	db := filepath.Join(c.data(), "biplane.db")
	text, err := os.ReadFile(db)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	copy(text, bytes.Repeat([]byte{0xff}, 100))
	if err := os.WriteFile(db, text, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	out, err := c.command("run", "-c", `await ledger.write({ key: "damaged" })`).CombinedOutput()
	if asked, _ := c.ledger.of("damaged"); err == nil || !bytes.Contains(out, []byte("damaged")) || len(asked) > 0 {
		t.Errorf("a damaged database: %v, sent %v\n%s", err, asked, out)
	}
}

// restore replaces the data folder by a copy of another one.
func (c *crash) restore(from string) {
	c.Helper()
	c.kill()
	if err := os.RemoveAll(c.data()); err != nil {
		c.Fatalf("os.RemoveAll: %v", err)
	}
	copyFolder(c.T, c.data(), from)
}
