package daemon_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// TestSuccessor attaches to an owner that has ended by the time of the first request.
func TestSuccessor(t *testing.T) {
	cfg := daemon.Config{DataDir: t.TempDir(), Version: "test"}
	first, err := daemon.Attach(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	second, err := daemon.Attach(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	x, err := second.Client.Run(t.Context(), api.RunRequest{Code: "1+1"})
	if err != nil || string(x.Value) != "2" {
		t.Fatalf("Run = %+v, %v, want the value 2", x, err)
	}
}

// TestSuccessors runs programs from processes that come and go: each runs exactly once.
func TestSuccessors(t *testing.T) {
	cfg := daemon.Config{DataDir: t.TempDir(), Version: "test"}
	const clients, rounds = 4, 6
	run := func(code string) error {
		at, err := daemon.Attach(t.Context(), cfg)
		if err != nil {
			return fmt.Errorf("Attach: %w", err)
		}
		x, err := at.Client.Run(t.Context(), api.RunRequest{Code: code})
		at.Settle(t.Context(), func(int) {})
		if cerr := at.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("Run: %w", err)
		}
		if string(x.Value) != code {
			return fmt.Errorf("value = %s, want %s", x.Value, code)
		}
		return nil
	}
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for r := range rounds {
				if err := run(fmt.Sprint(100*c + r)); err != nil {
					t.Errorf("client %d, round %d: %v", c, r, err)
				}
			}
		})
	}
	all.Wait()
	at, err := daemon.Attach(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	defer at.Close()
	page, err := at.Client.Executions(t.Context(), api.ExecutionFilter{Limit: 100})
	if err != nil || len(page.Executions) != clients*rounds {
		t.Fatalf("Executions = %+v, %v, want %d", page, err, clients*rounds)
	}
}
