package sink

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A File is a Sink that appends to a file. The file may be collected by another system, or be
// append-only (chattr +a). Each checkpoint is followed by an empty line. Split parses the file.
type File struct {
	Path string // its folder must exist
}

// tailBytes is how much of the file's end is read to find its last checkpoint.
const tailBytes = 64 << 10

// Name returns the kind of the sink and the file's path.
func (f *File) Name() string { return "file " + f.Path }

// Put appends c, and waits until it is on the disk. It does nothing if c is already the file's last
// checkpoint.
func (f *File) Put(_ context.Context, c Checkpoint) (err error) {
	unable := func(err error) error {
		return tool.Errorf(tool.Unavailable, "append to %s: %v: make the folder, or allow biplane to write there",
			f.Path, withoutPath(err))
	}
	if last, err := lastOf(f.Path); err != nil {
		return unable(err)
	} else if last == c.Text {
		return nil
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return unable(err)
	}
	text := strings.TrimRight(c.Text, "\n") + "\n\n"
	if _, err = io.WriteString(file, text); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return unable(err)
	}
	if dir, err := os.Open(filepath.Dir(f.Path)); err == nil { // a new file's name must be on the disk too
		_ = dir.Sync() // not every file system supports it
		_ = dir.Close()
	}
	return nil
}

// lastOf returns the last checkpoint of a file, or "" if there is none.
func lastOf(path string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailBytes), tailBytes))
	if err != nil {
		return "", err
	}
	all := SplitNotes(string(text))
	if len(all) == 0 {
		return "", nil
	}
	return all[len(all)-1], nil
}

// signed is the prefix of signature lines in a note (C2SP signed-note).
const signed = "— "

// SplitNotes returns the signed notes in a text of concatenated notes. It omits everything else.
func SplitNotes(text string) (notes []string) {
	var note strings.Builder
	signatures := 0
	for line := range strings.SplitSeq(text, "\n") {
		isSignature := strings.HasPrefix(line, signed)
		if signatures > 0 && !isSignature {
			notes = append(notes, note.String())
			note.Reset()
			signatures = 0
		}
		if isSignature {
			signatures++
		}
		if note.Len() > 0 || line != "" {
			note.WriteString(line + "\n")
		}
	}
	if signatures > 0 {
		notes = append(notes, note.String())
	}
	return notes
}

// withoutPath returns the cause of a file system error, without the path.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
