package daemon_test

import (
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestWhoReadsExecutions checks that only auditors and the local user read the executions of
// others, after a restart too.
func TestWhoReadsExecutions(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "policy: open\n")
	h.keys["audra"] = makeKey(t, h.d,
		api.KeyRequest{Name: "audra", Roles: []string{"auditor"}, Scopes: []string{"api"}})
	s := &scene{T: t, house: h, label: "r-"}
	id := s.begin("bot", api.RunRequest{Code: `1 + 1`}).ID
	for _, when := range []string{"now", "after a restart"} {
		for who, may := range map[string]bool{"": true, "audra": true, "bot": true, "dave": false, "vera": false,
			"carol": false} {
			c := h.d.Client()
			if who != "" {
				c = clientOf(h.d, h.keys[who])
			}
			page, err := c.Executions(t.Context(), api.ExecutionFilter{})
			if err != nil {
				t.Fatalf("when = %s, who = %q, err = %v, want nil", when, who, err)
			}
			d, err := c.Journal(t.Context(), id)
			if listed := len(page.Executions) == 1; listed != may || (err == nil) != may {
				t.Errorf("%s, %q: listed %t, read %v; want %t", when, who, listed, err, may)
			}
			if err == nil && d.Principal != "key:bot" {
				t.Errorf("%s, %q: of %s", when, who, d.Principal)
			}
		}
		h.restart(t, nil)
	}
}
