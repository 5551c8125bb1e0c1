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
output. If TO is a folder, the copy has the same name in it. Permissions are not copied. A copy that is
interrupted leaves no part of the file, and keeps the file that it would have replaced.`,
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
	to, err := findCopy(ctx, client, name, to, base)
	if err != nil {
		return err
	}
	buf := make([]byte, copyPart)
	n, err := io.ReadFull(in, buf)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // all of it fits into one request
		_, err = client.UseSandbox(ctx, name, "write", api.SandboxOperation{Path: to, Base64: buf[:n]})
		return err
	case err != nil:
		return usageError("cp: read %s: %v", file, err)
	}
	part := path.Join(path.Dir(to), "."+rand.Text()+".part")
	if err = writeParts(ctx, client, name, part, in, buf); err == nil {
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
// folder.
func findCopy(ctx context.Context, client api.SandboxClient, name, to, base string) (string, error) {
	folder := to == "" || strings.HasSuffix(to, "/")
	if !folder {
		v, err := client.UseSandbox(ctx, name, "stat", api.SandboxOperation{Path: to})
		if err != nil && !isMissing(err) {
			return "", err
		}
		folder = err == nil && v.File != nil && v.File.Type == "dir"
	}
	switch {
	case folder && base == "":
		return "", usageError("cp: %s:%s is a folder: name the file in it", name, to)
	case folder:
		return path.Join(to, base), nil
	}
	return to, nil
}

// writeParts writes buf, and then the rest of in, to a file of a sandbox.
func writeParts(ctx context.Context, client api.SandboxClient, name, to string, in io.Reader, buf []byte) error {
	for n, first := len(buf), true; ; first = false {
		if n > 0 {
			o := api.SandboxOperation{Path: to, Base64: buf[:n], Append: !first}
			if _, err := client.UseSandbox(ctx, name, "write", o); err != nil {
				return err
			}
		}
		if n < len(buf) {
			return nil
		}
		var err error
		n, err = io.ReadFull(in, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return usageError("cp: read: %v", err)
		}
	}
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
