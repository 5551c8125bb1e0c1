package export

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// Evidence is the content of a folder of evidence.
type Evidence struct {
	About
	From, To  time.Time // the period: from From up to, but not including, To
	Made      time.Time
	By        string // principal that requested it
	Host      string
	Policy    string // name and version of the policy in effect
	Upstreams []Upstream
	Tools     []Tool
	Access    []Access
	Anyone    string // note on who can call at all, for example that no one signs in
	Probes    []Probe
	Integrity Integrity
	// Records returns the records of the period whose kind is in kinds, oldest first. Without kinds
	// it returns all.
	Records func(kinds ...audit.Kind) Records
}

// An Upstream is the state of a source of tools when the evidence is made.
type Upstream struct{ Name, Type, Target, State, Server, Protocol string }

// A Tool is a tool, as described by its upstream when the evidence is made.
type Tool struct {
	Path, Upstream, Name, Description string
	ReadOnly                          *bool  // declared by the upstream; nil: undeclared
	Schema                            string // SHA-256 of the arguments' schema
}

// An Access is the decision of the policy in effect on a tool for a principal, ignoring arguments.
type Access struct{ Principal, Tool, Effect, Policy, Reason string }

// A Probe is an attempt to escape from the sandbox, or another check of the host's capabilities.
type Probe struct {
	Part   string `json:"part"`
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Integrity is the evidence for the integrity of the record.
type Integrity struct {
	Public      string // verifier key (C2SP signed-note)
	Checkpoint  string // signed, made for this evidence
	Consistency string // proof from an older checkpoint to this one; empty: there is no older one
	Report      any    // result of verify, for JSON
	OK          bool   // no faults
	Summary     string // one line
}

// A file is a file of the folder.
type file struct {
	name     string
	shows    string
	supports []string // controls
	write    func(ctx context.Context, w io.Writer) error
}

// listFiles returns all files except README.md and SHA256SUMS.
func (e *Evidence) listFiles() []file {
	csvOf := func(kinds ...audit.Kind) func(context.Context, io.Writer) error {
		return func(ctx context.Context, w io.Writer) error {
			_, err := Write(ctx, w, "csv", e.About, e.Records(kinds...))
			return err
		}
	}
	return []file{
		{"inventory/upstreams.csv",
			"The sources of tools (MCP servers) configured when this folder was created, with their versions.",
			[]string{cc61, cc66, cc81}, e.writeUpstreams},
		{"inventory/tools.csv", "Every tool that could be called then, with a digest of its schema. If a tool " +
			"changes, the next folder has a different digest.", []string{cc61, cc81}, e.writeTools},
		{"access.csv", "Who may call which tool under the policy in effect, without regard to arguments. 'ask' means " +
			"that a person decides on each call, 'depends' that the decision depends on the arguments. A policy may " +
			"still deny single calls because of their arguments. Keys have their roles; principals known only from " +
			"records of the period have none.", []string{cc61, cc62, cc63, h312a}, e.writeAccess},
		{"decisions.csv", "Every call of the period: who called which tool and when, the decision with its policy " +
			"and reason, the outcome, and digests of the arguments and the result. The content of calls is not " +
			"included.", []string{cc61, cc66, cc72, h308, h312b}, csvOf(audit.KindCall)},
		{"executions.csv", "Every program that agents ran in the period and its outcome, attempts to stop programs, " +
			"and the files that programs were denied.", []string{cc72, h312b},
			csvOf(audit.KindExecution, audit.KindFile)},
		{"approvals.csv", "Every decision by a person on a pending call.", []string{cc63, cc73, h312a},
			csvOf(audit.KindApproval)},
		{"sign-ins.csv", "Every accepted or rejected sign-in, to Biplane or to an upstream.",
			[]string{cc61, cc62, h312d}, csvOf(audit.KindSignIn)},
		{"changes.csv", "Every change of configuration, policy, keys and sessions, and every tool hint that became " +
			"weaker: digests and names of the changed items, never values.", []string{cc62, cc63, cc81},
			csvOf(audit.KindConfiguration, audit.KindPolicy, audit.KindKey, audit.KindSession, audit.KindTool)},
		{"reads.csv", "Who read, exported or verified the record itself, and the faults found in it.",
			[]string{cc73, h308}, csvOf(audit.KindRead, audit.KindRecord)},
		{"record.ocsf.jsonl", "All records of the period as OCSF events, for a SIEM.",
			[]string{cc72, cc73, h308, h312b}, func(ctx context.Context, w io.Writer) error {
				_, err := Write(ctx, w, "ocsf", e.About, e.Records())
				return err
			}},
		{"integrity/public-key.txt", "The public key for the signatures in this folder. Compare it with a copy that " +
			"you received before the period.", []string{h312c}, writeText(e.Integrity.Public)},
		{"integrity/checkpoint.txt",
			"The signed head of the record when this folder was created (C2SP tlog-checkpoint).",
			[]string{cc72, h312c}, writeText(e.Integrity.Checkpoint)},
		{"integrity/consistency.txt",
			"The proof that the record was only appended to since an older checkpoint. Empty if there is none.",
			[]string{cc72, h312c}, writeText(e.Integrity.Consistency)},
		{"integrity/verify.json", "The result of verifying the whole record: every leaf, stored hash and checkpoint.",
			[]string{cc72, cc73, h312c}, jsonOf(e.Integrity.Report)},
		{"sandbox.json", "Attempts of test programs to escape from the sandbox when this folder was created, and " +
			"whether each was blocked.", []string{cc66, cc72}, jsonOf(e.Probes)},
	}
}

// Zip writes the folder as a zip archive.
func (e *Evidence) Zip(ctx context.Context, w io.Writer) error {
	z := zip.NewWriter(w)
	var sums strings.Builder
	add := func(name string, write func(context.Context, io.Writer) error) error {
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: e.Made})
		if err != nil {
			return err
		}
		h := sha256.New()
		if err := write(ctx, io.MultiWriter(f, h)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(h.Sum(nil)), name)
		return nil
	}
	files := e.listFiles()
	if err := add("README.md", writeText(e.buildReadme(files))); err != nil {
		return err
	}
	for _, f := range files {
		if err := add(f.name, f.write); err != nil {
			return err
		}
	}
	if err := add("SHA256SUMS", writeText(sums.String())); err != nil {
		return err
	}
	return z.Close()
}

func writeText(s string) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		_, err := io.WriteString(w, s)
		return err
	}
}

func jsonOf(v any) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		j := json.NewEncoder(w)
		j.SetEscapeHTML(false)
		j.SetIndent("", "  ")
		return j.Encode(v)
	}
}

// writeTable writes rows as CSV.
func writeTable(w io.Writer, rows [][]string) error {
	c := csv.NewWriter(w)
	for _, row := range rows {
		for i := range row {
			row[i] = escapeFormula(row[i])
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

func (e *Evidence) writeUpstreams(_ context.Context, w io.Writer) error {
	rows := [][]string{{"upstream", "type", "target", "state", "server", "protocol"}}
	for _, u := range e.Upstreams {
		rows = append(rows, []string{u.Name, u.Type, u.Target, u.State, u.Server, u.Protocol})
	}
	return writeTable(w, rows)
}

func (e *Evidence) writeTools(_ context.Context, w io.Writer) error {
	rows := [][]string{{"path", "upstream", "name", "says_read_only", "schema_sha256", "description"}}
	for _, t := range e.Tools {
		says := "says nothing"
		if t.ReadOnly != nil {
			says = strconv.FormatBool(*t.ReadOnly)
		}
		rows = append(rows, []string{t.Path, t.Upstream, t.Name, says, t.Schema, t.Description})
	}
	return writeTable(w, rows)
}

func (e *Evidence) writeAccess(_ context.Context, w io.Writer) error {
	rows := [][]string{{"principal", "tool", "effect", "policy", "reason"}}
	for _, a := range e.Access {
		rows = append(rows, []string{a.Principal, a.Tool, a.Effect, a.Policy, a.Reason})
	}
	return writeTable(w, rows)
}
