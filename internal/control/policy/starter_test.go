package policy

import "testing"

// TestStarters checks the starter policies, since New doesn't.
func TestStarters(t *testing.T) {
	for _, name := range Starters() {
		f, ok := Starter(name)
		cfg := Config{Files: []File{f}}
		e, err := New(cfg)
		if !ok || err != nil || !cfg.isStarter() {
			t.Fatalf("%s, ok = %v, err = %v, want ok && err == nil && cfg.isStarter()", name, ok, err)
		}
		if problems := e.checkBase(); len(problems) > 0 {
			t.Errorf("%s, problems = %v, want len(problems) <= 0", name, problems)
		}
		other := Config{Files: []File{{f.Name, append([]byte("\n"), f.Text...)}}}
		if other.isStarter() || (Config{Files: []File{f, f}}).isStarter() || (Config{}).isStarter() {
			t.Errorf("%s: others count as policies that come with Biplane", name)
		}
	}
}
