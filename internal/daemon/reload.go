package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// reloadable lists the parts of the configuration that take effect without a restart, beside
// those with upstreams.
var reloadable = []string{"$schema", "mcpServers", "policy", "tools", "definitions", "limits", "start_wait", "notify"}

// lookTime is the interval between looks at the files of the configuration and its policies.
const lookTime = time.Second

// A ConfigSource reads the configuration again.
type ConfigSource interface {
	// ReadSettings returns the configuration as it is now.
	ReadSettings() (*config.Config, error)
	// ReloadRequests returns a channel that has a value when a user asks for a reload, or nil.
	ReloadRequests() <-chan struct{}
	// ReportReload is called when a reload begins, and when it has ended.
	ReportReload(ended bool)
}

// A reloader applies changed configurations: policies and settings of tools with a new
// gateway, limits, and upstreams. Other parts stay as they were at the start, and the state of the
// daemon says so. Unchanged parts are untouched: connections, sessions, running programs.
type reloader struct {
	d        *Daemon
	key      *secret.Key
	settings atomic.Pointer[config.Config] // in force
	state    atomic.Pointer[api.Reload]    // nil before the first reload
	reviewed *review                       // what is wrong with the settings in force
	notify   map[string][sha256.Size]byte  // digests of the channels for notices in force
}

func newReloader(d *Daemon, key *secret.Key) *reloader {
	r := &reloader{d: d, key: key, reviewed: newReview()}
	r.settings.Store(d.cfg.Settings)
	r.notify = listNotify(d.cfg.Settings)
	return r
}

// listNotify returns the digests of the channels for notices.
func listNotify(s *config.Config) map[string][sha256.Size]byte {
	out := maps.Clone(s.Parts)
	maps.DeleteFunc(out, func(name string, _ [sha256.Size]byte) bool {
		part, _, _ := strings.Cut(name, ".")
		return part != "notify"
	})
	return out
}

// replaceNotify replaces the channels for notices if one has changed.
func (r *reloader) replaceNotify(fresh *config.Config) {
	if next := listNotify(fresh); !maps.Equal(next, r.notify) {
		r.notify = next
		r.d.servers.notices.ReplaceRoutes(fresh.Notify.Routes)
	}
}

// A fileState identifies a version of a file, without reading it.
type fileState struct {
	size  int64
	moved time.Time
	mode  os.FileMode
	info  os.FileInfo // nil: there is no file
}

// isSame reports whether two states are of the same version of a file. A file that was moved to its
// place may have the same size and time.
func (s fileState) isSame(other fileState) bool {
	if s.info == nil || other.info == nil {
		return s.info == other.info
	}
	return s.size == other.size && s.moved.Equal(other.moved) && s.mode == other.mode && os.SameFile(s.info, other.info)
}

func statFile(path string) (s fileState) {
	if info, err := os.Stat(path); err == nil {
		s = fileState{info.Size(), info.ModTime(), info.Mode(), info}
	}
	return s
}

// watchFiles reloads the configuration and the policies when their files change or a user asks,
// until ctx is done. A changed file is read once it is the same in two checks in a row, so that it
// is complete.
func (r *reloader) watchFiles(ctx context.Context) {
	var requests <-chan struct{}
	file := r.d.cfg.Settings.File
	switch from := r.d.cfg.Source; {
	case from != nil:
		requests = from.ReloadRequests()
	case r.d.cfg.Settings.PolicyDir == "":
		return
	default:
		file = ""
	}
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	seen := statFile(file)
	read := seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-requests:
			read = statFile(file)
			r.reloadSettings(ctx)
		case <-tick.C:
			r.d.policies.watchFolder(ctx)
			now := statFile(file)
			if file != "" && now.isSame(seen) && !now.isSame(read) {
				read = now
				r.reloadSettings(ctx)
			}
			seen = now
		}
	}
}

// reloadSettings reads the configuration, and applies its changes. An invalid one
// changes nothing.
func (r *reloader) reloadSettings(ctx context.Context) {
	r.d.cfg.Source.ReportReload(false)
	defer r.d.cfg.Source.ReportReload(true)
	fresh, err := r.d.cfg.Source.ReadSettings()
	var added *sourceBuilder
	if err == nil {
		added, err = r.prepareSources(fresh)
	}
	if err == nil {
		err = r.replaceSettings(fresh)
	}
	if err != nil {
		r.rejectSettings(ctx, err)
		return
	}
	r.d.upstreams.replaceSources(ctx, added.sources, r.settings.Load().StartWait)
	observer{r.d}.updateTools() // policies may have changed what is visible
	observer{r.d}.updateOffers()
	r.recordInForce(ctx)
	state := r.state.Load()
	r.d.log.Info("configuration reloaded", "upstreams", len(added.sources), "restart", strings.Join(state.Restart, " "))
	if len(state.Restart) > 0 {
		r.d.log.Warn("these changes of the configuration come into force with the next start",
			"parts", strings.Join(state.Restart, " "))
	}
}

// prepareSources creates the upstreams of a configuration that are new or have changed.
func (r *reloader) prepareSources(fresh *config.Config) (*sourceBuilder, error) {
	addSecrets(r.d.mask, fresh) // earlier than any use of them
	b, err := r.d.upstreams.createSources(fresh)
	if err != nil {
		return nil, err
	}
	if !r.runsFolders() {
		b.sources = slices.DeleteFunc(b.sources, isFolder)
	}
	return b, nil
}

// runsFolders reports whether there is what runs the tools of folders. It is created at the start.
func (r *reloader) runsFolders() bool { return len(r.d.upstreams.functions.executors) > 0 }

func isFolder(s *source) bool { return s.kind == "folders" }

// replaceSettings applies policies, limits and rules of definitions. After an error, all is as
// before: what can fail comes first.
func (r *reloader) replaceSettings(fresh *config.Config) error {
	next := *r.settings.Load()
	next.Origin, next.Warnings = fresh.Origin, fresh.Warnings
	next.Servers, next.APIs = fresh.Servers, fresh.APIs
	next.Policy, next.PolicyDir, next.Tools = fresh.Policy, fresh.PolicyDir, fresh.Tools
	next.Limits, next.StartWait, next.Notify = fresh.Limits, fresh.StartWait, fresh.Notify
	lock := next.Definitions.Lock
	next.Definitions = fresh.Definitions
	next.Definitions.Lock = lock
	r.d.policies.folder.mu.Lock()
	defer r.d.policies.folder.mu.Unlock()
	e, err := next.Engine()
	if err != nil {
		return err
	}
	g, err := r.d.policies.createGateway(e)
	if err != nil {
		return err
	}
	if err := r.d.limits.SetRules(next.Limits); err != nil {
		return err
	}
	r.d.policies.replaceSettings(&next, e, g)
	r.replaceNotify(fresh)
	r.d.upstreams.pins.settings.Store(&next)
	r.settings.Store(&next)
	r.state.Store(&api.Reload{Time: time.Now().UTC().Truncate(time.Second), Restart: r.listRestart(fresh)})
	for _, w := range fresh.Warnings {
		r.d.log.Warn(fmt.Sprintf("%s:%d:%d: %s", fresh.File, w.Line, w.Column, w.Message))
	}
	observer{r.d}.recordPolicy(context.Background(), e, nil)
	return nil
}

// listRestart returns the changed parts that take effect at the next start, sorted.
func (r *reloader) listRestart(fresh *config.Config) []string {
	first := r.d.cfg.Settings
	found := map[string]bool{}
	for _, pair := range [][2]map[string][sha256.Size]byte{{first.Parts, fresh.Parts}, {fresh.Parts, first.Parts}} {
		for name, sum := range pair[0] {
			if other, ok := pair[1][name]; !ok || other != sum {
				part, _, _ := strings.Cut(name, ".")
				found[part] = true
			}
		}
	}
	for _, part := range append(config.ListKinds(), reloadable...) {
		delete(found, part)
	}
	if !r.runsFolders() && slices.ContainsFunc(fresh.APIs, func(a config.API) bool {
		return a.GetSource().Part == "folders" && !a.GetSource().Disabled
	}) {
		found["folders"] = true
	}
	if fresh.Definitions.Lock != first.Definitions.Lock {
		found["definitions.lock"] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// rejectSettings reports that a changed configuration is not in force.
func (r *reloader) rejectSettings(ctx context.Context, err error) {
	text := r.d.mask.Text(tool.AsError(err).Msg)
	before := r.state.Load()
	next := &api.Reload{Time: time.Now().UTC().Truncate(time.Second), Problem: text}
	if before != nil {
		next.Restart = before.Restart
	}
	r.state.Store(next)
	r.d.log.Error("the changed configuration is not in force: the previous one stays", "err", text)
	if before != nil && before.Problem == text {
		return
	}
	// The file has no effect, and event has logged why that could not be recorded.
	_ = r.d.event(ctx, withError(audit.Event{
		Kind: audit.KindConfiguration, Principal: identity.LocalUser(),
		Subject: audit.Subject{File: r.settings.Load().File}, Detail: map[string]string{"action": "reject"},
	}, err))
}
