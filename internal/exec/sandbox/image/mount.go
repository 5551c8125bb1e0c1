package image

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
		if at := unescapeMount(string(fields[4])); strings.HasPrefix(at, real+"/") {
			return at, nil
		}
	}
	return "", nil
}

// unescapeMount returns a path of mountinfo, in which some characters are octal escapes.
func unescapeMount(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		if s[0] == '\\' && len(s) >= 4 {
			if n, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				s = s[4:]
				continue
			}
		}
		out.WriteByte(s[0])
		s = s[1:]
	}
	return out.String()
}
