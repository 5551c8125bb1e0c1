package owned

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
)

// MemoryReserve is how much memory of the host must be left. Otherwise sandboxes in standby lose
// theirs.
const MemoryReserve = 512 << 20

// relieveMemory reclaims memory of frozen sandboxes while it is scarce, and then ends them. The
// principal whose frozen sandboxes use the most loses first, and of its sandboxes the one that was
// unused for longest.
func (ms *machines) relieveMemory() {
	all, used := ms.listFrozen(), map[*box]int64{}
	for _, b := range all {
		used[b] = ms.memoryOf(b)
	}
	for _, shrink := range []bool{true, false} {
		tried := map[*box]bool{}
		for {
			b, total := ms.findLargest(all, used, tried)
			if b == nil || !IsScarce(ms.cfg.Host, total, ms.cfg.Limits.TotalMemory) {
				break
			}
			tried[b] = true
			ms.mu.Lock()
			shrunk := b.shrunk
			ms.mu.Unlock()
			switch {
			case shrink && !shrunk:
				ms.shrinkBox(b)
			case !shrink:
				ms.stopBox(b, func() bool { return b.frozen },
					fmt.Sprintf("memory was scarce (sandboxes in standby use at most %s, and %s "+
						"of the host's memory stay free)", text.Size(ms.cfg.Limits.TotalMemory),
						text.Size(MemoryReserve)))
			default:
				continue
			}
			used[b] = ms.memoryOf(b)
		}
	}
}

// listFrozen returns the frozen sandboxes, the one that was unused for longest first.
func (ms *machines) listFrozen() (out []*box) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, b := range ms.by {
		if b.frozen && b.users == 0 {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *box) int { return a.since.Compare(b.since) })
	return out
}

// findLargest returns, of the sandboxes in all that are still frozen, one that was not tried: the
// first of the principal whose frozen sandboxes use the most memory. It is nil if there is none. It
// also returns how much memory all of them use.
func (ms *machines) findLargest(all []*box, used map[*box]int64, tried map[*box]bool) (found *box, total int64) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	isFrozen := func(b *box) bool { return b.frozen && b.users == 0 }
	each := map[string]int64{}
	for _, b := range all {
		if isFrozen(b) {
			each[b.rec.Owner] += used[b]
			total += used[b]
		}
	}
	for _, b := range all {
		if isFrozen(b) && !tried[b] && (found == nil || each[b.rec.Owner] > each[found.rec.Owner]) {
			found = b
		}
	}
	return found, total
}

// memoryOf returns how much memory the processes of a sandbox use.
func (ms *machines) memoryOf(b *box) int64 {
	ms.mu.Lock()
	m := b.machine
	ms.mu.Unlock()
	if m == nil {
		return 0
	}
	return m.UsedMemory()
}

// IsScarce reports whether sandboxes in standby, which use some memory, should use less: more than
// most, or too little of the host's is left.
func IsScarce(h Host, used, most int64) bool {
	return used > 0 && (used > most || h.AvailableMemory() < MemoryReserve)
}

// ThisHost returns the host that this process runs on.
func ThisHost() Host { return system{} }

// system is the Host that this process runs on.
type system struct{}

// AvailableMemory returns the memory that is left, or a large number if that is unknown.
func (system) AvailableMemory() int64 {
	const unknown = 1 << 62
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return unknown
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return unknown
}
