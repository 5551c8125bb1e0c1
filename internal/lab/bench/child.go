package bench

import (
	"errors"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
)

// childDriver returns the driver that the gateway uses: the engine in child processes of this
// program.
func (r *runner) childDriver() (closingDriver, error) {
	if len(r.cfg.EngineArgs) == 0 {
		return nil, errors.New("this program has no command that runs the engine")
	}
	return child.New(child.Config{Command: r.cfg.EngineArgs})
}
