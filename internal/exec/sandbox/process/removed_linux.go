package process

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A fileID identifies a file of a file system.
type fileID struct{ dev, ino uint64 }

// RemovedBytes returns how much the files occupy that were removed from the machine's folder, and
// that its processes still have open or mapped.
func (m *machine) RemovedBytes() (n int64) {
	var folder unix.Stat_t
	if err := unix.Stat(m.box.machine.Folder, &folder); err != nil {
		return 0 // it was removed, too
	}
	seen := map[fileID]bool{}
	for _, pid := range listProcesses(m.process.Pid) {
		for _, part := range []string{"fd", "map_files"} {
			n += removedBelow(fmt.Sprintf("/proc/%d/%s", pid, part), folder.Dev, seen)
		}
	}
	return n
}

// removedBelow returns how much the removed files of a file system occupy to which the links in a
// folder of /proc lead, and that were not seen.
func removedBelow(dir string, dev uint64, seen map[fileID]bool) (n int64) {
	d, err := os.Open(dir)
	if err != nil {
		return 0 // the process has ended
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(256)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Stat(filepath.Join(dir, name), &st) != nil || st.Dev != dev || st.Nlink > 0 ||
				st.Mode&unix.S_IFMT != unix.S_IFREG || seen[fileID{st.Dev, st.Ino}] {
				continue
			}
			seen[fileID{st.Dev, st.Ino}] = true
			n += st.Blocks * 512
		}
		if err != nil {
			return n
		}
	}
}
