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

// uploadFile stores a file of the form in a directory of a session.
func uploadFile(s *Server, v *visit) error {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return tool.Errorf(tool.Invalid, "the form has no file: nothing was changed")
	}
	part, err := parts.NextPart()
	if errors.Is(err, io.EOF) || err == nil && part.FormName() != "file" {
		return tool.Errorf(tool.Invalid, "choose a file: nothing was changed")
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(part)
	}
	if err != nil {
		return tool.Errorf(tool.Invalid, "the form can't be read: it is larger than %d MiB, or malformed",
			uploadBytes>>20)
	}
	return storeFile(s, v, path.Clean("/"+v.r.URL.Query().Get("dir")), part.FileName(), data)
}

// storeFile writes a file with the last element of a name, which is the browser's.
func storeFile(s *Server, v *visit, dir, name string, data []byte) error {
	name = path.Base("/" + strings.ReplaceAll(name, "\\", "/"))
	if name == "/" || name == "." || name == ".." {
		return tool.Errorf(tool.Invalid, "choose a file: nothing was changed")
	}
	session := v.r.PathValue("session")
	if err := s.clientOf(v).WriteFile(v.r.Context(), session, path.Join(dir, name), bytes.NewReader(data)); err != nil {
		return ownError(err)
	}
	http.Redirect(v.w, v.r, "/sessions/"+url.PathEscape(session)+"?dir="+url.QueryEscape(dir), http.StatusSeeOther)
	return nil
}
