package export

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/retention"
)

// columns are the columns of the CSV file, in order. New ones are added at the end.
var columns = []string{
	"record", "seq", "time", "kind", "principal", "client", "tool", "upstream", "execution", "call", "session",
	"file", "name",
	"effect", "policy", "reason", "outcome", "error_kind", "ended", "end_seq", "duration_us",
	"arguments_digest", "arguments_size", "result_digest", "result_size", "detail", "problem",
}

// csvWriter returns functions that write a record and flush. The first line has the column names
// (RFC 4180, but lines end in LF: with CRLF a CR in a cell would be lost).
func csvWriter(w io.Writer) (func(*audit.Record) error, func() error) {
	c := csv.NewWriter(w)
	begun := false
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		return c.Write(columns)
	}
	write := func(r *audit.Record) error {
		if err := begin(); err != nil {
			return err
		}
		row := recordCells(r)
		for i := range row {
			row[i] = escapeFormula(row[i])
		}
		return c.Write(row)
	}
	return write, func() error {
		if err := begin(); err != nil {
			return err
		}
		c.Flush()
		return c.Error()
	}
}

func recordCells(r *audit.Record) []string {
	s, e := r.Subject, r.End
	ended, endSeq, duration := "", "", ""
	if e.Outcome != audit.Unfinished {
		ended, endSeq, duration = formatTime(e.Time), strconv.FormatInt(e.Seq,
			10), strconv.FormatInt(e.Duration.Microseconds(), 10)
	}
	return []string{
		r.ID, strconv.FormatInt(r.Seq, 10), formatTime(r.Time), string(r.Kind), r.Principal, r.Client, s.Tool,
		s.Upstream, s.Execution, s.Call, s.Session, s.File, s.Name,
		r.Decision.Effect, r.Decision.Policy, r.Decision.Reason, formatOutcome(r), string(e.ErrorKind), ended,
		endSeq, duration,
		r.Arguments.Digest, formatSize(r.Arguments), e.Result.Digest, formatSize(e.Result),
		formatDetail(r.Detail), r.Problem,
	}
}

// escapeFormula prevents a spreadsheet from evaluating external data as a formula. It puts a ' in
// front of a cell that begins like one (OWASP, CSV injection).
func escapeFormula(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func formatSize(p retention.Payload) string {
	if p.Digest == "" {
		return ""
	}
	return strconv.FormatInt(p.Size, 10)
}

// formatOutcome returns the outcome of a record as a word.
func formatOutcome(r *audit.Record) string {
	if r.End.Outcome == audit.Unfinished {
		return "unfinished"
	}
	return string(r.End.Outcome)
}

// formatDetail formats a detail as one text, sorted by name.
func formatDetail(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, "; ")
}
