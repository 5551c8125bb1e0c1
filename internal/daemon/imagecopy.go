package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image/build"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An imageKeeper starts sandboxes of images ahead, and builds images from sandboxes.
type imageKeeper struct{ *Daemon }

// WarmImage starts a sandbox of an image ahead.
func (d imageKeeper) WarmImage(ctx context.Context, name string, r api.ImageWarmRequest) (*api.ImageWarmth, error) {
	language := cmp.Or(r.Language, "python")
	w, err := d.executor.WarmImage(ctx, name, language)
	if err != nil {
		return nil, err
	}
	return &api.ImageWarmth{Image: name, Language: language, Ready: w.Ready, Start: w.Start, Claim: w.Claim,
		For: w.For}, nil
}

// CopyImage builds an image from what was installed in a sandbox of a principal, between a record
// of the intent and one of the outcome.
func (d imageKeeper) CopyImage(ctx context.Context, p tool.Principal, name string, r api.ImageCopyRequest) (
	*api.CopiedImage, error) {
	if err := image.CheckName(name); err != nil {
		return nil, err
	}
	id, err := d.sandboxes.own.FindSandbox(ctx, p, r.Sandbox)
	if err != nil {
		return nil, err
	}
	e := audit.Event{Kind: audit.KindSession, Principal: p, Subject: audit.Subject{Name: name},
		Detail: map[string]string{"action": "build image", "sandbox": id, "part": "intent"}}
	if err := d.event(ctx, e); err != nil {
		return nil, err
	}
	out := &api.CopiedImage{Notes: []string{}}
	images := NewImages(d.cfg.DataDir, d.cfg.Settings)
	err = d.sandboxes.own.UseFrozen(ctx, p, id, func(s *owned.FrozenSandbox) error {
		e.Labels = s.ListLabels()
		return copyFrozen(ctx, images.store, name, s, labelGuard{s, r.Untrusted},
			func(line string) { out.Notes = append(out.Notes, line) })
	})
	e.Detail = map[string]string{"action": "build image", "sandbox": id}
	if err == nil {
		out.Image, err = images.ShowImage(name)
		e.Detail["digest"] = out.Digest
	}
	_ = d.event(ctx, withError(e, err)) // the error has been logged
	if err != nil {
		return nil, err
	}
	return out, nil
}

// copyFrozen builds an image from a frozen sandbox.
func copyFrozen(ctx context.Context, store *image.Store, name string, s *owned.FrozenSandbox, g labelGuard,
	p build.Progress) error {
	if _, ok := store.DescribeImage(name); ok {
		return tool.Errorf(tool.Conflict, "the configuration describes image %q (sandbox.images): build it under "+
			"another name", name)
	}
	from := &build.Source{ID: s.ID, Folder: s.Folder, MaxBytes: s.MaxBytes, MaxFiles: s.MaxFiles,
		Guard: g}
	if s.Image != "" {
		lease, err := store.UseImage(s.Image)
		if err != nil {
			return err
		}
		defer lease.EndUse()
		if lease.Tier > tool.Process {
			return tool.Errorf(tool.Conflict, "image %q of the sandbox is for tier %s", s.Image, lease.Tier)
		}
		from.Base = lease
	}
	_, err := build.BuildFrom(ctx, store, name, from, p)
	return err
}

// A labelGuard keeps labeled data out of images: all principals can use it, and their programs
// don't get the labels.
type labelGuard struct {
	box       *owned.FrozenSandbox
	untrusted bool // data that is only untrusted is permitted
}

// CheckData implements build.Guard.
func (g labelGuard) CheckData() error {
	labels := g.box.ListLabels()
	private := slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return l == tool.LabelUntrusted })
	switch {
	case len(private) > 0:
		return tool.Errorf(tool.Denied, "the sandbox has data with the labels %s, which must not reach an image that "+
			"others use: install the packages in a new sandbox", strings.Join(private, ", "))
	case len(labels) > 0 && !g.untrusted:
		return tool.Errorf(tool.Denied, "the sandbox has untrusted data, from the network for example, and everyone "+
			"who uses the image runs it: if you trust what is installed there, build the image with --untrusted")
	}
	return nil
}
