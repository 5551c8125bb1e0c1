package cli

import (
	"testing"
	"time"
)

// TestTimeFlag checks that a time without a zone is in the given one.
func TestTimeFlag(t *testing.T) {
	zone := time.FixedZone("east", 2*60*60)
	for text, want := range map[string]string{
		"2026-10-01":                "2026-09-30T22:00:00Z",
		"2026-10-01 15:04":          "2026-10-01T13:04:00Z",
		"2026-10-01T15:04:05Z":      "2026-10-01T15:04:05Z",
		"2026-10-01T15:04:05-03:00": "2026-10-01T18:04:05Z",
	} {
		got, err := timeFlag("since", text, zone)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s is %s, %v; want %s", text, got.UTC().Format(time.RFC3339), err, want)
		}
	}
}
