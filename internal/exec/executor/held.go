package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Calls for which policy requires a person's decision wait at the gateway like any slow call, and
// the program is suspended meanwhile. This file handles their effect on an execution: it reports
// that it waits, answers immediately, and its deadlines are paused.

// heldPatience is how long a program must have waited only for people before it reports this and is
// suspended. Calls that it makes at about the same time are thus presented together.
const heldPatience = 100 * time.Millisecond

// A heldCall is a call that waits for a person.
type heldCall struct {
	*tool.Hold
	tool, args string
}

// waitingText describes the decisions that the program waits for, or returns the empty string if it
// waits for none.
func (r *run) waitingText() string {
	held, behind := r.state.heldCalls()
	if len(held) == 0 {
		return ""
	}
	r.hideArgs(held)
	whole := r.planShown()
	var calls []string
	for _, c := range held {
		if whole != "" {
			calls = append(calls, "- "+r.plan.planText(c.Hold, whole))
			continue
		}
		calls = append(calls, fmt.Sprintf("- %s %s (request %s: %s)", c.tool, c.args, c.Request, c.Reason))
	}
	page := ""
	about := r.id
	if len(held) == 1 {
		about = held[0].Request
	}
	if page = r.x.cfg.Control.ApprovalPage(about); page != "" {
		page += " or "
	}
	const most = 20
	if more := len(calls) - most; more > 0 {
		calls = append(calls[:most], fmt.Sprintf("- and %d more", more))
	}
	if behind > 0 {
		calls = append(calls, fmt.Sprintf("- and then on %d more, which are asked about as these are decided on",
			behind))
	}
	return fmt.Sprintf("The program waits for a person, who decides on:\n%s\nTell the user: %sbiplane approvals "+
		"approve %s (or deny, or show). Then call resume with {\"execution\": %q}; don't run the program again.",
		strings.Join(calls, "\n"), page, r.id, r.id)
}

// programDigest returns the SHA-256 of a program's text, in hexadecimal.
func programDigest(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}
