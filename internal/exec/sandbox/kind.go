package sandbox

import "github.com/biplane-dev/biplane/internal/tool"

// defaultKind is the kind that ran every program before sessions and journals recorded a kind.
const defaultKind = "wasm"

// KindOrDefault returns a recorded kind. Sessions and journals that don't record one are from
// before there were several.
func KindOrDefault(recorded string) string {
	if recorded == "" {
		return defaultKind
	}
	return recorded
}

// A Kind is a kind of sandbox in which programs may run.
type Kind struct {
	Name   string    // name in sessions, journals and error texts
	Tier   tool.Tier // the tier that it is meant to have; its Probe may report a weaker one
	Driver Driver    // nil: it can't run on this host, because of Err
	Err    error
}

// OnlyDriver returns a set of kinds with one driver, under the default name.
func OnlyDriver(d Driver) []Kind { return []Kind{{Name: defaultKind, Driver: d}} }
