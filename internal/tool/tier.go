package tool

import "fmt"

// A Tier is a strength of isolation; a larger one is stronger.
type Tier int

// The tiers, weakest first. The zero Tier is WASM: nothing runs without isolation.
const (
	WASM    Tier = iota // a WebAssembly engine: no system call reaches the guest
	Process             // Linux namespaces, seccomp, Landlock, cgroups
	GVisor              // a kernel in user space
	MicroVM             // a kernel of its own
)

var tierNames = [...]string{"wasm", "process", "gvisor", "microvm"}

// String gives the name that configuration and results use.
func (t Tier) String() string {
	if t < 0 || int(t) >= len(tierNames) {
		return fmt.Sprintf("tier(%d)", int(t))
	}
	return tierNames[t]
}

// ParseTier reads the name of a tier.
func ParseTier(s string) (Tier, error) {
	for i, n := range tierNames {
		if n == s {
			return Tier(i), nil
		}
	}
	return 0, Errorf(Invalid, "unknown tier %q: it is one of wasm, process, gvisor, microvm", s)
}

// MarshalText gives the name.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the name.
func (t *Tier) UnmarshalText(b []byte) error {
	v, err := ParseTier(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}
