package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/control/audit/ledger"
	"github.com/biplane-dev/biplane/internal/control/audit/segment"
)

// auditFileBytes is the maximum size of a proof, a key or a file of checkpoints.
const auditFileBytes = 8 << 20

func auditVerifyCommand(a *app) *cobra.Command {
	var output, proof, archived, key, checkpoint string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Check the whole record, or a proof",
		Long: `Without --proof it checks the whole record. It compares every leaf with its hash, and
the tree with every signed checkpoint. It also checks the order, and the content that is kept with the
record. It names each record that was changed, removed or inserted, and then exits with 1. With
--checkpoint it also checks that the record begins exactly as checkpoints that were stored elsewhere
state.

With --proof it checks a proof that "audit prove" or "audit checkpoint --since" wrote. That needs only
the proof and the public key: no data folder, no network and no running process. With --checkpoint the
proof must be of a checkpoint in that file. --segment checks in the same way a file that "biplane prune"
moved entries to.

Archived entries are read from their segments. A missing segment is named, and then the command exits
with 1: the hashes of its entries are verified, their content is not.`,
		Example: `  biplane audit verify
  biplane audit verify --checkpoint /mnt/worm/checkpoints
  biplane audit verify --proof record.proof --key biplane.key
  biplane audit verify --proof record.proof --key biplane.key --checkpoint last-week.txt
  biplane audit verify --segment audit-000000000000-000000016383.gz --key biplane.key`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var held []string
			if checkpoint != "" {
				var err error
				if held, err = readCheckpoints(checkpoint); err != nil {
					return err
				}
			}
			switch {
			case proof != "" && archived != "":
				return usageError("--proof and --segment can't be combined")
			case proof+archived == "" && key != "":
				return usageError("--key goes with --proof or --segment: the record's own key is in its data folder")
			case proof+archived != "" && key == "":
				return usageError("--proof and --segment need --key, the public key or a file with it: biplane audit " +
					"key prints it where the record is")
			case archived != "":
				return verifySegment(a, output, archived, key)
			case proof != "":
				return a.verifyProof(output, proof, key, held)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				r, err := verifyRecord(ctx, client, held, a.Err)
				if err != nil {
					return err
				}
				if err := a.printOutput(output, r, func(w io.Writer) { showVerification(w, r) }); err != nil {
					return err
				}
				if !r.OK {
					return failSilently(exitFailed)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&proof, "proof", "", "check the proof in this `file`")
	c.Flags().StringVar(&archived, "segment", "", "check the archived entries in this `file`")
	c.Flags().StringVar(&key, "key", "", "public `key`, or a file with it")
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "`file` of checkpoints that were stored elsewhere")
	addOutput(c, &output)
	return c
}

// progressTime is the time between two lines of progress on a terminal.
const progressTime = 500 * time.Millisecond

// verifyRecord verifies the whole record, with its progress on a terminal.
func verifyRecord(ctx context.Context, client *api.Client, held []string, progress io.Writer) (*api.AuditReport,
	error) {
	if !isTerminal(progress) {
		return client.Audit().Verify(ctx, held...)
	}
	polling, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { showProgress(polling, client, progress) })
	r, err := client.Audit().Verify(ctx, held...)
	stop()
	wg.Wait()
	return r, err
}

// showProgress shows how far the verification is, until ctx is done.
func showProgress(ctx context.Context, client *api.Client, progress io.Writer) {
	t := time.NewTicker(progressTime)
	defer t.Stop()
	defer fmt.Fprint(progress, "\r\x1b[K")
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if s, err := client.Audit().ReadState(ctx); err == nil && s.Verifying != nil {
			fmt.Fprintf(progress, "\r\x1b[Kverified: %d of %d entries (%d %%)", s.Verifying.Leaves, s.Verifying.Size,
				100*s.Verifying.Leaves/s.Verifying.Size)
		}
	}
}

// readCheckpoints reads a file of concatenated checkpoints.
func readCheckpoints(path string) ([]string, error) {
	text, err := readSmall("checkpoint", path)
	if err != nil {
		return nil, err
	}
	all := ledger.SplitCheckpoints(text)
	if len(all) == 0 {
		return nil, usageError("checkpoint: there is none in %s", path)
	}
	return all, nil
}

func readSmall(what, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usageError("%s: %v", what, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, auditFileBytes+1))
	switch {
	case err != nil:
		return "", usageError("%s: %v", what, err)
	case len(text) > auditFileBytes:
		return "", usageError("%s: %s is larger than %d bytes", what, path, auditFileBytes)
	}
	return string(text), nil
}

// readKey returns a public key: key itself, or the contents of the file with that name.
func readKey(key string) (string, error) {
	if strings.Count(key, "+") >= 2 {
		if _, err := os.Stat(key); err != nil {
			return key, nil
		}
	}
	text, err := readSmall("key", key)
	return strings.TrimSpace(text), err
}

// A checkedSegment is the result of checking a file of archived entries.
type checkedSegment struct {
	Origin string    `json:"origin"`
	First  int64     `json:"first"`
	Last   int64     `json:"last"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

func verifySegment(a *app, output, path, key string) error {
	public, err := readKey(key)
	if err != nil {
		return err
	}
	h, err := segment.CheckFile(path, public)
	if err != nil {
		return failWithText("segment %s: %v", cleanLine(path), err)
	}
	s := checkedSegment{Origin: h.Origin, First: h.First, Last: h.First + h.Count - 1, Since: h.Since, Until: h.Until}
	return a.printOutput(output, s, func(w io.Writer) {
		fmt.Fprintf(w, "good: the leaves %d to %d of the record %s, from %s to %s, are as they were signed\n", s.First,
			s.Last, cleanLine(s.Origin), s.Since.Format(time.RFC3339), s.Until.Format(time.RFC3339))
	})
}

func (a *app) verifyProof(output, proof, key string, held []string) error {
	public, err := readKey(key)
	if err != nil {
		return err
	}
	text, err := readSmall("proof", proof)
	if err != nil {
		return err
	}
	p, err := ledger.CheckProof(text, public, held)
	if err != nil {
		return &failure{err: err, code: exitFailed}
	}
	return a.printOutput(output, p, func(w io.Writer) { showProofs(w, p) })
}

func showProofs(w io.Writer, p *ledger.Proved) {
	if p.Older != nil {
		fmt.Fprintf(w, "good: the record %s of %d leaves begins with exactly the %d of the older checkpoint\n",
			cleanLine(p.Origin), p.Size, *p.Older)
		return
	}
	for _, l := range p.Leaves {
		fmt.Fprintf(w, "good: leaf %d is in the record %s, in the checkpoint of %d leaves\n%s\n", l.Seq,
			cleanLine(p.Origin), p.Size, stripControls(l.Leaf))
	}
	if p.Held {
		fmt.Fprintln(w, "The checkpoint is one of those given.")
	}
}

func showVerification(w io.Writer, r *api.AuditReport) {
	for _, f := range r.Faults {
		fmt.Fprintf(w, "%s: %s\n", f.What, cleanLine(f.Message))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "and %d more\n", r.More)
	}
	for _, o := range r.Outside {
		says := "matches the record"
		if !o.OK {
			says = "does NOT match the record"
		}
		fmt.Fprintf(w, "checkpoint of %d leaves: %s\n", o.Size, says)
	}
	verdict := "good"
	if !r.OK {
		verdict = "FAILED"
	}
	fmt.Fprintf(w, "%s: %s, %s, %s covering %d of these", verdict, text.Count(int(r.Records), "record"),
		countLeaves(r.Size), text.Count(int(r.Checkpoints), "checkpoint"), r.Covered)
	if r.Unfinished > 0 {
		fmt.Fprintf(w, ", %s without an end", text.Count(int(r.Unfinished), "call"))
	}
	if r.Segments > 0 {
		fmt.Fprintf(w, ", %s", text.Count(int(r.Segments), "archived segment"))
	}
	if r.Absent > 0 {
		fmt.Fprintf(w, ", of %s in missing segments only the hashes", countLeaves(r.Absent))
	}
	fmt.Fprintf(w, "\nrecord %s, root %s\n", cleanLine(r.Origin), r.Root)
}

func countLeaves(n int64) string {
	if n == 1 {
		return "1 leaf"
	}
	return fmt.Sprintf("%d leaves", n)
}

func auditProveCommand(a *app) *cobra.Command {
	var file, checkpoint string
	c := &cobra.Command{
		Use:   "prove RECORD",
		Short: "Prove that a record is in the log",
		Long: `Writes a proof that a record is in the log, as text (C2SP tlog-proof). Anyone can check it offline with
the public key: "biplane audit verify --proof FILE --key KEY", or another program. The proof contains
the record's leaves, which hold only digests of arguments and results. It is for a new checkpoint or,
with --checkpoint, for the last one in a file.`,
		Example: `  biplane audit prove RECORD -o record.proof
  biplane audit prove RECORD --checkpoint last-week.txt -o record.proof`,
		Args: exactlyOne("RECORD", "the id of a record, as audit list shows it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := ""
			if checkpoint != "" {
				held, err := readCheckpoints(checkpoint)
				if err != nil {
					return err
				}
				at = held[len(held)-1]
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				p, err := client.Audit().ProveRecord(ctx, args[0], at)
				if err != nil {
					return err
				}
				return a.writeOutput(file, p.Proof)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVarP(&file, "output", "o", "", "`file` to write (default: standard output)")
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "`file` with the checkpoint to prove against")
	return c
}

// writeOutput writes text to a file, or to standard output if file is empty or "-".
func (a *app) writeOutput(file, text string) error {
	if file == "" || file == "-" {
		_, err := io.WriteString(a.Out, text)
		return err
	}
	size, err := writeWhole(file, 0o644, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s, %s\n", cleanLine(file), bytesText(size))
	return nil
}

func auditCheckpointCommand(a *app) *cobra.Command {
	var file, since, output string
	var list bool
	c := &cobra.Command{
		Use:   "checkpoint",
		Short: "Sign the head of the record and send it to the configured places",
		Long: `Signs the current head of the record (C2SP tlog-checkpoint), sends it to every place in
audit.checkpoints, and prints it. With a stored checkpoint a later change of the record can be shown.

With --since it writes a proof that the record has only grown since the checkpoints in a file. The proof
is for the first of them; all of them are checked.`,
		Example: `  biplane audit checkpoint
  biplane audit checkpoint --file today.txt
  biplane audit checkpoint --list
  biplane audit checkpoint --since last-week.txt --file growth.proof`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var older []string
			switch {
			case list && since != "":
				return usageError("use either --list or --since, not both")
			case since != "":
				var err error
				if older, err = readCheckpoints(since); err != nil {
					return err
				}
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				c := checkpoints{a, client, file, output}
				switch {
				case list:
					return c.listCheckpoints(ctx)
				case older != nil:
					return c.proveGrowth(ctx, older)
				}
				return c.makeCheckpoint(ctx)
			})
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list earlier checkpoints")
	c.Flags().StringVar(&since, "since", "",
		"prove that the record has only grown since the checkpoints in this `file`")
	c.Flags().StringVar(&file, "file", "", "`file` to write (default: standard output)")
	addOutput(c, &output)
	return c
}

// checkpoints makes, lists and proves checkpoints of the record.
type checkpoints struct {
	*app
	client *api.Client
	file   string // that a checkpoint or a proof is written to; empty: standard output
	output string
}

func (c checkpoints) makeCheckpoint(ctx context.Context) error {
	made, err := c.client.Audit().MakeCheckpoint(ctx)
	if err != nil {
		return err
	}
	failed := false
	for _, s := range made.Sinks {
		if s.Sent >= made.Size {
			fmt.Fprintf(c.Err, "biplane: sent to %s\n", cleanLine(s.Name))
			continue
		}
		failed = true
		fmt.Fprintf(c.Err, "biplane: NOT sent: %s\n", cleanLine(s.Error))
	}
	if c.output != "table" && c.file == "" {
		err = c.printOutput(c.output, made, nil)
	} else {
		err = c.writeOutput(c.file, made.Checkpoint)
	}
	if err == nil && failed {
		return failSilently(exitUnable)
	}
	return err
}

func (c checkpoints) listCheckpoints(ctx context.Context) error {
	all, err := c.client.Audit().ListCheckpoints(ctx)
	if err != nil {
		return err
	}
	return c.printOutput(c.output, all, func(w io.Writer) {
		if len(all) == 0 {
			fmt.Fprintln(w, "No checkpoints yet: biplane audit checkpoint makes one.")
			return
		}
		rows := [][]string{{"LEAVES", "ROOT"}}
		for _, one := range all {
			rows = append(rows, []string{fmt.Sprint(one.Size), one.Root})
		}
		writeColumns(w, rows...)
	})
}

func (c checkpoints) proveGrowth(ctx context.Context, older []string) error {
	first := ""
	for i, old := range older {
		p, err := c.client.Audit().ProveConsistency(ctx, old)
		if err != nil {
			return &failure{err: err, code: exitFailed}
		}
		if i == 0 {
			first = p.Proof
		}
	}
	fmt.Fprintf(c.Err, "biplane: the record begins with exactly what %s\n", countSays(len(older)))
	return c.writeOutput(c.file, first)
}

func countSays(n int) string {
	if n == 1 {
		return "the checkpoint says"
	}
	return fmt.Sprintf("all %d checkpoints say", n)
}

func auditKeyCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "key",
		Short: "Print the public key that checks proofs and checkpoints",
		Long: `Prints the public key of the record (a verifier key of C2SP signed-note: name+hash+key). Give it to the
people who will check proofs, before there is anything to prove.`,
		Example: "  biplane audit key\n  biplane audit key > biplane.key",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				s, err := client.Audit().ReadState(ctx)
				if err != nil {
					return err
				}
				return a.printOutput(output, map[string]string{"origin": s.Origin, "key": s.Key},
					func(w io.Writer) { fmt.Fprintln(w, s.Key) })
			})
		},
	}
	addOutput(c, &output)
	return c
}
