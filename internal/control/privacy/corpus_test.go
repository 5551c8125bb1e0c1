package privacy

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

var marked = regexp.MustCompile(`\{\{([a-z_]+)\|(.*?)\}\}`)

// A sample is a text of the test set with its personal data.
type sample struct {
	text string
	want []Match
}

func corpus(t testing.TB) (out []sample) {
	raw, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.ReplaceAll(line, `\n`, "\n")
		var s sample
		at := 0
		for _, m := range marked.FindAllStringSubmatchIndex(line, -1) {
			s.text += line[at:m[0]]
			start := len(s.text)
			s.text += line[m[4]:m[5]]
			s.want = append(s.want, Match{start, len(s.text), Kind(line[m[2]:m[3]])})
			at = m[1]
		}
		s.text += line[at:]
		out = append(out, s)
	}
	return out
}

// seen returns what is hidden in a sample. A sample that is JSON is treated as JSON.
func seen(t *testing.T, s sample) (out []Match) {
	if !json.Valid([]byte(s.text)) {
		return findPersonal(s.text, noCue)
	}
	sheet := New(Config{Store: newMemory()}).Sheet(t.Context(), tool.Scope{Owner: "ada"})
	raw := json.RawMessage(s.text)
	sheet.JSON(&raw)
	for _, e := range sheet.finds {
		i := strings.Index(s.text, e.Value)
		out = append(out, Match{i, i + len(e.Value), e.Kind})
	}
	return out
}

// TestCorpus measures precision and recall on the test set by kind, prints them (-v), and checks
// them. A find counts as right only if it covers exactly the marked bytes.
func TestCorpus(t *testing.T) {
	type score struct{ right, wrong, missed int }
	by := map[Kind]*score{}
	for _, k := range Kinds() {
		by[k] = &score{}
	}
	for _, s := range corpus(t) {
		got := seen(t, s)
		for _, m := range got {
			if slices.Contains(s.want, m) {
				by[m.Kind].right++
			} else {
				by[m.Kind].wrong++
				t.Logf("%s is not in %q: %q", m.Kind, s.text, s.text[m.Start:m.End])
			}
		}
		for _, m := range s.want {
			if !slices.Contains(got, m) {
				by[m.Kind].missed++
				t.Logf("missed %s in %q", m.Kind, s.text)
			}
		}
	}
	least := map[Kind][2]float64{Email: {0.99, 0.9}, Phone: {0.95, 0.88}, Card: {0.99, 0.93}}
	for _, k := range Kinds() {
		c := by[k]
		precision, recall := float64(c.right)/float64(c.right+c.wrong), float64(c.right)/float64(c.right+c.missed)
		fmt.Printf("%-18s precision %.3f  recall %.3f  (%d right, %d wrong, %d missed)\n", k, precision, recall,
			c.right, c.wrong, c.missed)
		floor, ok := least[k]
		if !ok {
			floor = [2]float64{0.99, 0.97}
		}
		if !(precision >= floor[0] && recall >= floor[1]) {
			t.Errorf("%s: precision %.3f, recall %.3f; at least %v", k, precision, recall, floor)
		}
	}
}
