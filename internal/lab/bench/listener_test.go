package bench

import (
	"net"
	"os"
	"runtime"
	"testing"
)

func TestFindListener(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("not tested: listen at %s: %v", address, err)
			continue
		}
		url := "http://" + l.Addr().String() + "/mcp"
		if pid, err := findListener(url); err != nil || pid != os.Getpid() {
			t.Errorf("findListener(%q) = %d, %v, want this process, %d", url, pid, err, os.Getpid())
		}
		if err := l.Close(); err != nil {
			t.Fatalf("close the listener: %v", err)
		}
		if pid, err := findListener(url); err == nil {
			t.Errorf("after the listener was closed, findListener(%q) = %d, want an error", url, pid)
		}
	}
	if _, err := findListener("http://192.0.2.1:80/mcp"); err == nil {
		t.Error("an address of another machine has a process here")
	}
}
