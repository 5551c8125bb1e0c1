package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestTakenUp kills a biplane while a program waits for a read. A list must report that nothing
// runs the program, and leave it alone; run and mcp must resume it.
func TestTakenUp(t *testing.T) {
	for _, who := range []string{"run", "mcp"} {
		t.Run(who, func(t *testing.T) {
			c := newCrash(t, 1)
			c.configure("never") // run waits for running programs, not for suspended ones
			c.begin()
			c.ledger.set(&trap{key: "taken up", step: looked, fire: c.killer()})
			_, err := c.client().Run(c.ctx,
				api.RunRequest{Code: `const got = await ledger.write({ key: "before" }); await ledger.read({ key: ` +
					`"taken up" }); await ledger.write({ key: "after" }); got`})
			if err == nil {
				t.Fatal("it was answered")
			}
			c.kill()

			out, err := c.command("executions").Output()
			if err != nil || !bytes.Contains(out, []byte(" running ")) ||
				!bytes.Contains(out, []byte("the process that ran it has exited")) {
				t.Errorf("err = %v, out = %s", err, out)
			}
			if asked, _ := c.ledger.of("after"); len(asked) > 0 {
				t.Error("a list has taken it up")
			}
			id := string(bytes.Fields(out[bytes.Index(out, []byte("\nex_")):])[0])
			if who == "run" {
				takeUpByRun(c)
			} else {
				takeUpByMCP(c, id)
			}
			if asked, _ := c.ledger.of(""); fmt.Sprint(asked) != "map[after:1 before:1]" {
				t.Errorf("sent: %v", asked)
			}
			if out, err := c.command("executions", "show", id).Output(); err != nil ||
				!bytes.Contains(out, []byte("done")) || !bytes.Contains(out, []byte("before was written as number 1")) {
				t.Errorf("err = %v, out = %s", err, out)
			}
		})
	}
}

// takeUpByRun checks that a command that runs a program waits for resumed ones.
func takeUpByRun(c *crash) {
	c.Helper()
	out, err := c.command("run", "-c", "1 + 1").CombinedOutput()
	if err != nil || !bytes.HasPrefix(out, []byte("2\n")) {
		c.Errorf(`err = %v, out = %s, want err == nil && bytes.HasPrefix(out, []byte("2\n"))`, err, out)
	}
}

// takeUpByMCP checks that an agent whose server died can resume the execution from the next one.
func takeUpByMCP(c *crash, id string) {
	c.Helper()
	if err := os.Symlink(c.data(), filepath.Join(c.dir, "biplane")); err != nil { // where a process of start looks
		c.Fatalf("os.Symlink: %v", err)
	}
	p := start(c.T, c.dir, "mcp")
	p.hello()
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"resume",`+
		`"arguments":{"execution":%q}}}`, id))
	if line := p.answer(2); !strings.Contains(line, "before was written as number 1") {
		c.Errorf("resumed: %s", line)
	}
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		c.Errorf("Wait: %v", err)
	}
}
