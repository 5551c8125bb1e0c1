package entry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxPacked is the maximum size of packed files, in bytes.
const maxPacked = 64 << 20

// A packedFile is a file in the first line of packed files.
type packedFile struct {
	Path string `json:"path"`
	Size int    `json:"size"`
}

// PackFiles returns files by their paths below the agent's folder as one text: a line of JSON that
// lists them, and then their contents.
func PackFiles(files map[string][]byte) ([]byte, error) {
	var list []packedFile
	var contents []byte
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, packedFile{path, len(files[path])})
		contents = append(contents, files[path]...)
	}
	line, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return slices.Concat(line, []byte("\n"), contents), nil
}

// unpackFiles writes packed files below a folder. The descriptor is shared by all sandboxes, so it
// has no position of its own.
func unpackFiles(dir string, fd int) error {
	packed, err := io.ReadAll(io.NewSectionReader(os.NewFile(uintptr(fd), "files"), 0, maxPacked))
	if err != nil {
		return fmt.Errorf("read the agent's files: %w", err)
	}
	line, contents, _ := bytes.Cut(packed, []byte("\n"))
	var list []packedFile
	if err := json.Unmarshal(line, &list); err != nil {
		return fmt.Errorf("read the list of the agent's files: %w", err)
	}
	for _, f := range list {
		if f.Size < 0 || f.Size > len(contents) {
			return fmt.Errorf("read the agent's files: %s is incomplete", f.Path)
		}
		path := filepath.Join(dir, filepath.Join("/", f.Path)) // below dir
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, contents[:f.Size], 0o644); err != nil {
			return err
		}
		contents = contents[f.Size:]
	}
	return nil
}
