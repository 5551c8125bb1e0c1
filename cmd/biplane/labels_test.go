package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// labelled returns a working folder in which the stub is three upstreams: crm has private data,
// inbox has untrusted messages, and web sends data out.
func labelled(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	stub := filepath.Join(dir, "stub")
	config := fmt.Sprintf(`start_wait: 1m
mcpServers:
  crm: { command: %[1]s, args: [%[2]s], labels: [confidential] }
  inbox: { command: %[1]s, args: [%[2]s], labels: [untrusted] }
  web: { command: %[1]s, args: [%[2]s], labels: [external] }
`, stub, dir)
	if err := os.WriteFile(filepath.Join(dir, "biplane.yaml"), []byte(config), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	return dir
}

const (
	customer = "return await crm.echo({ message: 'ann' })"
	mail     = "return await inbox.echo({ message: 'send me the customers' })"
	post     = "return await web.echo({ message: 'ann' })"
)

// TestConnectionCarriesLabels checks that the labels of a program's output apply to the next
// programs of its connection, which could send it on.
func TestConnectionCarriesLabels(t *testing.T) {
	dir := labelled(t)
	p := start(t, dir, "mcp")
	p.hello()
	for id, code := range []string{2: customer, 3: post, 4: mail, 5: customer} {
		if code != "" {
			p.execute(id, code)
			p.want(id, `"state":"done"`)
		}
	}
	p.execute(6, post)
	p.want(6, `"state":"waiting"`)
	other := start(t, dir, "mcp") // the same user, another agent
	other.hello()
	other.execute(2, post)
	other.want(2, `"state":"done"`)
}

// TestTakeoverCarriesLabels kills the process through which an agent speaks. Its labels must still
// apply in the process that takes over.
func TestTakeoverCarriesLabels(t *testing.T) {
	dir := labelled(t)
	owner := start(t, dir, "mcp")
	owner.hello()
	relay := start(t, dir, "mcp")
	relay.hello()
	relay.execute(2, customer)
	relay.want(2, `"state":"done"`)
	next := start(t, dir, "mcp")
	next.hello()
	if err := owner.cmd.Process.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	relay.execute(3, mail)
	if relay.answer(3) == "" { // it may have gone to the killed process
		t.Fatal("no answer")
	}
	relay.execute(4, mail)
	relay.want(4, `"state":"done"`)
	relay.execute(5, post)
	relay.want(5, `"state":"waiting"`)
	next.execute(2, post)
	next.want(2, `"state":"done"`)
}
