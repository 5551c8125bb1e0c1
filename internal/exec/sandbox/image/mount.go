package image

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// findMount returns a place in dir at which something is mounted; "" if there is none, and on
// systems that don't list mounts in /proc.
func findMount(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo") // proc_pid_mountinfo(5)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(mounts) {
		fields := bytes.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := mountEscapes.Replace(string(fields[4])); strings.HasPrefix(at, real+"/") {
			return at, nil
		}
	}
	return "", nil
}

// mountEscapes replaces the escapes of mountinfo by the characters that they stand for.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
