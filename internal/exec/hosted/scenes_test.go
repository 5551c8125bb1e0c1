//go:build linux

package hosted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// runProgram runs a program that leaves processes, freezes its sandbox, runs another, and closes
// it.
func runProgram(d *process.Driver, _ string, begin func() error) error {
	if err := begin(); err != nil {
		return err
	}
	ctx := context.Background()
	b, err := d.Create(ctx, sandbox.Spec{Runtime: "bash"})
	if err != nil {
		return err
	}
	for range 2 {
		o := sandboxtest.Host{Keep: true}.Run(ctx, b, sandbox.Run{Name: "program.sh", Session: true,
			Code: "echo x > file; (sleep 1000 &) >/dev/null 2>&1; setsid sleep 1000 >/dev/null 2>&1 & true"})
		if !o.Done {
			return fmt.Errorf("a program: %v", o)
		}
		f := b.(sandbox.Freezer)
		if err := errors.Join(f.FreezeGuest(), f.ThawGuest()); err != nil {
			return err
		}
	}
	return b.Close()
}

// runOwn ends the sandboxes that earlier gateways left, which must all work. Then it creates one,
// uses it, freezes it, uses it again, and ends it.
func runOwn(d *process.Driver, folder string, begin func() error) (err error) {
	ctx, ann := context.Background(), tool.Principal{ID: "ann"}
	db, err := store.Open(ctx, store.Config{Path: filepath.Join(filepath.Dir(folder), "store")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key, err := secret.NewKey(make([]byte, 32))
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	s := owned.NewSandboxes(owned.Config{Driver: d, Dir: folder, Store: db.OpenSandboxes(key, log), Log: log})
	defer func() { err = errors.Join(err, s.CloseAll()) }()
	use := func(name string, args map[string]any) error {
		raw, err := json.Marshal(args)
		if err == nil {
			_, err = s.CallTool(ctx, &tool.Call{Path: "biplane.sandbox_" + name, Arguments: raw, Principal: ann,
				Tool: &tool.Tool{Upstream: tool.Own, Name: "sandbox_" + name}})
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, raw, err)
		}
		return nil
	}
	left, err := s.ListSandboxes(ctx, ann)
	for _, i := range left {
		err = errors.Join(err, use("run", map[string]any{"sandbox": i.ID, "command": "true"}),
			use("end", map[string]any{"sandbox": i.ID}))
	}
	if err := errors.Join(err, begin()); err != nil {
		return err
	}
	if err := use("create", map[string]any{"name": "a"}); err != nil {
		return err
	}
	for range 2 {
		if err := errors.Join(use("run", map[string]any{"sandbox": "a", "command": "(sleep 1000 &); mkdir -p x/y"}),
			use("suspend", map[string]any{"sandbox": "a"})); err != nil {
			return err
		}
	}
	return use("end", map[string]any{"sandbox": "a"})
}
