package shell

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// placeOf returns the path of a file that the host names. All paths of the sandbox are allowed: the
// agent has the rights of the sandbox's programs, and no others.
func placeOf(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(workFolder, path)
	}
	return filepath.Clean(path)
}

// openRegular opens a regular file. Others, such as pipes, could block the agent.
func openRegular(path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = tool.Errorf(tool.Invalid, "%s is a folder", path)
	} else if err == nil && !info.Mode().IsRegular() {
		err = tool.Errorf(tool.Invalid, "%s is not a file", path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// readPart reads a part of a file.
func readPart(q *service.Request) (*service.Reply, error) {
	f, info, err := openRegular(placeOf(q.Path), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	offset := q.Offset
	if offset < 0 { // from the end
		offset = max(info.Size()+offset, 0)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, offset, partLength(q.Length)))
	if err != nil {
		return nil, err
	}
	file := describeFile(filepath.Base(f.Name()), info)
	return &service.Reply{Data: data, Offset: offset + int64(len(data)), File: &file}, nil
}

// writePart writes a file, or a part of it.
func writePart(q *service.Request) (*service.Reply, error) {
	path := placeOf(q.Path)
	flags := os.O_WRONLY | os.O_CREATE
	switch {
	case q.Truncate:
		flags |= os.O_TRUNC
	case q.Offset < 0:
		flags |= os.O_APPEND
	}
	if q.Recursive {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
	}
	f, _, err := openRegular(path, flags)
	if err != nil {
		return nil, err
	}
	if q.Truncate || q.Offset < 0 {
		_, err = f.Write(q.Data)
	} else {
		_, err = f.WriteAt(q.Data, q.Offset)
	}
	info, serr := f.Stat()
	if err := errors.Join(err, serr, f.Close()); err != nil {
		return nil, err
	}
	file := describeFile(filepath.Base(path), info)
	return &service.Reply{File: &file}, nil
}

// listFolder lists a folder, or all that is below it.
func listFolder(q *service.Request) (*service.Reply, error) {
	root := placeOf(q.Path)
	r := &service.Reply{Files: []service.File{}}
	if info, err := os.Stat(root); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, tool.Errorf(tool.Invalid, "%s is not a folder", root)
	}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case path == root && err != nil:
			return err
		case path == root:
			return nil
		case err != nil:
			return nil // it was removed, or may not be read
		case len(r.Files) >= service.MaxEntries:
			r.Clipped = true
			return fs.SkipAll
		}
		if info, err := e.Info(); err == nil {
			file := describeFile(strings.TrimPrefix(strings.TrimPrefix(path, root), "/"), info)
			if file.Type == "link" {
				file.Target, _ = os.Readlink(path) // it may have been removed
			}
			r.Files = append(r.Files, file)
		}
		if e.IsDir() && !q.Recursive {
			return fs.SkipDir
		}
		return nil
	})
	return r, err
}

// statFile describes a file or a folder.
func statFile(q *service.Request) (*service.Reply, error) {
	path := placeOf(q.Path)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	file := describeFile(filepath.Base(path), info)
	if file.Type == "link" {
		file.Target, _ = os.Readlink(path)
	}
	return &service.Reply{File: &file}, nil
}

// removeFile removes a file, or a folder with its content.
func removeFile(q *service.Request) (*service.Reply, error) {
	path := placeOf(q.Path)
	if path == workFolder || path == "/" {
		return nil, tool.Errorf(tool.Invalid, "%s can't be removed: name what is in it", path)
	}
	if !q.Recursive {
		return &service.Reply{}, os.Remove(path)
	}
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	return &service.Reply{}, os.RemoveAll(path)
}

func describeFile(name string, info fs.FileInfo) service.File {
	f := service.File{Name: name, Type: "other", Size: info.Size(), Modified: info.ModTime().UTC(),
		Mode: uint32(info.Mode().Perm())}
	switch {
	case info.Mode().IsRegular():
		f.Type = "file"
	case info.IsDir():
		f.Type = "dir"
	case info.Mode()&fs.ModeSymlink != 0:
		f.Type = "link"
	}
	return f
}
