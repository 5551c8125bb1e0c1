package cli

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/atomicfile"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/registry"
)

func registrySignCommand(a *app) *cobra.Command {
	var key, output string
	c := &cobra.Command{
		Use:   "sign FILE",
		Short: "Sign a list of approved servers",
		Long: `Checks a list of approved servers, and writes a signature to it. Raise its version with every change:
Biplane refuses a list that is older than the last one that it accepted, or that differs from one of the
same version. Valid signatures of other keys are kept.`,
		Example: "  biplane registry sign approved.json --key team.key",
		Args:    exactlyOne("FILE", "a list of approved servers"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireFlags(cmd, "key"); err != nil {
				return err
			}
			private, err := registry.LoadKey(key)
			if err != nil {
				return usageError("%s", err)
			}
			before, err := os.ReadFile(args[0])
			if err != nil {
				return usageError("the list: %s", err)
			}
			after, list, err := registry.SignText(before, private)
			if err != nil {
				return usageError("%s: %s", args[0], err)
			}
			if err := replaceFile(args[0], before, after); err != nil {
				return err
			}
			signer := registry.FormatKey(private.Public().(ed25519.PublicKey))
			r := map[string]string{"file": args[0], "list": list.Name, "version": fmt.Sprint(list.Version),
				"key": signer}
			return a.printOutput(output, r, func(w io.Writer) {
				fmt.Fprintf(w, "signed %s: %s, version %d, %s, by %s\n", cleanLine(args[0]), cleanLine(list.Name),
					list.Version, text.Count(len(list.Servers), "server"), signer)
			})
		},
	}
	c.Flags().StringVar(&key, "key", "", "the `file` with the private key")
	addOutput(c, &output)
	return c
}

// replaceFile replaces the text of an existing file as a whole.
func replaceFile(path string, before, after []byte) error {
	if bytes.Equal(before, after) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, after, info.Mode().Perm())
}

func registryKeygenCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a key that signs lists of approved servers",
		Long: `Writes a new private key to a file that only the user can read (Ed25519, PKCS #8), and prints the public
key for the configuration (registry.key). Keep the private key where the list is made, and nowhere else.`,
		Example: "  biplane registry keygen team.key",
		Args:    exactlyOne("FILE", "the file for the private key"),
		RunE: func(_ *cobra.Command, args []string) error {
			private, public, err := registry.GenerateKey()
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return &api.Error{Kind: api.Conflict,
					Message: fmt.Sprintf("%s exists and was not changed: choose another file", args[0])}
			} else if err != nil {
				return usageError("the private key can't be written: %s", err)
			}
			_, err = f.Write(private)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			r := map[string]string{"file": args[0], "key": registry.FormatKey(public)}
			return a.printOutput(output, r, func(w io.Writer) {
				fmt.Fprintf(w, "wrote %s\nkey: %s\n", cleanLine(args[0]), registry.FormatKey(public))
			})
		},
	}
	addOutput(c, &output)
	return c
}
