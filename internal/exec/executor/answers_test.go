package executor_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the actual answers into testdata/answers")

// variable matches what differs between two runs of a program.
var variable = regexp.MustCompile(`ex_[a-z0-9]{20}|\b[0-9.]+ m?s\b`)

// TestAnswers holds what agents read about failed and doubtful programs. Each archive in
// testdata/answers has programs, and after each program the text blocks of its answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/answers/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	r := newFormRig(t)
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatalf("txtar.ParseFile: %v", err)
		}
		language := strings.TrimSuffix(filepath.Base(file), ".txtar")
		out := &txtar.Archive{Comment: ar.Comment}
		for i, f := range ar.Files {
			if f.Name == "answer" {
				continue
			}
			got := variable.ReplaceAllString(r.answer(language, string(f.Data)), "...") + "\n"
			out.Files = append(out.Files, f, txtar.File{Name: "answer", Data: []byte(got)})
			want := ""
			if i+1 < len(ar.Files) && ar.Files[i+1].Name == "answer" {
				want = string(ar.Files[i+1].Data)
			}
			if got != want && !*update {
				t.Errorf("%s: %s\n got: %s\nwant: %s", file, f.Name, got, want)
			}
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
		}
	}
}

// answer returns the text that an agent reads about a program.
func (r *formRig) answer(language, code string) string {
	res, err := r.execute(r.t.Context(), map[string]any{"code": code, "language": language})
	if err != nil {
		return "error: " + err.Error()
	}
	return strings.Join(textsOf(r.t, res), "\n---\n")
}
