package console

import (
	"context"
	"net/http"
	"net/url"
	"path"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	sandboxUploadPath = "/sandboxes/{sandbox}/upload"
	sandboxPart       = 1 << 20   // bytes of a file that one operation reads or writes
	downloadBytes     = 256 << 20 // of a file of a sandbox; the command line has no limit
)

type sandboxData struct {
	*api.OwnSandbox
	Folder    *folder // nil: it was not asked for
	MayChange bool
}

func sandboxPage(id string) string { return "/sandboxes/" + url.PathEscape(id) }

// showSandbox shows a sandbox of the visitor. It shows a folder of its files only if the address
// names one: that wakes the sandbox.
func showSandbox(v *visit) error {
	c, id, dir := v.newClient().OwnSandboxes(), v.r.PathValue("sandbox"), v.r.URL.Query().Get("dir")
	d := sandboxData{MayChange: v.mayUse("POST /me/sandboxes/{sandbox}/{operation}")}
	if dir != "" {
		d.Folder = newFolder(path.Clean("/"+dir), d.MayChange)
		d.Folder.Bad = problemOf(d.Folder.listSandbox(v.r.Context(), c, id))
	}
	x, err := c.ShowSandbox(v.r.Context(), id)
	if err != nil {
		return ownError(err)
	}
	if d.OwnSandbox = x; d.Folder != nil {
		d.Folder.Page = sandboxPage(x.ID)
	}
	v.renderPage(http.StatusOK, "sandbox.html", d)
	return nil
}

// listSandbox adds the entries of the folder in a sandbox.
func (f *folder) listSandbox(ctx context.Context, c api.SandboxClient, id string) error {
	a, err := c.UseSandbox(ctx, id, "files", api.SandboxOperation{Path: f.Dir})
	if err != nil {
		return err
	}
	if n := len(a.Files) - maxEntries; n > 0 {
		a.Files, f.More = a.Files[:maxEntries], n
	}
	f.Clipped = a.Clipped
	for _, e := range a.Files {
		size := e.Size
		f.Entries = append(f.Entries, entry{Name: e.Name, Path: path.Join(f.Dir, e.Name), Dir: e.Type == "dir",
			File: e.Type == "file", Target: e.Target, Size: &size})
	}
	return nil
}

// changeSandbox suspends, resumes or ends a sandbox of the visitor.
func changeSandbox(v *visit) error {
	c, id, to := v.newClient().OwnSandboxes(), v.r.PathValue("sandbox"), "/sessions"
	var err error
	switch v.r.PostForm.Get("action") {
	case "suspend":
		to = sandboxPage(id)
		_, err = c.SuspendSandbox(v.r.Context(), id)
	case "resume":
		to = sandboxPage(id)
		_, err = c.ResumeSandbox(v.r.Context(), id)
	case "end":
		if v.r.PostForm.Get("confirm") != id {
			return tool.Errorf(tool.Invalid, "to end the sandbox, write its id: nothing was changed")
		}
		err = c.EndSandbox(v.r.Context(), id)
	default:
		return tool.Errorf(tool.Invalid, "the form names no action: nothing was changed")
	}
	if err != nil {
		return ownError(err)
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// uploadToSandbox stores a file of the form in a folder of a sandbox.
func uploadToSandbox(v *visit) error {
	name, data, err := readUpload(v)
	if err != nil {
		return err
	}
	c, id, dir := v.newClient().OwnSandboxes(), v.r.PathValue("sandbox"), path.Clean("/"+v.r.URL.Query().Get("dir"))
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), sandboxPart)]
		data = data[len(part):]
		if _, err := c.UseSandbox(v.r.Context(), id, "write", api.SandboxOperation{Path: path.Join(dir, name),
			Base64: part, Append: !first}); err != nil {
			e := tool.AsError(ownError(err))
			if !first {
				return tool.Errorf(e.Kind, "%s: the file is incomplete", e.Msg)
			}
			return e
		}
	}
	http.Redirect(v.w, v.r, sandboxPage(id)+"?dir="+url.QueryEscape(dir), http.StatusSeeOther)
	return nil
}

// downloadFromSandbox answers with a file of a sandbox, to save. It reads the file in parts. If one
// can't be read, the browser sees that the file is incomplete.
func downloadFromSandbox(v *visit) error {
	name := path.Clean("/" + v.r.URL.Query().Get("path"))
	for offset := int64(0); ; {
		a, err := v.newClient().OwnSandboxes().UseSandbox(v.r.Context(), v.r.PathValue("sandbox"), "read",
			api.SandboxOperation{Path: name, Offset: &offset, Length: sandboxPart})
		if err == nil && offset == 0 && a.File != nil && a.File.Size > downloadBytes {
			return tool.Errorf(tool.Limit, "the file is larger than %d MiB: copy it on the command line, with "+
				"biplane sandboxes cp", downloadBytes>>20)
		}
		if err != nil && offset == 0 {
			return ownError(err)
		}
		if err != nil || offset > downloadBytes {
			v.server.cfg.Log.Warn("a download from a sandbox ended early", "err", err)
			panic(http.ErrAbortHandler)
		}
		data := a.Base64
		if data == nil {
			data = []byte(a.Text)
		}
		if offset == 0 {
			v.w.Header().Set("Content-Type", "application/octet-stream")
			nameDownload(v.w.Header(), path.Base(name))
		}
		if _, err := v.w.Write(data); err != nil || len(data) == 0 || a.Offset <= offset ||
			a.File != nil && a.Offset >= a.File.Size {
			return nil
		}
		offset = a.Offset
	}
}
