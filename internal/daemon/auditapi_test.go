package daemon_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit/ledger"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/tool"
)

// parsed returns the settings of a configuration.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	s, err := config.Parse(filepath.Join(t.TempDir(), "biplane.yaml"), []byte(text), func(name string) (string, bool) {
		return map[string]string{"SECRET": "hunter2"}[name], name == "SECRET"
	}, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	return s
}

// records returns the records of a kind, newest first.
func records(t *testing.T, c *api.Client, kind string) []api.AuditRecord {
	t.Helper()
	all, err := c.Audit().ListRecords(t.Context(), api.AuditQuery{Kind: kind})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	return all
}

func TestRecordOfConfigurations(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	begin := func(text string) []api.AuditRecord {
		s := parsed(t, text)
		s.File = "/etc/biplane.yaml"
		at, err := daemon.Attach(t.Context(), daemon.Config{Settings: s, DataDir: folder, Version: "test"})
		if err != nil {
			t.Fatalf("daemon.Attach: %v", err)
		}
		defer at.Close()
		return records(t, at.Client, "configuration")
	}
	const first = "mode: code\nmcpServers: {a: {command: a, disabled: true, env: {TOKEN: hunter2}}, b: {command: b, " +
		"disabled: true}}\n"
	got := begin(first)
	if len(got) != 1 || got[0].Detail["changed"] != "all: it is the first" || got[0].File != "/etc/biplane.yaml" {
		t.Fatalf("got = %+v, want len(got) == 1 && got[0].Detail[\"changed\"] == \"all: it is the "+
			"first\" && got[0].File == \"/etc/biplane.yaml\"", got)
	}
	if got = begin(first); len(got) != 1 {
		t.Errorf("the same configuration is recorded again: %+v", got)
	}
	if got = begin("# a comment\n" + first); len(got) != 2 ||
		!strings.HasPrefix(got[0].Detail["changed"], "nothing that has a name") {
		t.Errorf("got[0] = %+v, want len(got) == 2 && strings.HasPrefix(got[0].Detail[\"changed\"], "+
			"\"nothing that has a name\")", got[0])
	}
	got = begin("mode: direct\nmcpServers: {a: {command: a, disabled: true, env: {TOKEN: hunter3}}, c: {command: c, " +
		"disabled: true}}\nstart_wait: 1s\n")
	if got[0].Detail["changed"] != "~mcpServers.a +mcpServers.c ~mode +start_wait -mcpServers.b" {
		t.Errorf("got[0] = %+v, want got[0].Detail[\"changed\"] == \"~mcpServers.a +mcpServers.c ~mode "+
			"+start_wait -mcpServers.b\"", got[0])
	}
	text, _ := json.Marshal(got)
	if strings.Contains(string(text), "hunter") {
		t.Errorf("values are on the record: %s", text)
	}
}

// begun returns a client of a running daemon with one session.
func begun(t *testing.T, s *config.Config) *api.Client {
	t.Helper()
	at, err := daemon.Attach(t.Context(), daemon.Config{Settings: s, DataDir: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatalf("daemon.Attach: %v", err)
	}
	t.Cleanup(func() { at.Close() })
	for _, r := range []api.RunRequest{{Code: "1"}, {Code: "let a = 1", Session: "work"},
		{Code: "throw new Error('x')"}} {
		if _, err := at.Client.Run(t.Context(), r); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	return at.Client
}

// TestRecordOfStops checks that stopping an execution is recorded first, with the caller.
func TestRecordOfStops(t *testing.T) {
	t.Parallel()
	at, err := daemon.Attach(t.Context(), daemon.Config{DataDir: t.TempDir(), Version: "test"})
	if err != nil {
		t.Fatalf("daemon.Attach: %v", err)
	}
	defer at.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := at.Client.Run(t.Context(), api.RunRequest{Code: "await new Promise((r) => setTimeout(r, 1e6))"})
		ended <- err
	}()
	var id string
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(2 * time.Minute); id == ""; {
		all, err := at.Client.Executions(t.Context(), api.ExecutionFilter{States: []string{api.StateRunning}})
		if err != nil {
			t.Fatalf("Executions: %v", err)
		}
		if len(all.Executions) > 0 {
			id = all.Executions[0].ID
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it doesn't run")
		}
	}
	if err := at.Client.StopExecution(t.Context(), "ex_nothing"); err == nil {
		t.Error("nothing was stopped")
	}
	if err := at.Client.StopExecution(t.Context(), id); err != nil {
		t.Fatalf("StopExecution: %v", err)
	}
	<-ended
	got := records(t, at.Client, "execution")
	if len(got) != 2 || got[1].Detail["action"] != "stop" || got[1].Execution != id || got[1].Principal == "" ||
		got[0].Detail["error"] != "canceled" {
		t.Errorf("got = %+v", got)
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := begun(t, nil)
	calls := records(t, c, "call")
	if len(calls) != 3 || calls[0].Tool != "biplane.execute" || calls[0].Outcome != "error" {
		t.Fatalf("calls = %+v, want len(calls) == 3 && calls[0].Tool == \"biplane.execute\" && "+
			"calls[0].Outcome == \"error\"", calls)
	}
	if x := records(t, c, "execution"); len(x) != 3 || x[0].Outcome != "error" || x[0].Detail["error"] != "exception" ||
		x[1].Session != "work" {
		t.Errorf("executions: %+v", x)
	}
	shown, err := c.Audit().ReadRecord(ctx, calls[2].ID)
	if err != nil || shown.Arguments.Text != `{"code":"1"}` || !shown.Arguments.Whole || len(shown.Leaves) != 2 {
		t.Errorf("shown = %+v, err = %v, want err == nil && shown.Arguments.Text == `{\"code\":\"1\"}` "+
			"&& shown.Arguments.Whole && len(shown.Leaves) == 2", shown, err)
	}
	if _, err := c.Audit().ReadRecord(ctx, "nothing"); err == nil || !strings.Contains(err.Error(), "audit list") {
		t.Errorf("an unknown record: error %v, want one that names \"audit list\"", err)
	}
	for _, end := range []func() error{
		func() error { return c.Sessions().Export(ctx, "work", "", &bytes.Buffer{}) },
		func() error { _, err := c.Sessions().Fork(ctx, "work", "other"); return err },
		func() error { return c.Sessions().End(ctx, "work") },
	} {
		if err := end(); err != nil {
			t.Fatalf("end: %v", err)
		}
	}
	var did []string
	for _, r := range records(t, c, "session") {
		did = append(did, strings.TrimSpace(r.Session+" "+r.Detail["action"]+" "+r.Detail["part"]))
	}
	if want := []string{"work end", "work end intent", "other fork", "work export",
		"work export intent"}; !slices.Equal(did, want) {
		t.Errorf("sessions: %q", did)
	}
	if err := c.Sessions().End(ctx, "none"); err == nil {
		t.Fatal("a session that isn't there was ended")
	}
	if r := records(t, c, "session")[0]; r.Outcome != "failed" || r.ErrorKind != "not_found" {
		t.Errorf("the record of a failed end of a session: %+v, want outcome failed, kind not_found", r)
	}
	var reads []string
	for _, r := range records(t, c, "read") {
		reads = append(reads, r.Detail["action"]+" "+r.Detail["kind"]+r.Detail["record"])
	}
	for _, want := range []string{"list call", "list read", "show " + calls[2].ID} {
		if !slices.Contains(reads, want) {
			t.Errorf("%q is not on the record: %q", want, reads)
		}
	}
}

func TestLedgerProofs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := begun(t, nil)
	state, err := c.Audit().ReadState(ctx)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	first, err := c.Audit().MakeCheckpoint(ctx)
	if err != nil || first.Size < state.Size || !strings.Contains(first.Checkpoint, first.Root) {
		t.Fatalf("first = %+v, err = %v, want err == nil && first.Size >= state.Size && "+
			"strings.Contains(first.Checkpoint, first.Root)", first, err)
	}
	call := records(t, c, "call")[0]
	proof, err := c.Audit().ProveRecord(ctx, call.ID, first.Checkpoint)
	if err != nil {
		t.Fatalf("ProveAudit: %v", err)
	}
	got, err := ledger.CheckProof(proof.Proof, state.Key, []string{first.Checkpoint})
	if err != nil || len(got.Leaves) != 2 || got.Leaves[0].Seq != call.Seq || !got.Held || got.Size != first.Size {
		t.Errorf("got = %+v, err = %v, want err == nil && len(got.Leaves) == 2 && got.Leaves[0].Seq == "+
			"call.Seq && got.Held && got.Size == first.Size", got, err)
	}
	later, err := c.Audit().MakeCheckpoint(ctx)
	if err != nil || later.Size <= first.Size {
		t.Fatalf("a later checkpoint: %v, %v, want a larger one", later, err)
	}
	if _, err := ledger.CheckProof(proof.Proof, state.Key, []string{later.Checkpoint}); err == nil {
		t.Error("the proof is of another checkpoint")
	}
	growth, err := c.Audit().ProveConsistency(ctx, first.Checkpoint)
	if err != nil {
		t.Fatalf("ProveConsistency: %v", err)
	}
	if got, err := ledger.CheckProof(growth.Proof, state.Key, nil); err != nil || got.Older == nil ||
		*got.Older != first.Size {
		t.Errorf("got = %+v, err = %v, want err == nil && got.Older != nil && *got.Older == first.Size", got, err)
	}
	report, err := c.Audit().Verify(ctx, first.Checkpoint, later.Checkpoint)
	if err != nil || !report.OK || len(report.Outside) != 2 || !report.Outside[0].OK || report.Checkpoints < 2 {
		t.Errorf("report = %+v, err = %v, want err == nil && report.OK && len(report.Outside) == 2 && "+
			"report.Outside[0].OK && report.Checkpoints >= 2", report, err)
	}
	if all, err := c.Audit().ListCheckpoints(ctx); err != nil || len(all) < 2 || all[0].Size != first.Size {
		t.Errorf("all = %+v, err = %v, want err == nil && len(all) >= 2 && all[0].Size == first.Size", all, err)
	}
}

func TestLedgerExports(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	ctx := t.Context()
	c := begun(t, nil)
	var out bytes.Buffer
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if err := c.Audit().Export(ctx, "ocsf", from, to, &out); err != nil {
		t.Fatalf("ExportAudit: %v", err)
	}
	last := -1.0
	for line := range strings.Lines(out.String()) {
		var v struct {
			Metadata struct{ Sequence float64 }
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Metadata.Sequence <= last {
			t.Fatalf("%s after %v: %v", line, last, err)
		}
		last = v.Metadata.Sequence
	}
	if n := strings.Count(out.String(), "\n"); n < 8 {
		t.Errorf("%d events", n)
	}
	if err := c.Audit().Export(ctx, "xml", from, to, &out); err == nil || !strings.Contains(err.Error(), "ocsf, csv") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "ocsf, csv")`, err)
	}
	if err := c.Audit().Export(ctx, "csv", to, from, &out); err == nil {
		t.Error("a time that ends before it begins")
	}
	out.Reset()
	if err := c.Audit().WriteEvidence(ctx, from, to, &out); err != nil {
		t.Fatalf("AuditEvidence: %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatalf("zip.NewReader: %v", err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	for _, want := range []string{"README.md", "access.csv", "decisions.csv", "integrity/verify.json", "sandbox.json",
		"SHA256SUMS"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	access, err := fs.ReadFile(z, "access.csv")
	for _, want := range []string{",biplane.execute,", ",biplane.fetch,", ",biplane.sandbox_run,"} {
		if err != nil || !strings.Contains(string(access), want) {
			t.Errorf("no %s in access.csv, %v: %s", want, err, access)
		}
	}
}
