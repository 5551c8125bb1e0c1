package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
)

func (r *reader) readCount(n *node, what string, low, high int64) int {
	text := r.readText(n, what)
	v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		r.addProblem(n, "%s must be a whole number, not %q", what, clipText(text))
		return int(low)
	}
	if v < low || v > high {
		r.addProblem(n, "%s must be from %d to %d, not %d", what, low, high, v)
		return int(low)
	}
	return int(v)
}

var sizeUnits = []struct {
	name string
	n    float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// readSize reads a number of bytes with a unit: "256MiB".
func (r *reader) readSize(n *node, what string, low, high int64) int64 {
	text := strings.TrimSpace(r.readText(n, what))
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || math.IsNaN(v) || v < 0 {
			break
		}
		if v *= u.n; v < float64(low) || v > float64(high) {
			r.addProblem(n, "%s must be from %s to %s, not %s", what, formatSize(low), formatSize(high), text)
			return low
		}
		return int64(v)
	}
	r.addProblem(n, "%s must be a size with a unit, like 256MiB (B, KiB, MiB, GiB, KB, MB or GB), not %q", what,
		clipText(text))
	return low
}

// formatSize formats bytes in the syntax of size.
func formatSize(n int64) string {
	for _, u := range []struct {
		name string
		n    int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.n && n%u.n == 0 {
			return fmt.Sprintf("%d%s", n/u.n, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// readDuration reads a duration with a unit: "10s".
func (r *reader) readDuration(n *node, what string, low, high time.Duration) time.Duration {
	return r.readTime(n, what, low, high, func(d time.Duration) string {
		if d != 0 && d%time.Hour == 0 { // without days, which this syntax doesn't have
			return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
		}
		return text.Setting(d)
	})
}

// readTime reads a duration. format formats the bounds in errors.
func (r *reader) readTime(n *node, what string, low, high time.Duration, format func(time.Duration) string,
) time.Duration {
	value := r.readText(n, what)
	d, err := time.ParseDuration(value)
	if err != nil {
		r.addProblem(n, "%s must be a time with a unit, like 10s or 500ms, not %q", what, clipText(value))
		return low
	}
	if d < low || d > high {
		r.addProblem(n, "%s must be from %s to %s, not %s", what, format(low), format(high), format(d))
		return low
	}
	return d
}

// readDays is like duration, and also reads days: "30d".
func (r *reader) readDays(n *node, what string, low, high time.Duration) time.Duration {
	m := *n
	if d, ok := strings.CutSuffix(n.text, "d"); ok {
		if v, err := time.ParseDuration(d + "h"); err == nil && v <= high {
			m.text = (24 * v).String()
		}
	}
	return r.readTime(&m, what, low, high, text.Setting)
}
