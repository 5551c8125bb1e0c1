package daemon_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestSandboxNetwork checks that policy decides on the connections of a program in a process
// sandbox, that each is on the record, and that a denial names the smallest policy that would
// permit it.
func TestSandboxNetwork(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	r := newProcessRig(t, inProcesses)
	r.stop()
	r.more = "network: { private: [127.0.0.0/8] }\n"
	r.start(inProcesses+`
@id("web") permit (principal, action == Action::"connect", resource == Host::"127.0.0.1")
when { context.method == "GET" && context.path like "/json*" };`, nil)
	const curl = "curl -sS --noproxy '' -x http://127.0.0.1:3128 "
	for _, c := range []struct{ code, want string }{
		{curl + url + "/json", `41`},
		{curl + "-d x " + url + "/json", `smallest policy that would: permit (principal, action == Action::`},
		{curl + url + "/other", `is denied by policy none`},
		{curl + "http://other.example/", `resource == Host::\"other.example\"`},
		{`getent hosts other.example; echo $?`, `2`},
	} {
		x := r.runScript(api.RunRequest{Code: c.code})
		if x.Error != nil || !strings.Contains(string(x.Value), c.want) {
			t.Errorf("%s: value %s, error %+v, notes %q; want %s", c.code, x.Value, x.Error, x.Notes, c.want)
		}
	}
	if n := hits.Load(); n != 1 {
		t.Errorf("the server received %d requests, want 1", n)
	}
	records, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call"})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	seen := map[string]int{}
	for _, rec := range records {
		seen[rec.Tool+" "+rec.Effect]++
	}
	if seen["biplane.fetch allow"] != 1 || seen["biplane.fetch deny"] != 2 || seen["biplane.send deny"] != 1 ||
		seen["biplane.connect deny"] != 1 {
		t.Errorf("the record has %v, want each connection and the refused name", seen)
	}
}
