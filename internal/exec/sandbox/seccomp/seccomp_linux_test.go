package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// runFilter returns the action of a filter for a call. It knows the instructions that
// AssembleFilter uses.
func runFilter(t *testing.T, filter []unix.SockFilter, arch, call uint32, arguments [6]uint32) uint32 {
	t.Helper()
	data := map[uint32]uint32{0: call, 4: arch}
	for i, a := range arguments {
		data[uint32(16+8*i)] = a
	}
	var a uint32
	for at := 0; at < len(filter); at++ {
		jump := func(holds bool) {
			if holds {
				at += int(filter[at].Jt)
			} else {
				at += int(filter[at].Jf)
			}
		}
		switch in := filter[at]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[in.K]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d has the unknown code %#x", at, in.Code)
		}
	}
	t.Fatalf("the filter has no action for call %d", call)
	return 0
}

// decide returns the action that the rules mean, one after the other.
func decide(rules []Rule, otherwise, call uint32, arguments [6]uint32) uint32 {
	for _, r := range rules {
		if uint32(r.Call) != call {
			continue
		}
		holds := true
		for _, c := range r.Checks {
			holds = holds && arguments[c.Argument]&c.Mask == c.Want
		}
		switch {
		case holds && r.Then != 0:
			return r.Then
		case holds:
			return unix.SECCOMP_RET_ALLOW
		case r.Deny != 0:
			return r.Deny
		}
	}
	return otherwise
}

// TestFilterMeansRules compares a filter with its rules for every call and some arguments.
func TestFilterMeansRules(t *testing.T) {
	rules := []Rule{{Call: 5}, {Call: 3}, {Call: 4}, {Call: 4}, // a span, with one twice
		{Call: 7, Checks: CheckEqual(0, 2)}, {Call: 7, Checks: CheckEqual(1, 3), Then: Invalid},
		{Call: 8, Checks: CheckBits(0, 6, 0), Deny: Unknown}, {Call: 9, Checks: FailAlways(), Deny: Unknown},
		{Call: 10, Checks: CheckEqual(1, 1), Then: Refuse}, {Call: 10}, // checked first, then free
		{Call: 6}, {Call: 0}, {Call: 300}, {Call: ForeignCalls - 1},
		{Call: 11, Checks: append(CheckEqual(0, 1), CheckEqual(1, 2)...)}}
	for _, otherwise := range []uint32{Refuse, Unknown} {
		filter := AssembleFilter(rules, otherwise)
		calls := []uint32{ForeignCalls - 2, ForeignCalls - 1}
		for n := range uint32(600) {
			calls = append(calls, n)
		}
		for _, call := range calls {
			for first := range uint32(4) {
				for second := range uint32(4) {
					args := [6]uint32{first, second}
					got, want := runFilter(t, filter, auditArch, call, args), decide(rules, otherwise, call, args)
					if got != want {
						t.Fatalf("call %d with %v: action %#x, want %#x", call, args, got, want)
					}
				}
			}
		}
		for _, call := range []uint32{ForeignCalls, ForeignCalls + 3, 1<<32 - 1} {
			if got := runFilter(t, filter, auditArch, call, [6]uint32{}); got != Kill {
				t.Errorf("the foreign call %#x: action %#x, want the end of the process", call, got)
			}
		}
		if got := runFilter(t, filter, auditArch+1, 3, [6]uint32{}); got != Kill {
			t.Errorf("a call of another architecture: action %#x, want the end of the process", got)
		}
	}
}
