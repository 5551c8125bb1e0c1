// Package seccomp assembles filters for system calls (seccomp(2)) from rules.
package seccomp

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Rule allows a system call, or has another action, if its arguments pass all checks.
type Rule struct {
	Call   uintptr
	Checks []Check // all must hold
	Then   uint32  // action if all checks pass; 0 means to allow the call
	Deny   uint32  // action if a check fails; 0 means continue with the next rule
}

// A Check requires (argument & Mask) == Want for the low 32 bits. The kernel reads no more of the
// arguments checked here.
type Check struct {
	Argument   int
	Mask, Want uint32
}

// CheckBits returns a check that an argument has the value want in the bits of mask.
func CheckBits(argument int, mask, want uint32) []Check { return []Check{{argument, mask, want}} }

// CheckEqual returns a check that an argument has a value.
func CheckEqual(argument int, want uint32) []Check { return CheckBits(argument, ^uint32(0), want) }

// FailAlways returns a check that always fails.
func FailAlways() []Check { return CheckBits(0, 0, 1) }

// Actions for calls that are not allowed.
const (
	Refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	Invalid = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
	Unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	Kill    = unix.SECCOMP_RET_KILL_PROCESS
)

// AssembleFilter returns the filter: each rule in order, then the action otherwise for all other
// calls. Calls of a foreign architecture kill the process.
func AssembleFilter(rules []Rule, otherwise uint32) []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		more = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		and  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	p := []unix.SockFilter{
		{Code: load, K: 4}, // the architecture
		{Code: same, K: auditArch, Jt: 1},
		{Code: ret, K: Kill},
		{Code: load, K: 0}, // the number of the call
		{Code: more, K: ForeignCalls, Jf: 1},
		{Code: ret, K: Kill},
	}
	rules, free := splitFree(rules)
	for _, r := range rules {
		if len(r.Checks) == 0 {
			p = append(p, unix.SockFilter{Code: same, K: uint32(r.Call), Jf: 1},
				unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
			continue
		}
		var body []unix.SockFilter
		for i, c := range r.Checks {
			// number of later checks, three instructions each, followed by the action
			left := len(r.Checks) - i - 1
			body = append(body,
				unix.SockFilter{Code: load, K: uint32(16 + 8*c.Argument)},
				unix.SockFilter{Code: and, K: c.Mask},
				unix.SockFilter{Code: same, K: c.Want, Jf: uint8(3*left + 1)})
		}
		then := r.Then
		if then == 0 {
			then = unix.SECCOMP_RET_ALLOW
		}
		body = append(body, unix.SockFilter{Code: ret, K: then})
		if r.Deny != 0 {
			body = append(body, unix.SockFilter{Code: ret, K: r.Deny})
		} else {
			body = append(body, unix.SockFilter{Code: load, K: 0}) // continue with the next rule
		}
		p = append(p, unix.SockFilter{Code: same, K: uint32(r.Call), Jf: uint8(len(body))})
		p = append(p, body...)
	}
	for _, r := range free {
		p = append(p, unix.SockFilter{Code: more, K: r.first, Jf: 2}, unix.SockFilter{Code: more, K: r.last + 1, Jt: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	}
	return append(p, unix.SockFilter{Code: ret, K: otherwise})
}

// A span is the calls from first to last.
type span struct{ first, last uint32 }

// splitFree divides rules into those of calls with checks, and the spans of all other calls, which
// are always allowed. The kernel tries a filter with every call when it is installed: with spans,
// that is five times as fast.
func splitFree(rules []Rule) (checked []Rule, free []span) {
	checks := map[uintptr]bool{}
	for _, r := range rules {
		if len(r.Checks) > 0 {
			checks[r.Call] = true
		}
	}
	var calls []uint32
	for _, r := range rules {
		if checks[r.Call] {
			checked = append(checked, r)
		} else {
			calls = append(calls, uint32(r.Call))
		}
	}
	slices.Sort(calls)
	for _, n := range calls {
		if end := len(free) - 1; end >= 0 && n <= free[end].last+1 {
			free[end].last = n
		} else {
			free = append(free, span{n, n})
		}
	}
	return checked, free
}

// InstallFilter applies a filter to all threads of this process, permanently. It sets no_new_privs,
// which the kernel requires.
func InstallFilter(filter []unix.SockFilter) error {
	if len(filter) > 4096 { // BPF_MAXINSNS
		return errors.New("filter system calls: the filter is too long")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // the filter sets it for the other threads
		return fmt.Errorf("give up new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return fmt.Errorf("filter system calls: %w", errno)
	case thread != 0:
		return fmt.Errorf("filter system calls: thread %d can't be filtered", thread)
	}
	return nil
}

// CountCalls returns the number of system calls that rules allow at least with some arguments.
func CountCalls(rules []Rule) int {
	calls := map[uintptr]bool{}
	for _, r := range rules {
		if r.Then == 0 && (len(r.Checks) == 0 || r.Checks[0].Mask != 0) {
			calls[r.Call] = true
		}
	}
	return len(calls)
}
