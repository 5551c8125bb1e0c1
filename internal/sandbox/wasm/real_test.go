package wasm_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
)

func TestProbe(t *testing.T) {
	d, err := wasm.New(wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
}
