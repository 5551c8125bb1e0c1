package child_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/child"
	"github.com/biplane-dev/biplane/internal/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
)

// engine makes the test's binary a child, as the hidden command does the real one.
const engine = "__engine"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == engine {
		if err := child.Main(os.Args[3:], inner(os.Args[2])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inner gives the driver of that name.
func inner(name string) func() (sandbox.Driver, error) {
	return func() (sandbox.Driver, error) {
		switch name {
		case "wasm":
			return wasm.New(wasm.Config{})
		}
		return &sandboxtest.Fake{}, nil
	}
}

// newDriver makes a driver whose children run that inner one.
func newDriver(t testing.TB, name string, cfg child.Config) *child.Driver {
	t.Helper()
	cfg.Command = []string{engine, name}
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	d, err := child.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestSuite(t *testing.T) { sandboxtest.Run(t, newDriver(t, "wasm", child.Config{})) }

func TestProbe(t *testing.T) {
	caps, err := newDriver(t, "fake", child.Config{}).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", caps)
}

func TestEscapes(t *testing.T) {
	got, armed, err := child.TryEscapes(t.Context(), []string{engine, "wasm"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range armed {
		t.Logf("%+v", p)
	}
	for _, a := range got {
		t.Logf("%-45s %v %s", a.Name, a.Refused, a.How)
		if !a.Refused {
			t.Errorf("%s was not refused: %s", a.Name, a.How)
		}
	}
}
