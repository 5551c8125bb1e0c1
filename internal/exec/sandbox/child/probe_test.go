//go:build linux

package child_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
)

// escapes makes all escape attempts in children started with argument how. It returns the attempts
// and the protections by name.
func escapes(t *testing.T, how string) (map[string]child.Attempt, map[string]child.Protection) {
	t.Helper()
	got, armed, err := child.TryEscapes(t.Context(), []string{engine, how})
	if err != nil {
		t.Fatalf("child.TryEscapes: %v", err)
	}
	if len(got) != child.Attempts() {
		t.Errorf("%d of %d attempts were made", len(got), child.Attempts())
	}
	attempts, protections := map[string]child.Attempt{}, map[string]child.Protection{}
	for _, a := range got {
		attempts[a.Name] = a
	}
	for _, p := range armed {
		protections[p.Name] = p
		t.Logf("%s: %v %s", p.Name, p.Armed, p.Detail)
	}
	if len(attempts) != len(got) {
		t.Error("two attempts have one name")
	}
	return attempts, protections
}

func TestEscapes(t *testing.T) {
	got, _ := escapes(t, "wasm")
	for _, a := range got {
		if !a.Refused {
			t.Errorf("%s was not refused: %s", a.Name, a.How)
		}
	}
}

// TestEscapesUnprotected makes the escape attempts without protections. Only attempts that succeed
// here prove anything when they are refused.
func TestEscapesUnprotected(t *testing.T) {
	got, _ := escapes(t, "only-nothing")
	open := 0
	for _, a := range got {
		if !a.Refused {
			open++
		}
	}
	t.Logf("%d of %d attempts are not refused without protections", open, len(got))
	for _, name := range []string{
		"read /", "read /etc/passwd", "read /proc/self/environ", "read /proc/self/maps", "write /proc/self/mem",
		"look at /etc/passwd", "openat2",
		"read the link /proc/self/exe", "handle of a file", "watch files (inotify)", "socket: TCP", "socket: UDP",
		"socket: unix", "socket: netlink", "socket pair",
		"execute /bin/sh", "fork", "new namespace (unshare)", "signal all processes",
		"handle of a process (pidfd_open)",
		"shared memory (shmget)", "message queue (msgget)", "semaphores (semget)", "become dumpable again",
		"personality", "another filter", "landlock rules",
		"map executable memory", "map writable and executable memory", "make memory executable",
		"make memory executable (pkey_mprotect)",
		"what the system is", "how much memory the system has",
	} {
		if a, ok := got[name]; !ok || a.Refused {
			t.Errorf("%s is refused though nothing is armed: %s", name, a.How)
		}
	}
}

// TestLayers makes the escape attempts with only one protection at a time.
func TestLayers(t *testing.T) {
	for layer, c := range map[string]struct {
		armed   string
		refused []string
	}{
		"namespaces": {"empty root", []string{"read /etc/passwd", "read /proc/self/environ", "read /proc/1/environ",
			"write /proc/self/mem", "create a file in /tmp", "execute /bin/sh"}},
		"landlock": {"Landlock",
			[]string{"read /", "read /etc/passwd", "read /proc/self/environ", "create a file in /tmp"}},
		"filter": {"system call filter", nil},
	} {
		t.Run(layer, func(t *testing.T) {
			got, armed := escapes(t, "only-"+layer)
			if p := armed[c.armed]; !p.Armed {
				t.Skipf("%s can't be armed here: %s", c.armed, p.Detail)
			}
			for _, name := range c.refused {
				if a := got[name]; !a.Refused {
					t.Errorf("%s is not refused: %s", name, a.How)
				}
			}
			for _, a := range got {
				if layer == "filter" && !a.Refused && a.Name != "find an inherited descriptor" {
					t.Errorf("%s is not refused: %s", a.Name, a.How)
				}
			}
		})
	}
}
