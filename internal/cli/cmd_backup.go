package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

func backupCommand(a *app) *cobra.Command {
	var output, passphrase string
	var recipients []string
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write an encrypted copy of the data folder",
		Long: `Writes a copy of the data folder to a new file, as of one moment, also while a process uses the folder.
It is encrypted and authenticated in the format of age: with a passphrase, which is the first line of a
file, or for recipients (age1...), whose keys age-keygen makes. It has the folder's key, unless that is
in $BIPLANE_KEY.

First a checkpoint of the record is made, which biplane restore compares the restored record with.`,
		Example: `  biplane backup monday.backup --passphrase-file secret.txt
  biplane backup monday.backup --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`,
		Args: exactlyOne("FILE", "the file to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			to, err := readRecipients(passphrase, recipients)
			if err != nil {
				return err
			}
			dir, err := config.DataFolder(a.dataDir)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				point, err := client.Audit().MakeCheckpoint(ctx)
				if err != nil {
					return err
				}
				b, err := daemon.WriteBackup(ctx, dir, args[0], a.Version, point.Checkpoint, to...)
				if err != nil {
					return err
				}
				return a.printOutput(output, b, func(w io.Writer) {
					fmt.Fprintf(w, "%s: %s, %s\n", cleanLine(args[0]), text.Count(b.Files, "file"), bytesText(b.Bytes))
				})
			})
		},
	}
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase in its first line")
	addOutput(c, &output)
	c.Flags().StringArrayVar(&recipients, "recipient", nil, "age `recipient` that can decrypt it; may be repeated")
	return c
}

// readRecipients returns the recipients of a backup.
func readRecipients(passphrase string, recipients []string) (to []age.Recipient, err error) {
	secret, err := readPassphrase(passphrase)
	if err != nil {
		return nil, err
	}
	switch {
	case secret != "" && len(recipients) > 0:
		return nil, usageError("a backup has a passphrase or recipients, not both")
	case secret != "":
		r, err := age.NewScryptRecipient(secret)
		return []age.Recipient{r}, err
	case len(recipients) == 0:
		return nil, usageError("a backup is encrypted: add --passphrase-file or --recipient")
	}
	for _, text := range recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, usageError("recipient %q: %s", text, err)
		}
		to = append(to, r)
	}
	return to, nil
}

func restoreCommand(a *app) *cobra.Command {
	var output, passphrase, identity string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data folder from a backup",
		Long: `Makes the data folder from a file that biplane backup has written. The folder must be missing or empty.
It appears only after every file has been compared with its digest and the record has been verified,
also against the checkpoint in the backup. If this command is stopped, no folder is created.

Programs that ran at the time of the backup end as interrupted with the next start: what they did
afterwards is unknown.`,
		Example: `  biplane restore monday.backup --passphrase-file secret.txt
  biplane restore monday.backup --identity key.txt --data-dir /srv/biplane`,
		Args: exactlyOne("FILE", "a file that biplane backup has written"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			with, err := readIdentities(passphrase, identity)
			if err != nil {
				return err
			}
			cfg, err := a.daemonConfig("error")
			if err != nil {
				return err
			}
			b, err := daemon.RestoreBackup(cmd.Context(), cfg, args[0], with...)
			if err != nil {
				return err
			}
			return a.printOutput(output, b, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s of %s, from %s by biplane %s; the record is intact: %d entries\n", cfg.DataDir,
					bytesText(b.Bytes), text.Count(b.Files, "file"), formatMoment(b.Created), b.Version, b.Report.Size)
			})
		},
	}
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase in its first line")
	addOutput(c, &output)
	c.Flags().StringVar(&identity, "identity", "", "`file` with age identities, as age-keygen writes it")
	return c
}

// readIdentities returns the keys that decrypt a backup.
func readIdentities(passphrase, identity string) ([]age.Identity, error) {
	secret, err := readPassphrase(passphrase)
	if err != nil {
		return nil, err
	}
	switch {
	case secret != "" && identity != "":
		return nil, usageError("a backup has a passphrase or recipients: use one of --passphrase-file and --identity")
	case secret != "":
		i, err := age.NewScryptIdentity(secret)
		return []age.Identity{i}, err
	case identity == "":
		return nil, usageError("a backup is encrypted: add --passphrase-file or --identity")
	}
	f, err := os.Open(identity)
	if err != nil {
		return nil, usageError("identity: %s", err)
	}
	defer f.Close()
	all, err := age.ParseIdentities(f)
	if err != nil {
		return nil, usageError("identity: %s", err)
	}
	return all, nil
}
