package cli

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
)

// TestUsageCSVIsInert checks that names chosen by others (a client's, a tool's) are plain text in
// one cell of a spreadsheet.
func TestUsageCSVIsInert(t *testing.T) {
	cost := 1.5
	u := &api.Usage{By: []string{"client"}, Currency: "USD"}
	names := []string{`=HYPERLINK("http://x")`, "+1", "-1", "@SUM(A1)", "\t=1", " =1", "a,\"b\"\r\nc", "|cmd", "plain"}
	for _, n := range names {
		u.Lines = append(u.Lines, api.UsageLine{Client: n, Calls: 1, Saved: -5, Cost: &cost, SavedCost: &cost})
	}
	var out bytes.Buffer
	if err := usageCSV(&out, u); err != nil {
		t.Fatalf("usageCSV: %v", err)
	}
	if strings.Count(out.String(), "\r\n") != len(names)+1 || strings.Count(out.String(), "\n") != len(names)+1 {
		t.Errorf("lines do not end in CRLF: %q", out.String())
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != len(names)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, row := range rows[1:] {
		if cell := strings.TrimSpace(row[2]); strings.ContainsAny(cell[:1], "=+-@|") {
			t.Errorf("%q is written as %q", names[i], row[2])
		}
		if row[16] != "-5" || row[17] != "USD" || row[18] != "1.500000" || len(row) != len(rows[0]) {
			t.Errorf("row %q", row)
		}
	}
}

func TestUsagePeriod(t *testing.T) {
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ since, from, to, want string }{
		{"", "", "", "2026-03-01T12:00:00Z 2026-03-31T12:00:00Z"},
		{"12h", "", "", "2026-03-31T00:00:00Z 2026-03-31T12:00:00Z"},
		{"", "2026-03-01", "2026-04-01", "2026-03-01T00:00:00Z 2026-04-01T00:00:00Z"},
		{"", "2026-03-01T06:00:00+01:00", "", "2026-03-01T06:00:00+01:00 2026-03-31T12:00:00Z"},
		{"1d", "2026-03-01", "", "error"}, {"", "March", "", "error"}, {"", "", "soon", "error"},
		{"-1d", "", "", "error"},
	} {
		a, b, err := usagePeriod(c.since, c.from, c.to, now)
		got := "error"
		if err == nil {
			got = a.Format(time.RFC3339) + " " + b.Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("c = %+v, got = %s, err = %v, want got == c.want", c, got, err)
		}
	}
}
