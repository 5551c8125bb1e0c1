package wasm_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
)

// newReal returns a driver with the real prelude.
func newReal(t testing.TB) *wasm.Driver {
	t.Helper()
	d, err := wasm.New(wasm.Config{})
	if err != nil {
		t.Fatalf("wasm.New: %v", err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestSuite(t *testing.T) {
	d := newReal(t)
	c, err := d.Probe(t.Context())
	if err != nil {
		t.Logf("probe: %v", err)
	}
	t.Logf("%+v", c)
	sandboxtest.Run(t, d)
}
