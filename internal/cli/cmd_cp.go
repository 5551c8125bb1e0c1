package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

func cpCommand(a *app) *cobra.Command {
	var output string
	var recursive bool
	c := &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files into or out of a session",
		Long: `Copies a file, or with -r a folder, between this machine and a session. SRC or DST names a place in a
session as SESSION:PATH. Paths are those of programs: workspace/x, skills/x.ts, tools/x. If DST is an
existing folder, or ends with /, the copy keeps its name. SRC/. stands for the contents of a folder, and
- for standard input or output. Anything that is neither a file nor a folder is skipped, such as links;
the exit code is then 1.`,
		Example: `  biplane cp report.csv work:workspace/
  biplane cp -r ./data work:workspace/data
  biplane cp -r work:workspace/out .
  biplane cp work:result.json -
  echo hello | biplane cp - work:notes.txt`,
		Args: exactlyTwo("SRC", "DST", "of which one is SESSION:PATH"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for _, name := range (completer{a}).sessionNames(cmd.Context()) {
				if strings.HasPrefix(name, prefix) {
					out = append(out, name+":")
				}
			}
			return out, cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			src, dst := parsePlace(args[0]), parsePlace(args[1])
			switch {
			case src.session != "" && dst.session != "":
				return usageError(
					"cp copies between this machine and one session: copy to a file here first, or use a program")
			case src.session == "" && dst.session == "":
				return usageError("one of %s and %s must be in a session, as SESSION:PATH: %s",
					shortenLine(args[0], 60), shortenLine(args[1], 60), firstExample(cmd))
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				t := &transfer{app: a, ctx: ctx, client: client, recursive: recursive}
				err := t.copyPath(src, dst)
				if err != nil || dst.path == "-" && dst.session == "" {
					return err
				}
				err = a.printOutput(output, map[string]int64{"files": int64(t.files), "bytes": t.bytes,
					"left_out": int64(t.left)}, func(w io.Writer) {
					fmt.Fprintf(w, "%s, %s\n", text.Count(t.files, "file"), bytesText(t.bytes))
				})
				if err == nil && t.left > 0 {
					return failSilently(exitFailed)
				}
				return err
			})
		},
	}
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders and their contents")
	addOutput(c, &output)
	return c
}

// A location is a path on this machine or in a session.
type location struct {
	session string // empty for this machine
	path    string
}

// parsePlace parses SESSION:PATH. A string that starts like a path is one.
func parsePlace(s string) location {
	name, p, ok := strings.Cut(s, ":")
	if !ok || name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") || filepath.IsAbs(s) {
		return location{path: s}
	}
	if p == "" {
		p = "workspace"
	}
	return location{session: name, path: p}
}

// A transfer is the state of one run of cp.
type transfer struct {
	*app
	ctx       context.Context
	client    *api.Client
	recursive bool
	files     int
	bytes     int64
	left      int // number of files left out
}

// leaveOut reports that something is not copied, and counts it.
func (t *transfer) leaveOut(what, why string) {
	t.left++
	fmt.Fprintf(t.Err, "biplane: %s %s: left out\n", cleanLine(what), why)
}

func (t *transfer) copyPath(src, dst location) error {
	if dst.session != "" {
		return t.copyIn(src.path, dst)
	}
	return t.copyOut(src, dst.path)
}

// copyIn copies into a session.
func (t *transfer) copyIn(from string, dst location) error {
	if from == "-" {
		if strings.HasSuffix(dst.path, "/") {
			return usageError("standard input has no name: name the file, as in %s:notes.txt", dst.session)
		}
		return t.putReader(t.readInput(t.ctx), dst.session, dst.path)
	}
	info, err := os.Stat(from)
	switch {
	case err != nil:
		return usageError("cp: %v", err)
	case info.IsDir() && !t.recursive:
		return usageError("%s is a folder: copy it with -r", from)
	case !info.IsDir() && !info.Mode().IsRegular():
		return usageError("%s is neither a file nor a folder (%s): to copy what it yields, pipe it in with -",
			from, info.Mode().Type())
	}
	to := dst.path
	at, err := t.client.Sessions().StatFile(t.ctx, dst.session, to)
	there := err == nil && at.Dir
	if err != nil && !isMissing(err) {
		return err
	}
	if (there || strings.HasSuffix(to, "/")) && !(info.IsDir() && contentsOnly(from)) {
		abs, err := filepath.Abs(from)
		if err != nil {
			return usageError("cp: %v", err)
		}
		to = path.Join(to, filepath.Base(abs))
		if !there && !info.IsDir() {
			if err := t.makeDirectory(dst.session, path.Dir(to)); err != nil {
				return err
			}
		}
	}
	if !info.IsDir() {
		return t.putFile(from, os.Open, dst.session, to)
	}
	return t.putTree(from, dst.session, to)
}

// isMissing reports whether err means that the file or the session doesn't exist.
func isMissing(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Kind == api.NotFound
}

// contentsOnly reports whether a path means the contents of a folder.
func contentsOnly(p string) bool {
	return p == "." || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, string(filepath.Separator)+".")
}

// putTree copies a folder into a session.
func (t *transfer) putTree(from, session, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return usageError("cp: %v", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		at := path.Join(to, p)
		switch {
		case err != nil:
			return usageError("cp: %v", err)
		case d.IsDir():
			return t.makeDirectory(session, at)
		case !d.Type().IsRegular():
			t.leaveOut(filepath.Join(from, p), "is no file")
			return nil
		}
		return t.putFile(p, root.Open, session, at)
	})
}

// makeDirectory creates a directory in a session, with its parents. It also accepts ./workspace and
// ./skills, which always exist.
func (t *transfer) makeDirectory(session, at string) error {
	return t.client.Sessions().ChangeFile(t.ctx, session, api.FileOp{Op: "mkdir", Path: at, Recursive: true})
}

func (t *transfer) putFile(name string, open func(string) (*os.File, error), session, to string) error {
	f, err := open(name)
	if err != nil {
		return usageError("cp: %v", err)
	}
	defer f.Close()
	return t.putReader(f, session, to)
}

func (t *transfer) putReader(r io.Reader, session, to string) error {
	n := &countingReader{Reader: r}
	if err := t.client.Sessions().WriteFile(t.ctx, session, to, n); err != nil {
		return err
	}
	t.files++
	t.bytes += n.n
	return nil
}

// countingReader counts the bytes read.
type countingReader struct {
	io.Reader
	n int64
}

// Read reads from Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// copyOut copies out of a session.
func (t *transfer) copyOut(src location, to string) error {
	at, err := t.client.Sessions().StatFile(t.ctx, src.session, src.path)
	switch {
	case err != nil:
		return err
	case at.Dir && to == "-":
		return usageError("%s is a directory: standard output takes one file", cleanLine(src.path))
	case at.Dir && !t.recursive:
		return usageError("%s is a directory: copy it with -r", cleanLine(src.path))
	case to == "-":
		return t.client.Sessions().ReadFile(t.ctx, src.session, src.path, t.Out)
	}
	info, err := os.Stat(to)
	there := err == nil && info.IsDir()
	base := path.Base(path.Clean("/" + src.path))
	if base == "/" {
		return usageError("%s is the root of the session's files: copy %s:workspace, :skills or :tools",
			cleanLine(src.path), src.session)
	}
	if (there || strings.HasSuffix(to, "/") || strings.HasSuffix(to, string(filepath.Separator))) &&
		!(at.Dir && contentsOnly(src.path)) {
		if !there {
			if err := os.MkdirAll(to, 0o777); err != nil {
				return &api.Error{Kind: api.Unavailable, Message: "cp: " + err.Error()}
			}
		}
		to = filepath.Join(to, base)
	}
	if at.Dir {
		return t.getTree(src, to)
	}
	size, err := writeWhole(to, 0o644, func(w io.Writer) error {
		return t.client.Sessions().ReadFile(t.ctx, src.session, src.path, w)
	})
	if err != nil {
		return err
	}
	t.files, t.bytes = 1, size
	return nil
}

// getTree copies a directory of a session into a folder. Links in the folder can't lead it
// elsewhere.
func (t *transfer) getTree(src location, to string) error {
	unable := func(err error) error { return &api.Error{Kind: api.Unavailable, Message: "cp: " + err.Error()} }
	if err := os.MkdirAll(to, 0o777); err != nil {
		return unable(err)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return unable(err)
	}
	defer root.Close()
	return t.getAll(root, src, ".")
}

func (t *transfer) getAll(root *os.Root, src location, below string) error {
	items, err := t.client.Sessions().ListFiles(t.ctx, src.session, src.path)
	if err != nil {
		return err
	}
	for _, i := range items {
		in := location{src.session, path.Join(src.path, i.Name)}
		at := filepath.Join(below, i.Name)
		if i.Name == "." || !filepath.IsLocal(i.Name) || strings.Contains(i.Name, "/") {
			t.leaveOut(in.path, "is not a valid file name on this system")
			continue
		}
		if i.Dir {
			err := root.Mkdir(at, 0o777)
			if err == nil || errors.Is(err, fs.ErrExist) {
				err = t.getAll(root, in, at)
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := t.getFile(root, in, at); err != nil {
			return err
		}
	}
	return nil
}

func (t *transfer) getFile(root *os.Root, src location, at string) error {
	f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return &api.Error{Kind: api.Unavailable, Message: "cp: " + err.Error()}
	}
	err = t.client.Sessions().ReadFile(t.ctx, src.session, src.path, f)
	if info, e := f.Stat(); e == nil {
		t.bytes += info.Size()
	}
	t.files++
	if e := f.Close(); err == nil && e != nil {
		err = &api.Error{Kind: api.Unavailable, Message: "cp: " + e.Error()}
	}
	return err
}
