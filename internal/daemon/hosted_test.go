//go:build linux

package daemon_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
)

// TestHostedServer runs an MCP server from npm in a sandbox that reaches one host and nothing else.
// It crashes, and is started again.
func TestHostedServer(t *testing.T) {
	t.Parallel()
	node := peertest.Node(t)
	const everything = "@modelcontextprotocol/server-everything"
	modules := strings.TrimSuffix(peertest.Module(t, everything), filepath.FromSlash("/"+everything))
	var hits atomic.Int64
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		fmt.Fprint(w, "a page")
	})
	web := httptest.NewServer(page)
	defer web.Close()
	port := web.Listener.Addr().(*net.TCPAddr).Port
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		t.Skipf("this system has no 127.0.0.2: %v", err)
	}
	away := &httptest.Server{Listener: other, Config: &http.Server{Handler: page}}
	away.Start()
	defer away.Close()

	r := newProcessRig(t, inProcesses)
	r.stop()
	r.more = fmt.Sprintf(`  every:
    command: %s
    args: [%s/@modelcontextprotocol/server-everything/dist/index.js]
    env: { GZIP_ALLOWED_DOMAINS: "", PLAIN: value }
    sandbox: { mounts: [%s], network: [127.0.0.1], standby: never }
network: { private: [127.0.0.0/8], ports: [%d] }
`, node, modules, modules, port)
	r.start(inProcesses, nil)
	gzip := func(host string) *api.Execution {
		t.Helper()
		return r.runScript(api.RunRequest{Code: fmt.Sprintf(
			`tool every.gzip-file-as-resource --name x.gz --data 'http://%s:%d/page' `+
				`--outputType resourceLink 2>&1; true`,
			host, port)})
	}
	if x := gzip("127.0.0.1"); x.Error != nil || hits.Load() != 1 {
		t.Errorf("the permitted host: value %s, error %+v, %d requests", x.Value, x.Error, hits.Load())
	}
	if x := gzip("127.0.0.2"); hits.Load() != 1 { // the server compresses the answer that refuses it
		t.Errorf("another host: value %s, %d requests", x.Value, hits.Load())
	}
	x := r.runScript(api.RunRequest{Code: `tool every.get-env`})
	if x.Error != nil || !strings.Contains(string(x.Value), "PLAIN") || strings.Contains(string(x.Value), "BIPLANE") {
		t.Errorf("its environment: value %s, error %+v", x.Value, x.Error)
	}
	killChild(t, everything)
	for range 20 { // each call waits a moment for the next start
		x = r.runScript(api.RunRequest{Code: `tool every.get-env`})
		if x.Error == nil {
			break
		}
	}
	if x.Error != nil {
		t.Errorf("after a crash: error %+v", x.Error)
	}
	ups, err := r.d.Client().Upstreams(t.Context())
	if err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	for _, u := range ups {
		if text := "in a sandbox of tier process, which reaches 127.0.0.1"; u.Name == "every" &&
			(u.Sandbox == nil || !strings.HasPrefix(u.Sandbox.DescribeSandbox(), text)) {
			t.Errorf("it is described as %+v, want %q", u.Sandbox, text)
		}
	}
	records, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call"})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	seen := map[string]int{}
	for _, rec := range records {
		if rec.Principal == "server:every" {
			seen[rec.Tool+" "+rec.Effect+" "+rec.Policy]++
		}
	}
	if len(seen) != 2 {
		t.Errorf("the record has %v of the server, want a permitted and a denied connection", seen)
	}
}

// killChild kills a descendant of this process whose command contains a text.
func killChild(t *testing.T, text string) {
	t.Helper()
	parents := map[int]int{}
	var found []int
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, path := range all {
		stat, _ := os.ReadFile(path) // it may have ended
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		f := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		if err != nil || len(f) < 2 {
			continue
		}
		if parents[pid], err = strconv.Atoi(f[1]); err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains(string(command), text) {
			found = append(found, pid)
		}
	}
	for _, pid := range found {
		for p := pid; p > 1; p = parents[p] {
			if p == os.Getpid() {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatalf("kill: %v", err)
				}
				return
			}
		}
	}
	t.Fatalf("no child of this process runs %s", text)
}
