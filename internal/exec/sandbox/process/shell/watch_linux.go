package shell

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxWatchers = 16   // watched folders
	maxWatched  = 4096 // folders below each
	maxEvents   = 4096 // events of each that are kept
)

// A watcherTable has the watched folders.
type watcherTable struct {
	mu  sync.Mutex
	all []*watcher // in the order of last use
}

// A watcher collects the changes below a folder.
type watcher struct {
	root  string
	queue *os.File // of the system (inotify)
	start error    // why it can't watch
	ready sync.Once

	mu      sync.Mutex
	folders map[int32]string // by the system's number
	events  []service.Event  // the newest
	count   int64            // events so far
	lost    int64            // events before this one may be missing
	more    chan struct{}    // closed, and replaced, after an event
}

// watchFiles returns the changes of files below a folder since an offset, and waits if there are
// none. The first call begins to watch.
func (s *steward) watchFiles(st *stream, q *service.Request) (*service.Reply, error) {
	w := s.watchers.useWatcher(placeOf(q.Path))
	w.ready.Do(func() { w.start = w.beginWatching() })
	if w.start != nil {
		s.watchers.removeWatcher(w)
		return nil, w.start
	}
	timer := time.NewTimer(q.Wait)
	defer timer.Stop()
	gone := st.awaitHangup()
	for late := q.Wait <= 0; ; {
		r, more := w.readFrom(q.Offset)
		if late || len(r.Events) > 0 || r.Lost {
			return r, nil
		}
		select {
		case <-more:
		case <-timer.C:
			late = true
		case <-gone:
			return r, nil
		}
	}
}

// useWatcher returns the watcher of a folder. When there are too many, the one that was unused for
// longest ends.
func (t *watcherTable) useWatcher(root string) *watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(w *watcher) bool { return w.root == root })
	if i >= 0 {
		w := t.all[i]
		t.all = append(slices.Delete(t.all, i, i+1), w)
		return w
	}
	if len(t.all) >= maxWatchers {
		closeFiles(t.all[0].queue)
		t.all = slices.Delete(t.all, 0, 1)
	}
	w := &watcher{root: root, folders: map[int32]string{}, more: make(chan struct{})}
	t.all = append(t.all, w)
	return w
}

// removeWatcher removes a watcher that could not begin.
func (t *watcherTable) removeWatcher(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(o *watcher) bool { return o == w })
}

// beginWatching begins to collect changes.
func (w *watcher) beginWatching() error {
	info, err := os.Stat(w.root)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return tool.Errorf(tool.Invalid, "%s is not a folder", w.root)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	w.queue = os.NewFile(uintptr(fd), "inotify")
	if err := w.addFolder(w.root); err != nil {
		return errors.Join(err, w.queue.Close())
	}
	go w.collectEvents()
	return nil
}

// addFolder watches a folder and those below it.
func (w *watcher) addFolder(root string) error {
	conn, err := w.queue.SyscallConn()
	if err != nil {
		return err
	}
	const what = unix.IN_CREATE | unix.IN_CLOSE_WRITE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // removed meanwhile
		}
		var id int
		if cerr := conn.Control(func(fd uintptr) { id, err = unix.InotifyAddWatch(int(fd), path, what) }); cerr != nil {
			return cerr
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES):
			return nil
		case err != nil:
			return err
		case len(w.folders) >= maxWatched:
			return tool.Errorf(tool.Limit, "%s has more than %d folders: watch one below it", w.root, maxWatched)
		}
		w.folders[int32(id)] = path
		return nil
	})
}

// collectEvents reads the system's events until the queue is closed.
func (w *watcher) collectEvents() {
	buf := make([]byte, readSize)
	for {
		n, err := w.queue.Read(buf)
		if err != nil {
			return
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			raw := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			name := strings.TrimRight(string(buf[at:min(at+int(raw.Len), n)]), "\x00")
			at += int(raw.Len)
			w.addEvent(raw.Wd, raw.Mask, name)
		}
	}
}

// addEvent adds an event of the system.
func (w *watcher) addEvent(folder int32, mask uint32, name string) {
	w.mu.Lock()
	dir, known := w.folders[folder]
	w.mu.Unlock()
	path := filepath.Join(dir, name)
	e := service.Event{What: "changed", Dir: mask&unix.IN_ISDIR != 0}
	switch {
	case mask&unix.IN_Q_OVERFLOW != 0:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lost = w.count + 1
		w.count++
		w.events = nil
		w.signalChange()
		return
	case mask&unix.IN_IGNORED != 0:
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.folders, folder)
		return
	case !known || name == "":
		return
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		e.What = "created"
		if e.Dir {
			_ = w.addFolder(path) // more folders than can be watched: they are left out
		}
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		e.What = "removed"
	}
	if rel, err := filepath.Rel(w.root, path); err == nil {
		e.Path = rel
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	w.count++
	if over := len(w.events) - maxEvents; over > 0 {
		w.events = append(w.events[:0], w.events[over:]...)
	}
	w.signalChange()
}

// signalChange wakes the operations that wait. w.mu is held.
func (w *watcher) signalChange() {
	close(w.more)
	w.more = make(chan struct{})
}

// readFrom returns the events from an offset, and a channel that is closed when there are more.
func (w *watcher) readFrom(offset int64) (*service.Reply, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.count - int64(len(w.events))
	r := &service.Reply{Offset: w.count, Events: []service.Event{}}
	r.Lost = offset > w.count || offset < max(first, w.lost)
	if !r.Lost {
		r.Events = slices.Clone(w.events[offset-first:])
	}
	return r, w.more
}
