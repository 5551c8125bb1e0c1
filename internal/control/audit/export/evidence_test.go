package export

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

func TestEvidence(t *testing.T) {
	yes := true
	e := &Evidence{
		About: About{"biplane/k7", "1.2.3"}, From: at, To: at.AddDate(0, 1, 0), Made: at.AddDate(0, 1, 1),
		By: "local:ann", Host: "host|1", Policy: "open",
		Upstreams: []Upstream{{"gh", "http", "https://gh", "ready", "gh 1", "2025-11-25"}},
		Tools:     []Tool{{"gh.a", "gh", "a", "=evil()", &yes, "00"}, {"gh.b", "gh", "b", "", nil, "01"}},
		Access:    []Access{{"local:ann", "gh.a", "allow", "open", "it says so"}},
		Probes:    []Probe{{"sandbox", "files", true, "refused"}, {"sandbox", "network", false, "got out"}},
		Integrity: Integrity{Public: "k", Checkpoint: "c", Report: map[string]bool{"ok": true}, OK: true,
			Summary: "no faults"},
		Records: func(kinds ...audit.Kind) Records {
			return seq(slices.DeleteFunc(all(), func(r *audit.Record) bool {
				return r.Kind == audit.KindApproval || len(kinds) > 0 && !slices.Contains(kinds, r.Kind)
			}), nil)
		},
	}
	var out bytes.Buffer
	if err := e.Zip(t.Context(), &out); err != nil {
		t.Fatalf("Zip: %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatalf("zip.NewReader: %v", err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("io.ReadAll: %v", err)
		}
		files[f.Name] = string(text)
	}
	for name, text := range files {
		sum := sha256.Sum256([]byte(text))
		if name != "SHA256SUMS" && !strings.Contains(files["SHA256SUMS"], hex.EncodeToString(sum[:])+"  "+name+"\n") {
			t.Errorf("SHA256SUMS has not the digest of %s", name)
		}
		if name != "SHA256SUMS" && name != "README.md" && !strings.Contains(files["README.md"], "| "+name+" |") {
			t.Errorf("the page says nothing of %s", name)
		}
		if strings.HasSuffix(name, ".csv") {
			if _, err := csv.NewReader(strings.NewReader(text)).ReadAll(); err != nil {
				t.Errorf("%s, err = %v, want nil", name, err)
			}
		}
	}
	readme := files["README.md"]
	for _, c := range controls {
		row := readme[strings.Index(readme, "| "+c.id+" | "):]
		if row, _, _ = strings.Cut(row, "\n"); strings.HasSuffix(row, "|  |") {
			t.Errorf("nothing supports %s", c.id)
		}
	}
	for _, want := range []string{"doesn't certify", "host\\|1", "1 of 2 checks FAILED", "approvals.csv is empty",
		"no faults"} {
		if !strings.Contains(readme, want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	if strings.Count(files["decisions.csv"], "\n") != 6 || !strings.Contains(files["inventory/tools.csv"],
		"'=evil()") || strings.Count(files["approvals.csv"], "\n") != 1 {
		t.Errorf("decisions %q, tools %q, approvals %q", files["decisions.csv"], files["inventory/tools.csv"],
			files["approvals.csv"])
	}
}
