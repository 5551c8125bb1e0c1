package daemon_test

import (
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestUsage checks that two keys see their own usage, an auditor sees all, and the next process
// still has it.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), newPeer(t)
	config := "auth: { keys: true }\nprices: { input: 1000000 }\nmcpServers: { peer: { url: '" + p.URL + "' } }"
	d, stop := run(t, dir, config)
	keys := map[string]string{}
	for name, roles := range map[string][]string{"ci": {"user"}, "bot": {"user"}, "books": {"auditor"},
		"screen": {"viewer"}} {
		keys[name] = makeKey(t, d, api.KeyRequest{Name: name, Roles: roles, Scopes: []string{"api", "mcp"}})
	}
	execute(t, clientOf(d, keys["ci"]), `for (let i = 0; i < 3; i++) await callTool("peer.echo", { n: i }); return 1`)
	s, err := agent(t, d, keys["bot"])
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	if _, err := call(t, s, "execute",
		map[string]any{"code": `return await callTool("peer.echo", { n: 1 })`}); err != nil {
		t.Fatalf("call: %v", err)
	}

	used := func(c *api.Client, by ...string) *api.Usage {
		t.Helper()
		u, err := c.Usage(t.Context(), api.UsageQuery{By: by})
		if err != nil {
			t.Fatalf("Usage: %v", err)
		}
		return u
	}
	check := func() {
		t.Helper()
		for name, want := range map[string]string{"ci": "key:ci 4", "bot": "key:bot 2", "screen": ""} {
			u := used(clientOf(d, keys[name]))
			got := ""
			for _, l := range u.Lines {
				got += l.Principal + " " + string('0'+rune(l.Calls))
			}
			if got != want || !u.Own {
				t.Errorf("%s sees %q, own: %t", name, got, u.Own)
			}
		}
		for name, c := range map[string]*api.Client{"an auditor": clientOf(d, keys["books"]),
			"the command line": d.Client()} {
			u := used(c, "agent", "client", "tool")
			found := 0
			for _, l := range u.Lines {
				if l.Agent == "bot" && l.Client == "agent/1" && l.Tool == "peer.echo" && l.Calls == 1 &&
					l.KeptOut > 0 && *l.SavedCost == float64(l.KeptOut) {
					found++
				}
				if l.Tool == "biplane.execute" &&
					(l.Executions != 1 || l.Written == 0 || l.Read == 0 || *l.Cost != float64(l.Read)) {
					t.Errorf("%s sees %+v", name, l)
				}
			}
			if u.Own || found != 1 || u.Total.Calls != 6 || u.Total.Executions != 2 || u.Currency != "USD" {
				t.Errorf("%s sees %+v", name, u)
			}
		}
	}
	check()
	if _, err := clientOf(d, keys["ci"]).Usage(t.Context(), api.UsageQuery{By: []string{"colour"}}); err == nil ||
		!strings.Contains(err.Error(), "colour") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "colour")`, err)
	}
	s.Close()
	stop()
	d, _ = run(t, dir, config)
	check()
}
