package review

import (
	"strings"
	"testing"
)

// TestResultWork checks that programs which would take long to follow aren't followed.
func TestResultWork(t *testing.T) {
	const start = "import asyncio\nr = await shop.page()\nprint(r.x)\n"
	gather := "rs = await asyncio.gather(" + strings.Repeat("shop.page(), ", 4000) + ")\n"
	for _, tt := range []struct {
		code string
		want int
	}{
		{start, 1},
		{start + gather + "print(rs[0].total)\n", 2},
		{start + gather + strings.Repeat("f(rs)\n", 300), 0},
		{start + "q = " + strings.Repeat("r or ", 5000) + "r\n", 0},
	} {
		if got := FindResultReads(tt.code, map[string]bool{"shop": true}); len(got) != tt.want {
			t.Errorf("%.100s: %d reads, want %d", tt.code, len(got), tt.want)
		}
	}
}
