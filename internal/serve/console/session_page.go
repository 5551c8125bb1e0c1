package console

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

type sessionList struct {
	Sessions   []api.Session
	Sandboxes  []api.OwnSandbox
	SandboxBad string
}

// listSessions shows the sessions that the visitor may see.
func listSessions(v *visit) error {
	all, err := v.newClient().Sessions().List(v.r.Context())
	if err != nil {
		return ownError(err)
	}
	d := sessionList{Sessions: all}
	if v.mayUse("GET /me/sandboxes") {
		d.Sandboxes, err = v.newClient().OwnSandboxes().ListSandboxes(v.r.Context())
		if err != nil && tool.AsError(ownError(err)).Kind != tool.Unavailable {
			d.SandboxBad = problemOf(err)
		}
	}
	v.renderPage(http.StatusOK, "sessions.html", d)
	return nil
}

type sessionData struct {
	*api.Session
	Folder    *folder
	MayChange bool
}

// showSession shows a session and a directory of its files.
func showSession(v *visit) error {
	c, name := v.newClient(), v.r.PathValue("session")
	x, err := c.Sessions().Get(v.r.Context(), name)
	if err != nil {
		return ownError(err)
	}
	dir := path.Clean("/" + v.r.URL.Query().Get("dir"))
	d := sessionData{Session: x, MayChange: v.mayUse("POST /sessions/{session}/fork")}
	d.Folder = newFolder(dir, d.MayChange)
	d.Folder.Page = "/sessions/" + url.PathEscape(x.Name)
	all, err := c.Sessions().ListFiles(v.r.Context(), name, dir)
	if d.Folder.Bad = problemOf(err); len(all) > maxEntries {
		all, d.Folder.More = all[:maxEntries], len(all)-maxEntries
	}
	for _, e := range all {
		d.Folder.Entries = append(d.Folder.Entries, entry{Name: e.Name, Path: path.Join(dir, e.Name), Dir: e.Dir,
			File: !e.Dir})
	}
	v.renderPage(http.StatusOK, "session.html", d)
	return nil
}

// downloadFile answers with a file of a session, to save.
func downloadFile(v *visit) error {
	name := v.r.URL.Query().Get("path")
	return v.passOn("/sessions/"+url.PathEscape(v.r.PathValue("session"))+"/files", url.Values{"path": {name}},
		path.Base(path.Clean("/"+name)))
}

// changeSession suspends, resumes, forks or ends a session.
func changeSession(v *visit) error {
	c, name, f := v.newClient(), v.r.PathValue("session"), v.r.PostForm
	switch f.Get("action") {
	case "suspend", "resume":
		change := c.Sessions().Suspend
		if f.Get("action") == "resume" {
			change = c.Sessions().Resume
		}
		if _, err := change(v.r.Context(), name); err != nil {
			return ownError(err)
		}
		http.Redirect(v.w, v.r, "/sessions/"+url.PathEscape(name), http.StatusSeeOther)
	case "fork":
		copied, err := c.Sessions().Fork(v.r.Context(), name, strings.TrimSpace(f.Get("to")))
		if err != nil {
			return ownError(err)
		}
		http.Redirect(v.w, v.r, "/sessions/"+url.PathEscape(copied.Name), http.StatusSeeOther)
	case "end":
		if f.Get("confirm") != name {
			return tool.Errorf(tool.Invalid, "to end the session, write its name: nothing was changed")
		}
		if err := c.Sessions().End(v.r.Context(), name); err != nil {
			return ownError(err)
		}
		http.Redirect(v.w, v.r, "/sessions", http.StatusSeeOther)
	default:
		return tool.Errorf(tool.Invalid, "the form names no action: nothing was changed")
	}
	return nil
}
