package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestInputEnds checks that canceling doesn't wait for standard input.
func TestInputEnds(t *testing.T) {
	in, writer := io.Pipe()
	defer writer.Close()
	a := &app{Process: Process{In: in}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if _, err := io.WriteString(writer, "1 + 1"); err != nil {
			t.Errorf("io.WriteString: %v", err)
		}
		cancel()
	}()
	var e *api.Error
	if err := a.readProgram(ctx, []string{"-"}, &api.RunRequest{}); !errors.As(err, &e) || e.Kind != api.Canceled {
		t.Errorf("a program that never ends: %v", err)
	}

	a.In = strings.NewReader("return 1")
	var req api.RunRequest
	if err := a.readProgram(t.Context(), nil, &req); err != nil || req.Code != "return 1" {
		t.Errorf(`req.Code = %q, err = %v, want err == nil && req.Code == "return 1"`, req.Code, err)
	}
}
