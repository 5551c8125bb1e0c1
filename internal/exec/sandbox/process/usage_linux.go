package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ, which is 100 on all architectures here.
const clockTick = time.Second / 100

// processTime returns the CPU time of a process and of its ended children, or 0 if unknown.
func processTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(b, []byte(") ")) // ends the name, which may contain anything
	if i := bytes.LastIndex(b, []byte(") ")); found && i >= 0 {
		rest = b[i+2:]
	}
	f := strings.Fields(string(rest))
	var total time.Duration
	for i := 11; i <= 14 && i < len(f); i++ { // utime, stime, cutime, cstime of proc(5)
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0
		}
		total += time.Duration(n) * clockTick
	}
	return total
}

// usedMemory returns the memory that the sandbox uses, in bytes, or 0 if unknown.
func (b *box) usedMemory() int64 {
	if b.group.memory == "" {
		return 0
	}
	name := "/memory.usage_in_bytes"
	if b.group.unified {
		name = "/memory.current"
	}
	data, err := os.ReadFile(b.group.memory + name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
