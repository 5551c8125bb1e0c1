package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/lab/stepper"
)

// changes are the system calls by which a process changes files. Of openat, only calls that may
// create a file count.
var changes = map[uint32]string{
	unix.SYS_PWRITE64: "pwrite64", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_RENAMEAT:  "renameat",
	unix.SYS_RENAMEAT2: "renameat2", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_LINKAT: "linkat", unix.SYS_OPENAT: "openat",
}

// stepping makes this process log each change to its data folder before making it, and die with
// SIGKILL at the change that the test selects.
func stepping() {
	cfg := stepper.Config{Log: os.Getenv("BIPLANE_TEST_STEPS")}
	if cfg.Log == "" {
		return
	}
	for n := range changes {
		c := stepper.Call{Number: n}
		if n == unix.SYS_OPENAT {
			c.Argument, c.Mask = 2, unix.O_CREAT
		}
		cfg.Calls = append(cfg.Calls, c)
	}
	memory, err := os.Open("/proc/self/mem")
	if err == nil {
		cfg.Last, err = strconv.Atoi(os.Getenv("BIPLANE_TEST_STEP"))
	}
	if err == nil {
		cfg.Names = fileChanges{os.Getenv("BIPLANE_TEST_FOLDER"), memory}
		err = stepper.LogSteps(cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "count the steps of this process:", err)
		os.Exit(2)
	}
}

// fileChanges describe the changes in a folder. The call's path is read from memory as a file: to
// the race detector, reading it directly is a race, although the caller waits.
type fileChanges struct {
	folder string
	memory *os.File
}

// DescribeCall implements stepper.Names.
func (c fileChanges) DescribeCall(call uint32, args [6]uint64) string {
	path := ""
	if call == unix.SYS_PWRITE64 || call == unix.SYS_FTRUNCATE {
		path, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", int32(args[0])))
	} else {
		b := make([]byte, unix.PathMax)
		n, _ := c.memory.ReadAt(b, int64(args[1])) // ends early where no memory follows
		path = unix.ByteSliceToString(b[:n])
	}
	rest, ok := strings.CutPrefix(path, c.folder+"/")
	if !ok {
		return ""
	}
	return changes[call] + " " + filepath.Clean(rest)
}
