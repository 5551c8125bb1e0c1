package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/folder"
)

// A FolderReport says which tools a folder has.
type FolderReport struct {
	Tools  []*tool.Tool
	Broken []upstream.Broken
	Notes  []folder.Note
}

// CheckFolder loads the files of a folder as an upstream does, and reports the result. A folder of
// the configuration has its permissions meanwhile. Neither the data folder nor other upstreams are
// used.
func CheckFolder(ctx context.Context, cfg Config, path string) (_ *FolderReport, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "folder %s: %w", path, err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := cfg.Settings
	boxes, err := newSandboxes(drivers, s.Sandbox, newEngine(cfg.Engine, cfg.Log, s))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, boxes.Close()) }()
	x, err := newLoader(executor.Config{Drivers: boxes.kinds, Programs: program.New(program.Config{}), Log: cfg.Log,
		Limits: executor.Limits{Memory: s.Sandbox.Memory, CPU: s.Sandbox.CPU}})
	if err != nil {
		return nil, err
	}
	f := &functions{executors: []*executor.Executor{x}}
	f.Loader = x
	defer func() { err = errors.Join(err, f.Close()) }()
	m := mask.New()
	m.Add(s.Secrets.Variables...)
	c := s.FindFolder(path)
	m.AddSecrets(c.Env)
	return loadFolder(ctx, c, newFolderLoader(f, c, m))
}

// loadFolder runs the upstream of a folder until its files are loaded.
func loadFolder(ctx context.Context, c *config.Folder, l folder.Loader) (*FolderReport, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := make(chan struct{})
	var once sync.Once
	u, err := folder.New(folder.Config{Name: c.Name, Path: c.Path, Loader: l,
		OnChange: func() { once.Do(func() { close(loaded) }) }})
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- u.Run(ctx) }()
	select {
	case <-loaded:
	case <-ctx.Done():
	}
	snap, notes := u.Snapshot(), u.ListNotes()
	cancel()
	if err := <-done; err != nil {
		return nil, err
	}
	if snap.Health.State != tool.Ready {
		return nil, tool.Errorf(tool.Unavailable, "%s: %s", c.Path, snap.Health.Reason)
	}
	return &FolderReport{snap.Tools, snap.Broken, notes}, nil
}
