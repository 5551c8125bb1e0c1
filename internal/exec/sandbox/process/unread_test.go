//go:build linux

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
)

// A hostStream sends lines, and drops what the guest says.
type hostStream struct{ io.Reader }

func (hostStream) Write(p []byte) (int, error) { return len(p), nil }
func (hostStream) Close() error                { return nil }

// TestUnreadLines checks that a program can't keep a Run from ending by frames in the name of its
// agent while it reads none of the host's lines.
func TestUnreadLines(t *testing.T) {
	d := newDriver(t, process.Config{})
	for _, frame := range []string{`b"I\n"`, `b"X\n"`, `b"L" + b"x" * (1 << 20) + b"\n"`} {
		spec := roomy
		spec.Runtime, spec.Output = "python", 1<<20
		box, err := d.Create(t.Context(), spec)
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		run, err := json.Marshal(sandbox.HostMessage{Run: &sandbox.Run{Name: "program.py", Code: `import os, time
data = ` + frame + `
while data: data = data[os.write(3, data):]
time.sleep(1000)`}})
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		lines := append(append(run, '\n'), append(bytes.Repeat([]byte(" "), 8<<20), '\n')...)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := box.Run(ctx, &sandbox.Cmd{Guest: hostStream{bytes.NewReader(lines)}, Keep: true})
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("after a frame %s, the Run ends without an error", frame)
			}
		case <-time.After(2 * time.Minute):
			t.Errorf("after a frame %s, the Run doesn't end", frame)
		}
		cancel()
		if err := box.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
