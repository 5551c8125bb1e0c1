package web

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ReadFile returns the text of a regular file below a folder, of at most the given number of bytes.
func ReadFile(folder, name string, most int) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return ReadAtMost(f, most)
}

// ReadAtMost returns all of r, or an error if that is more than the given number of bytes.
func ReadAtMost(r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("it has more than %d MiB", most>>20)
	}
	return text, err
}
