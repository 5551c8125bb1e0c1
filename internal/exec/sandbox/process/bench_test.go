//go:build linux

package process_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
)

// BenchmarkProgram runs one program in a new sandbox, and closes that.
func BenchmarkProgram(b *testing.B) {
	for _, c := range []struct{ runtime, code string }{{"python", "1"}, {"bash", ":"}} {
		b.Run(c.runtime, func(b *testing.B) {
			d := newDriver(b, process.Config{})
			for b.Loop() {
				box, err := d.Create(b.Context(), sandbox.Spec{Runtime: c.runtime})
				if err != nil {
					b.Fatalf("Create: %v", err)
				}
				o := sandboxtest.Host{}.Run(b.Context(), box, sandbox.Run{Code: c.code, Name: "program"})
				if !o.Done {
					b.Errorf("%v, want it done", o)
				}
				if err := box.Close(); err != nil {
					b.Errorf("Close: %v", err)
				}
			}
		})
	}
}

// BenchmarkMachine runs a command in a new machine, and closes that.
func BenchmarkMachine(b *testing.B) {
	d := newDriver(b, process.Config{})
	spec := sandbox.MachineSpec{Folder: b.TempDir()}
	for b.Loop() {
		m, err := d.CreateMachine(b.Context(), spec)
		if err != nil {
			b.Fatalf("CreateMachine: %v", err)
		}
		q := &service.Request{Op: service.OpRun, Command: []string{"/bin/true"}}
		if r, err := service.AskAgent(b.Context(), m, q); err != nil || *r.Exit != (service.Exit{}) {
			b.Errorf("%+v, %v, want exit status 0", r, err)
		}
		if err := m.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	}
}
