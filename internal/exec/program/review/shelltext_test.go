package review

import (
	"strings"
	"testing"
)

// TestShellText checks that a script whose texts become very long isn't followed.
func TestShellText(t *testing.T) {
	for _, code := range []string{
		"x=aaaaaaaaaaaaaaaa\n" + strings.Repeat("x=$x$x\n", 60),
		"f() { echo \"$1$1\"; }\nx=aaaaaaaaaaaaaaaa\n" + strings.Repeat("x=$(f \"$x\")\n", 60),
		"x=$(curl http://a)aaaaaaaaa\n" + strings.Repeat("x+=$x\n", 60) + "y=$x\n",
	} {
		if got, want := ReviewShell(code), refuseReview(); len(got) != len(want) || got[0] != want[0] {
			t.Errorf("%.40s: got %v, want %v", code, got, want)
		}
	}
}
