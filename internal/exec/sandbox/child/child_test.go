//go:build linux

package child_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
)

// engine is the argument that makes the test binary run as a child, like biplane's hidden command.
const engine = "__engine"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == engine {
		err := error(nil)
		if what, ok := strings.CutPrefix(os.Args[2], "only-"); ok {
			err = child.ArmLess(os.Args[3:], what)
		} else {
			err = child.Main(os.Args[3:], inner(os.Args[2]))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "parent" {
		parent()
	}
	os.Exit(m.Run())
}

// inner returns a constructor for the named driver.
func inner(name string) func() (sandbox.Driver, error) {
	return func() (sandbox.Driver, error) {
		switch name {
		case "wasm":
			return wasm.New(wasm.Config{Relief: true})
		case "memo":
			return &child.Memo{}, nil
		}
		return &sandboxtest.Fake{}, nil
	}
}

// newDriver returns a driver whose children run the named inner driver.
func newDriver(t testing.TB, name string, cfg child.Config) *child.Driver {
	t.Helper()
	cfg.Command = []string{engine, name}
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	d, err := child.New(cfg)
	if err != nil {
		t.Fatalf("child.New: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func TestSuite(t *testing.T) { sandboxtest.Run(t, newDriver(t, "wasm", child.Config{})) }
