package console

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	uploadPath  = "/sessions/{session}/upload"
	uploadBytes = 8 << 20 // of a file in a form; the API accepts larger ones
)

// readUpload returns the file of a form, and the last element of its name, which is the browser's.
func readUpload(v *visit) (name string, data []byte, err error) {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return "", nil, tool.Errorf(tool.Invalid, "the form has no file: nothing was changed")
	}
	part, err := parts.NextPart()
	if errors.Is(err, io.EOF) || err == nil && part.FormName() != "file" {
		return "", nil, tool.Errorf(tool.Invalid, "choose a file: nothing was changed")
	}
	if err == nil {
		data, err = io.ReadAll(part)
	}
	if err != nil {
		return "", nil, tool.Errorf(tool.Invalid, "the form can't be read: it is larger than %d MiB, or malformed",
			uploadBytes>>20)
	}
	name = path.Base("/" + strings.ReplaceAll(part.FileName(), "\\", "/"))
	if name == "/" || name == "." || name == ".." {
		return "", nil, tool.Errorf(tool.Invalid, "choose a file: nothing was changed")
	}
	return name, data, nil
}

// uploadFile stores a file of the form in a directory of a session.
func uploadFile(v *visit) error {
	name, data, err := readUpload(v)
	if err != nil {
		return err
	}
	session, dir := v.r.PathValue("session"), path.Clean("/"+v.r.URL.Query().Get("dir"))
	err = v.newClient().Sessions().WriteFile(v.r.Context(), session, path.Join(dir, name), bytes.NewReader(data))
	if err != nil {
		return ownError(err)
	}
	http.Redirect(v.w, v.r, "/sessions/"+url.PathEscape(session)+"?dir="+url.QueryEscape(dir), http.StatusSeeOther)
	return nil
}
