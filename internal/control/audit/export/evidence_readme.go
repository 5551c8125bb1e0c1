package export

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// The controls that the folder's files support.
const (
	cc61  = "SOC 2 CC6.1"
	cc62  = "SOC 2 CC6.2"
	cc63  = "SOC 2 CC6.3"
	cc66  = "SOC 2 CC6.6"
	cc72  = "SOC 2 CC7.2"
	cc73  = "SOC 2 CC7.3"
	cc81  = "SOC 2 CC8.1"
	h308  = "HIPAA 164.308(a)(1)(ii)(D)"
	h312a = "HIPAA 164.312(a)"
	h312b = "HIPAA 164.312(b)"
	h312c = "HIPAA 164.312(c)"
	h312d = "HIPAA 164.312(d)"
)

// controls are the controls in order, with their requirements in our own words.
var controls = []struct{ id, asks string }{
	{cc61, "access to systems and data is restricted"},
	{cc62, "users are registered and authorized before they get credentials, which are revoked in time"},
	{cc63, "access is based on roles and changes with them"},
	{cc66, "the system is protected against threats from outside its boundary"},
	{cc72, "the system is monitored for signs of malicious acts and failures"},
	{cc73, "events are evaluated to determine whether they are incidents"},
	{cc81, "changes are authorized, recorded and traceable"},
	{h308, "records of activity in information systems are reviewed regularly"},
	{h312a, "only users and programs with granted rights have access"},
	{h312b, "activity in systems with health information is recorded and can be examined"},
	{h312c, "information is protected from improper change, and this can be shown"},
	{h312d, "the identity of users who request access is verified"},
}

// buildReadme returns the README, which explains what each file shows.
func (e *Evidence) buildReadme(files []file) string {
	var b strings.Builder
	e.writeIntro(&b)
	b.WriteString("## What each file shows\n\n| file | what it shows | supports |\n|---|---|---|\n")
	for _, f := range files {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, f.shows, strings.Join(f.supports, ", "))
	}
	b.WriteString("| SHA256SUMS | Digests of all other files; `sha256sum -c SHA256SUMS` checks them. | |\n\n## By " +
		"control\n\n| control | requires that | see |\n|---|---|---|\n")
	for _, c := range controls {
		var see []string
		for _, f := range files {
			if slices.Contains(f.supports, c.id) {
				see = append(see, f.name)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.id, c.asks, strings.Join(see, ", "))
	}
	e.writeLimits(&b)
	return b.String()
}

func (e *Evidence) writeIntro(b *strings.Builder) {
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	fmt.Fprintf(b, "# Evidence from Biplane\n\n| | |\n|---|---|\n| period | from %s to before %s |\n| created | %s, "+
		"by %s, on %s |\n| record | %s |\n| Biplane | %s |\n| policy in effect | %s |\n| integrity | %s |\n| sandbox "+
		"| %s |\n\n",
		day(e.From), day(e.To), day(e.Made), tableCell(e.By), tableCell(e.Host), tableCell(e.Origin),
		tableCell(e.Version), tableCell(e.Policy), tableCell(e.Integrity.Summary), e.describeProbe())
	b.WriteString("This folder supports an assessment of the controls named below. It doesn't certify anything: the " +
		"assessor decides whether\na control is met, and most controls also need evidence from outside Biplane.\n\n")
}

// tableCell formats s as a table cell.
func tableCell(s string) string {
	if s == "" {
		return "-"
	}
	return strings.NewReplacer("\n", " ", "|", "\\|", "<", "&lt;").Replace(s)
}

func (e *Evidence) describeProbe() string {
	bad := 0
	for _, p := range e.Probes {
		if !p.OK {
			bad++
		}
	}
	switch {
	case len(e.Probes) == 0:
		return "not probed"
	case bad > 0:
		return fmt.Sprintf("%d of %d checks FAILED: see sandbox.json", bad, len(e.Probes))
	}
	return fmt.Sprintf("%d checks, all passed", len(e.Probes))
}

// writeLimits writes what the folder doesn't show.
func (e *Evidence) writeLimits(b *strings.Builder) {
	b.WriteString(`
## What this doesn't show

- Inventory, access and sandbox show the state at the time this folder was created, not over the whole period. Earlier changes are in changes.csv.
- Actions of people and programs outside Biplane are not in its record.
- Times come from the host's clock.
- The content of arguments and results is not included, only keyed digests. Stored content is shown by
  ` + "`biplane audit show RECORD`" + ` on the machine itself.
- Integrity: the proofs show that nothing was changed since a checkpoint was signed. A person with the data folder's key
  could rewrite the whole record, and a person who can write to the folder could replace it by an older copy.
  Only a checkpoint that is stored elsewhere reveals this. Compare
  integrity/checkpoint.txt with the checkpoints that left the machine (see docs/audit.md).
`)
	if e.Anyone != "" {
		b.WriteString("- " + tableCell(e.Anyone) + "\n")
	}
	n := 0
	for _, err := range e.Records(audit.KindApproval) {
		if err == nil {
			n++
		}
		break
	}
	if n == 0 {
		b.WriteString("- approvals.csv is empty: no call was decided on in this period. Calls need approval only if " +
			"a policy says `ask`.\n")
	}
}
