package cli

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// period holds the flags --from and --to.
type period struct{ from, to string }

func (p *period) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&p.from, "from", "", "from this `time` on (a date means its start, UTC)")
	c.Flags().StringVar(&p.to, "to", "", "before this `time` (default: now)")
}

func (p *period) parseTimes(c *cobra.Command) (from, to time.Time, err error) {
	if p.from == "" {
		return from, to, usageError("%s needs --from: %s", commandName(c), firstExample(c))
	}
	if from, err = timeFlag("from", p.from, time.UTC); err != nil {
		return from, to, err
	}
	if to, err = timeFlag("to", p.to, time.UTC); err != nil {
		return from, to, err
	}
	if to.IsZero() {
		to = time.Now()
	}
	if !from.Before(to) {
		return from, to, usageError("--from %s is not before --to %s", p.from, to.UTC().Format(time.RFC3339))
	}
	return from, to, nil
}

func auditExportCommand(a *app) *cobra.Command {
	var file, format string
	var p period
	c := &cobra.Command{
		Use:   "export",
		Short: "Export the records of a period as OCSF or CSV",
		Long: `Exports the records from --from to before --to, oldest first. OCSF has one JSON object a line: API
Activity, and Authentication for sign-ins. In CSV, no spreadsheet takes a cell for a formula. Memory use doesn't
grow with the number of records. The export is recorded, too. A record that was changed carries its
problem (CSV: the last column; OCSF: unmapped.problem, severity Critical). The command then reports it,
and exits with 1.`,
		Example: `  biplane audit export --format ocsf --from 2026-10-01 --to 2026-11-01 -o october.jsonl
  biplane audit export --format csv --from 7d > week.csv`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, to, err := p.parseTimes(cmd)
			if err != nil {
				return err
			}
			if err := oneOf("format", format, []string{"ocsf", "csv"}); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				var flaw *api.FlawError
				export := func(w io.Writer) error {
					return splitFlaw(client.Audit().Export(ctx, format, from, to, w), &flaw)
				}
				if file == "" || file == "-" {
					if err := export(a.Out); err != nil {
						return err
					}
					return a.sayFlaw(flaw)
				}
				size, err := writeWhole(file, 0o600, export)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "%s, %s\n", cleanLine(file), bytesText(size))
				return a.sayFlaw(flaw)
			})
		},
	}
	p.addFlags(c)
	c.Flags().StringVar(&format, "format", "ocsf", "`format`: ocsf or csv")
	c.Flags().StringVarP(&file, "output", "o", "", "`file` to write (default: standard output)")
	completeWords(c, "format", "ocsf", "csv")
	return c
}

// splitFlaw returns err, unless it is a FlawError: then the output is complete, and splitFlaw
// stores the flaw.
func splitFlaw(err error, flaw **api.FlawError) error {
	if errors.As(err, flaw) {
		return nil
	}
	return err
}

// sayFlaw reports a flaw in the output, and returns a failure whose message has been printed. It
// returns nil if there is no flaw.
func (a *app) sayFlaw(flaw *api.FlawError) error {
	if flaw == nil {
		return nil
	}
	fmt.Fprintln(a.Err, "biplane: "+cleanLine(flaw.Message))
	return failSilently(exitFailed)
}

func auditEvidenceCommand(a *app) *cobra.Command {
	var p period
	c := &cobra.Command{
		Use:   "evidence DIR",
		Short: "Write a folder of evidence for an audit",
		Long: `Writes a folder that supports an assessment of SOC 2 and HIPAA controls over a period. It holds:

- the inventory of upstreams and tools, and who may call them
- decisions, approvals, sign-ins and changes
- the proof of the record's integrity, and the results of the sandbox tests
- a README.md that explains each file and the controls it supports.

It certifies nothing. It takes as long as "doctor --probe", and is recorded.
If verification of the record fails, the folder says so, and the command exits with 1.`,
		Example: "  biplane audit evidence --from 2026-07-01 --to 2026-10-01 evidence-q3",
		Args:    exactlyOne("DIR", "a new folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to, err := p.parseTimes(cmd)
			if err != nil {
				return err
			}
			if _, err := os.Lstat(args[0]); !errors.Is(err, fs.ErrNotExist) {
				return usageError("%s already exists: name a new folder", args[0])
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				var flaw *api.FlawError
				n, err := writeEvidence(args[0], func(w io.Writer) error {
					return splitFlaw(client.Audit().WriteEvidence(ctx, from, to, w), &flaw)
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Out, "%s: %s; begin with README.md\n", cleanLine(args[0]), text.Count(n, "file"))
				return a.sayFlaw(flaw)
			})
		},
	}
	p.addFlags(c)
	return c
}

// writeEvidence unpacks an archive into a new folder atomically, and returns the number of files.
func writeEvidence(dir string, download func(io.Writer) error) (n int, err error) {
	unable := func(err error) error {
		var e *api.Error
		if errors.As(err, &e) {
			return err
		}
		return &api.Error{Kind: api.Unavailable, Message: "write " + dir + ": " + err.Error()}
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*")
	if err != nil {
		return 0, unable(err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(part)
		}
	}()
	archive, err := os.CreateTemp("", "biplane-evidence-*.zip")
	if err != nil {
		return 0, unable(err)
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := download(archive); err != nil {
		return 0, unable(err)
	}
	z, err := zip.OpenReader(archive.Name())
	if err != nil {
		return 0, unable(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if err := unpackFile(part, f); err != nil {
			return 0, unable(err)
		}
	}
	if err := errors.Join(os.Chmod(part, 0o755), os.Rename(part, dir)); err != nil {
		return 0, unable(err)
	}
	return len(z.File), nil
}

// unpackFile writes one file of an archive into a folder. It rejects paths outside of the folder.
func unpackFile(dir string, f *zip.File) error {
	if !filepath.IsLocal(f.Name) || !f.Mode().IsRegular() {
		return fmt.Errorf("the archive contains the invalid file name %q", f.Name)
	}
	path := filepath.Join(dir, filepath.FromSlash(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
