package tool

import "fmt"

// A Tier is a level of isolation; a higher one is stronger.
type Tier int

// The tiers, weakest first. The zero Tier is WASM: nothing runs without isolation.
const (
	WASM    Tier = iota // a WebAssembly engine: the guest can't make system calls
	Process             // Linux namespaces, seccomp, Landlock, cgroups
	GVisor              // a user-space kernel
	MicroVM             // a separate kernel
)

var tierNames = [...]string{"wasm", "process", "gvisor", "microvm"}

// String returns the name used in configuration and results.
func (t Tier) String() string {
	if t < 0 || int(t) >= len(tierNames) {
		return fmt.Sprintf("tier(%d)", int(t))
	}
	return tierNames[t]
}

// ParseTier parses the name of a tier.
func ParseTier(s string) (Tier, error) {
	for i, n := range tierNames {
		if n == s {
			return Tier(i), nil
		}
	}
	return 0, Errorf(Invalid, "unknown tier %q: it is one of wasm, process, gvisor, microvm", s)
}

// MarshalText returns the name.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses the name.
func (t *Tier) UnmarshalText(b []byte) error {
	v, err := ParseTier(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}
