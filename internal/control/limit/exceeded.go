package limit

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// exceededError returns the error of a call that exceeds a limit.
func exceededError(u *use, c *tool.Call, wait time.Duration) *tool.Error {
	r, whose := u.rule, ""
	switch {
	case u.host != "" && r.Per == PerHost:
		whose = ", used up for " + u.host
	case u.host != "" && r.Per == PerPrincipal:
		whose = ", used up by " + c.Principal.ID
	}
	then := "when one of them has ended"
	if r.What != Concurrent {
		wait = max(wait.Round(time.Millisecond), time.Millisecond)
		then = "in " + formatSpan(wait)
	}
	return &tool.Error{
		Kind: tool.Limit, Unsent: true, RetryAfter: wait,
		Msg: fmt.Sprintf("%s is over the limit of %s%s: try again %s", c.Tool.Path(), r, whose, then),
	}
}

// formatSpan formats a duration for people.
func formatSpan(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}

func formatAmount(v float64) string {
	s := fmt.Sprintf("%.2f", v)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
