package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestUsageSurvivesKill kills a process whose usage was reported. The next one must report the
// same.
func TestUsageSurvivesKill(t *testing.T) {
	dir := folder(t)
	used := func() (u api.Usage) {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatalf("os.Executable: %v", err)
		}
		c := &exec.Cmd{Path: self, Args: []string{"biplane", "usage", "--by", "client,tool", "-o", "json"}, Dir: dir,
			Stderr: os.Stderr}
		c.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "HOME="+dir, "BIPLANE_CONFIG=")
		out, err := c.Output()
		if err == nil {
			err = json.Unmarshal(out, &u)
		}
		if err != nil {
			t.Fatalf("err = %v, out = %s, want err == nil", err, out)
		}
		return u
	}
	p := start(t, dir, "mcp")
	p.hello()
	p.execute(2, "for (let i = 0; i < 5; i++) await callTool('stub.echo', { message: 'hello' }); return 1")
	p.want(2, "result")
	before := used()
	if before.Total.Calls != 6 || before.Total.KeptOut == 0 || before.Total.Executions != 1 || len(before.Lines) != 2 ||
		before.Lines[0].Client != "test/1" {
		t.Errorf("before = %+v", before)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	_ = p.cmd.Wait()
	if after := used(); after.Total != before.Total {
		t.Errorf("after kill -9: %+v\nwant %+v", after.Total, before.Total)
	}
}
