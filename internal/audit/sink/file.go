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

// A File is a Sink that appends to a file, which another system collects, or which only can be
// appended to (chattr +a). Checkpoints stand one after the other, each ended by an empty line;
// Split reads them.
type File struct {
	Path string // its folder must exist
}

// tailBytes is how much of the file's end is looked at for what is there already.
const tailBytes = 64 << 10

// Name is the file's path.
func (f *File) Name() string { return "file " + f.Path }

// Put appends c, and waits until it is on the disk. One that is the file's last already is not
// written again.
func (f *File) Put(_ context.Context, c Checkpoint) (err error) {
	unable := func(err error) error {
		return tool.Errorf(tool.Unavailable, "append to %s: %v: make the folder, or allow biplane to write there", f.Path, pathless(err))
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
		_ = dir.Sync() // not every file system can
		_ = dir.Close()
	}
	return nil
}

// lastOf gives the last checkpoint of a file; empty where there is none.
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
	all := Split(string(text))
	if len(all) == 0 {
		return "", nil
	}
	return all[len(all)-1], nil
}

// signed is how the lines of a note begin that are signatures (C2SP signed-note).
const signed = "— "

// Split gives the signed notes of a text that holds one after the other. What is none is left out.
func Split(text string) (notes []string) {
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

// pathless is the cause of an error of the file system, without the path that it names.
func pathless(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
