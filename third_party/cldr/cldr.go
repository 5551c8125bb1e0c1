// Package cldr holds what the embedded JavaScript engine knows of locales and time zones, by the Unicode Common Locale Data
// Repository and the IANA time zone database.
package cldr

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
	"sync"
)

//go:embed *.txt
var files embed.FS

// A table has the lines of all files by the file's name without its ending, a slash, and the line's first word, in lower case.
type table struct {
	lines map[string]line
	sum   string
}

type line struct{ head, rest string }

var load = sync.OnceValue(func() table {
	t, h := table{lines: map[string]line{}}, sha256.New()
	names, _ := fs.Glob(files, "*.txt")
	for _, name := range names {
		b, _ := files.ReadFile(name)
		_, _ = h.Write(b) // never fails
		for l := range strings.Lines(string(b)) {
			if head, rest, ok := strings.Cut(strings.TrimSuffix(l, "\n"), " "); ok {
				t.lines[strings.ToLower(strings.TrimSuffix(name, ".txt")+"/"+head)] = line{head, rest}
			}
		}
	}
	t.sum = hex.EncodeToString(h.Sum(nil))
	return t
})

// Line returns what follows the first word of a line, and that word as it is written. The key is the name of a file
// without its ending, a slash, and the word, in any case.
func Line(key string) (head, rest string, ok bool) {
	l, ok := load().lines[strings.ToLower(key)]
	return l.head, l.rest, ok
}

// Sum returns the SHA-256 sum of all data, in hexadecimal digits.
func Sum() string { return load().sum }
