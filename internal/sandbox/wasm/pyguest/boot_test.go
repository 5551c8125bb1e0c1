//go:build linux && (amd64 || arm64)

package pyguest

import (
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
)

func TestBoot(t *testing.T) {
	begin := time.Now()
	bootImage(t)
	t.Log(time.Since(begin), len(booted)>>10, "KiB")
	m := start(t)
	begin = time.Now()
	done, fail, err := m.run(sandbox.Run{Code: "1+1"})
	t.Log(time.Since(begin), done, fail, err, m.console())
}
