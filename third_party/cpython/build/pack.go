//go:build ignore

// Pack makes an archive of a folder, the same bytes every time: go run pack.go FOLDER FILE.
package main

import (
	"archive/zip"
	"compress/flate"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out, err := os.Create(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	w := zip.NewWriter(out)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	err = filepath.WalkDir(os.Args[1], func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(os.Args[1], path)
		name = filepath.ToSlash(name)
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if zone, ok := strings.CutPrefix(name, "timezones/"); ok { // other spellings of the same, and tables
			if !strings.HasPrefix(string(b), "TZif") || strings.HasPrefix(zone, "right/") || strings.HasPrefix(zone, "posix/") {
				return nil
			}
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err == nil {
			_, err = f.Write(b)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}
