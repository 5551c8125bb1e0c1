//go:build linux

package process_test

import (
	"context"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// newNodeDriver returns a driver, or skips the test if this host can't run programs on Node.js.
func newNodeDriver(t testing.TB, cfg process.Config) *process.Driver {
	t.Helper()
	d := newDriver(t, cfg)
	if c, err := d.Probe(t.Context()); err != nil || c.Engines["js"] == "" {
		t.Skipf("Node.js can't run here: %v, %v", c.Missing, err)
	}
	return d
}

var roomyNode = sandbox.Spec{Runtime: "js", Memory: 256 << 20, CPU: 20 * time.Second}

// TestNodeValues runs programs that succeed.
func TestNodeValues(t *testing.T) {
	d := newNodeDriver(t, process.Config{})
	for _, c := range []struct{ code, want string }{
		{"() => 1 + 1", "2"},
		{"() => process.cwd()", `"/workspace"`},
		{"() => 12345678901234567890n", "12345678901234567890"},
		{"async () => (await test.echo({ n: 12345678901234567890n, s: 'é€😀' }))", `{"n":12345678901234567890,"s":"é€😀"}`},
		{"async () => (await callTool('test.echo', { n: 1 })).n + (await tools.test.echo({ n: 2 })).n", "3"},
		{"() => require('child_process').execSync('echo hi').toString()", `"hi\n"`},
		{"async () => (await __import('node:os')).platform()", `"linux"`},
		{"() => Buffer.from('hello')", `"aGVsbG8="`},
		{"() => [new Map([['a', 1]]), new Set([1]), new URL('http://a/b'), Promise.resolve(5)]", `[{"a":1},[1],"http://a/b",5]`},
		{"() => new Promise((ok) => setTimeout(ok, 20, 7))", "7"},
		{"() => typeof fetch + typeof WebSocket", `"undefinedundefined"`},
		{"() => require('fs').readdirSync('/')", ""},
		{"() => process.exit()", ""},
		{"() => new Promise((ok) => require('fs').readFile('/etc/hosts', 'utf8', (e, s) => ok(s.length > 5)))", "true"},
	} {
		o := sandboxtest.Exec(t.Context(), t, d, roomyNode, "("+c.code+")", sandboxtest.Host{
			Call: func(_ context.Context, c *sandbox.GuestCall) *sandbox.Answer { return &sandbox.Answer{Value: c.Args} }})
		if !o.Done || c.want != "" && string(o.Value) != c.want {
			t.Errorf("%s: %v, want %s", c.code, o, c.want)
		}
	}
	checkNothingLeft(t)
}
