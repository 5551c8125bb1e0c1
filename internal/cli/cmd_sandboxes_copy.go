package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func sandboxesCopyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "cp FROM TO",
		Short: "Copy a file into a sandbox or out of it",
		Long: `One of the two is NAME:PATH, a file of a sandbox. The other is a file here, or - for standard input or
output. If TO is a folder, the copy has the same name in it. A copy that fails or is interrupted leaves no
part of the file, and keeps the file that it would have replaced.

The permissions of FROM are not copied. A file that is replaced in a sandbox keeps its permissions; one that
is replaced here doesn't. A link in a sandbox is not replaced: name the file that it refers to. A link here is
replaced.`,
		Example: `  biplane sandboxes cp data.csv work:data.csv
  biplane sandboxes cp work:/tmp/out.png out.png`,
		Args: exactlyTwo("FROM", "TO", "one of which is NAME:PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, in := splitPlace(args[0])
			to, out := splitPlace(args[1])
			if (from == "") == (to == "") {
				return usageError("cp: one of FROM and TO is NAME:PATH: biplane sandboxes cp data.csv work:data.csv")
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				client := c.OwnSandboxes()
				if to != "" {
					return copyIn(ctx, client, a.readInput(ctx), in, to, out)
				}
				if out == "-" {
					return copyOut(ctx, client, from, in, a.Out)
				}
				if info, err := os.Stat(out); err == nil && info.IsDir() {
					out = filepath.Join(out, path.Base(in))
				}
				_, err := writeWhole(out, 0o644, func(w io.Writer) error { return copyOut(ctx, client, from, in, w) })
				return err
			})
		},
	}
	return c
}

// splitPlace splits NAME:PATH. name is empty for a file here.
func splitPlace(arg string) (name, file string) {
	name, file, ok := strings.Cut(arg, ":")
	if !ok || strings.ContainsRune(name, '/') {
		return "", arg
	}
	return name, file
}

// copyPart is how many bytes are copied at once.
const copyPart = 1 << 20

// copyIn copies a file, or in if it is -, into a sandbox.
func copyIn(ctx context.Context, client api.SandboxClient, in io.Reader, file, name, to string) error {
	base := filepath.Base(file)
	if file == "-" {
		base = ""
	} else {
		f, err := os.Open(file)
		if err != nil {
			return usageError("cp: %v", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return usageError("cp: %s is a folder: pack it first, such as with tar, and unpack it in the sandbox", file)
		}
		in = f
	}
	to, old, err := findCopy(ctx, client, name, to, base)
	if err != nil {
		return err
	}
	part := path.Join(path.Dir(to), "."+rand.Text()+".part")
	written, err := writeParts(ctx, client, name, part, in)
	if err == nil && old != nil && written != nil && written.Mode != old.Mode {
		if err = setPermissions(ctx, client, name, part, old.Mode); err != nil {
			err = fmt.Errorf("cp: the permissions of %s:%s can't be kept: %w", name, to, err)
		}
	}
	if err == nil {
		_, err = client.UseSandbox(ctx, name, "move", api.SandboxOperation{Path: part, To: to})
	}
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	if _, failure := client.UseSandbox(ctx, name, "remove", api.SandboxOperation{Path: part}); failure != nil &&
		!isMissing(failure) {
		return errors.Join(err, fmt.Errorf("%s:%s was not removed: %w", name, part, failure))
	}
	return err
}

// removeTime bounds how long the part of a file that was not copied may take to be removed.
const removeTime = 10 * time.Second

// findCopy returns the path of the copy of a file with a name: to itself, or below it if it is a
// folder. old is the file that the copy replaces, or nil.
func findCopy(ctx context.Context, client api.SandboxClient, name, to, base string) (
	file string, old *api.SandboxFile, err error) {
	folder := to == "" || strings.HasSuffix(to, "/")
	if !folder {
		v, err := client.UseSandbox(ctx, name, "stat", api.SandboxOperation{Path: to})
		switch {
		case err == nil:
			old = v.File
		case !isMissing(err):
			return "", nil, err
		}
		folder = old != nil && old.Type == "dir"
	}
	switch {
	case folder && base == "":
		return "", nil, usageError("cp: %s:%s is a folder: name the file in it", name, to)
	case folder:
		return findCopy(ctx, client, name, path.Join(to, base), "")
	case old != nil && old.Type == "link": // the copy would replace the link, not the file
		return "", nil, usageError("cp: %s:%s is a link to %s: name that instead", name, to, old.Target)
	case old != nil && old.Type != "file":
		return "", nil, usageError("cp: %s:%s is not a file", name, to)
	}
	return to, old, nil
}

// writeParts writes in to a file of a sandbox, and returns the file's description.
func writeParts(ctx context.Context, client api.SandboxClient, name, to string, in io.Reader) (
	file *api.SandboxFile, err error) {
	buf := make([]byte, copyPart)
	for first, last := true, false; !last; first = false {
		n, err := io.ReadFull(in, buf)
		last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return nil, usageError("cp: read: %v", err)
		}
		if n == 0 && !first {
			break
		}
		o := api.SandboxOperation{Path: to, Base64: buf[:n], Append: !first}
		v, err := client.UseSandbox(ctx, name, "write", o)
		if err != nil {
			return nil, err
		}
		file = v.File
	}
	return file, nil
}

// setPermissions sets the permissions of a file of a sandbox. There is no operation for that, so it
// runs chmod there.
func setPermissions(ctx context.Context, client api.SandboxClient, name, file string, mode uint32) error {
	o := api.SandboxOperation{Argv: []string{"chmod", strconv.FormatUint(uint64(mode), 8), "--", file}}
	v, err := client.UseSandbox(ctx, name, "run", o)
	if err == nil && exitLike(v.Exit) != nil {
		err = fmt.Errorf("chmod: %s", cleanLine(strings.TrimSpace(v.Stderr)))
	}
	return err
}

// copyOut copies a file of a sandbox.
func copyOut(ctx context.Context, client api.SandboxClient, name, file string, w io.Writer) error {
	for offset := int64(0); ; {
		o := api.SandboxOperation{Path: file, Offset: &offset, Length: copyPart}
		v, err := client.UseSandbox(ctx, name, "read", o)
		if err != nil {
			return err
		}
		data := v.Base64
		if data == nil && utf8.ValidString(v.Text) {
			data = []byte(v.Text)
		}
		if len(data) == 0 {
			return nil
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		offset = v.Offset
	}
}
