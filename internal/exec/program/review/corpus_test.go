package review_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// A sample is a labelled program of a corpus.
type sample struct {
	name     string
	language string
	expected []string // the rules that a person expects
	source   string
}

// readCorpus returns the programs of a corpus. The secrets in them are made here, so that no file
// contains one.
func readCorpus(t *testing.T, file string) (out []sample) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatalf("read the corpus: %v", err)
	}
	sum := sha256.Sum256([]byte("a random text"))
	random := strings.NewReplacer("+", "a", "/", "b", "=", "").Replace(base64.StdEncoding.EncodeToString(sum[:]))
	secrets := strings.NewReplacer("{{AWS}}", "AKIA"+"QX7ZK2MBV4NDT5RW", "{{GITHUB}}", "ghp"+"_"+random[:36],
		"{{STRIPE}}", "sk"+"_live_"+random[:24], "{{SLACK}}", "xoxb"+"-123456789012-"+random[:24],
		"{{RANDOM32}}", random[:32], "{{RANDOM40}}", random[:40])
	for _, f := range a.Files {
		s := sample{name: f.Name, language: "typescript", source: secrets.Replace(string(f.Data))}
		if strings.HasSuffix(f.Name, ".py") {
			s.language = "python"
		}
		if strings.HasSuffix(f.Name, ".sh") {
			s.language = "bash"
		}
		if label := path.Dir(f.Name); label != "clean" {
			s.expected = strings.Split(label, "+")
		}
		out = append(out, s)
	}
	return out
}

// measure returns the precision and the recall over all pairs of a program and a rule.
func measure(t *testing.T, samples []sample) (precision, recall float64) {
	t.Helper()
	var right, wrong, missed int
	for _, s := range samples {
		p, err := program.New(program.Config{}).Prepare(program.Request{Source: s.source, Language: s.language})
		if err != nil {
			t.Fatalf("prepare %s: %v", s.name, err)
		}
		found := map[string]bool{}
		for _, f := range p.Findings {
			found[f.Rule] = true
			if f.Line < 1 || f.Line > strings.Count(s.source, "\n")+1 || f.Better == "" {
				t.Errorf("%s: a finding without a line or a better form: %+v", s.name, f)
			}
		}
		for _, rule := range s.expected {
			if found[rule] {
				right++
			} else {
				missed++
				t.Logf("%s: missed %s", s.name, rule)
			}
		}
		for _, f := range p.Findings {
			if found[f.Rule] && !slices.Contains(s.expected, f.Rule) {
				wrong++
				t.Logf("%s: wrong: %s", s.name, f)
			}
			found[f.Rule] = false
		}
	}
	return float64(right) / float64(right+wrong), float64(right) / float64(right+missed)
}

// TestCorpus measures the rules on labelled programs. The second corpus is held out: it was written
// before the rules were run, and they are not tuned on it.
func TestCorpus(t *testing.T) {
	for _, file := range []string{"tuning", "heldout", "bash"} {
		t.Run(file, func(t *testing.T) {
			samples := readCorpus(t, "testdata/"+file+".txtar")
			faulty := slices.IndexFunc(samples, func(s sample) bool { return len(s.expected) == 0 })
			precision, recall := measure(t, samples)
			report := fmt.Sprintf("%s: %d programs with faults, %d without; precision %.3f, recall %.3f", file, faulty,
				len(samples)-faulty, precision, recall)
			if t.Log(report); precision <= 0.9 || recall <= 0.9 {
				t.Errorf("%s; at least 0.9 is expected", report)
			}
		})
	}
}
