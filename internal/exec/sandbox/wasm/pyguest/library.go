package pyguest

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/third_party/cpython"
)

// libraryRoot is the library's directory in the guest's file system.
const libraryRoot = "/lib"

// A Library is the read-only directory /lib of all guests: the standard library's compiled modules,
// the time zones, and the runtime's own modules. It is read on first use. It is safe for concurrent
// use.
type Library struct {
	once sync.Once
	dirs map[string][]entry // by path, without a leading '/'; entries are sorted

	mu    sync.Mutex
	files map[string]*libraryFile
}

// An entry is a file in a directory.
type entry struct {
	Name string `json:"name"`
	Dir  bool   `json:"dir"`
}

// A libraryFile is a file that is unpacked on first read: the whole library is 10 MB.
type libraryFile struct {
	packed *zip.File
	data   []byte
	size   int64
}

// NewLibrary returns the library of the standard modules and this package's: _biplane, and the
// replacements in lib for modules that can't work here.
func NewLibrary() *Library { return &Library{} }

// open reads the library's directory. Modules that can't be read are omitted.
func (l *Library) open() {
	l.once.Do(func() {
		l.dirs, l.files = map[string][]entry{}, map[string]*libraryFile{}
		if r, err := zip.NewReader(bytes.NewReader(cpython.Library), int64(len(cpython.Library))); err == nil {
			for _, f := range r.File {
				at := "lib/python3.13/" + f.Name
				if strings.HasPrefix(f.Name, "timezones/") {
					at = "lib/" + f.Name
				}
				l.add(at, &libraryFile{packed: f, size: int64(f.UncompressedSize64)})
			}
		}
		_ = fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(sources, name)
			l.add("lib/python3.13/"+strings.TrimPrefix(name, "lib/"), &libraryFile{data: b, size: int64(len(b))})
			return err
		})
		for _, d := range l.dirs {
			sort.Slice(d, func(i, j int) bool { return d[i].Name < d[j].Name })
		}
	})
}

// list returns the entries of a directory.
func (l *Library) list(name string) []entry {
	l.open()
	return l.dirs[name]
}

// add adds a file and the directories above it.
func (l *Library) add(name string, f *libraryFile) {
	l.files[name] = f
	for e := (entry{Name: path.Base(name)}); ; e = (entry{Name: path.Base(name), Dir: true}) {
		name = path.Dir(name)
		_, known := l.dirs[name]
		l.dirs[name] = append(l.dirs[name], e)
		if known || name == "lib" {
			return
		}
	}
}

// stat returns the metadata of name, a clean path without a leading '/'.
func (l *Library) stat(name string) (dir bool, size int64, ok bool) {
	l.open()
	if _, ok := l.dirs[name]; ok {
		return true, 0, true
	}
	if f := l.files[name]; f != nil {
		return false, f.size, true
	}
	return false, 0, false
}

// read returns the content of a file.
func (l *Library) read(name string) ([]byte, bool) {
	l.open()
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[name]
	if f == nil {
		return nil, false
	}
	if f.data == nil {
		r, err := f.packed.Open()
		if err != nil {
			return nil, false
		}
		defer r.Close()
		if f.data, err = io.ReadAll(r); err != nil {
			return nil, false
		}
	}
	return f.data, true
}
