package lazily_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

func TestRegexp(t *testing.T) {
	digits := lazily.Regexp(`^[0-9]+$`)
	again := digits()
	if !digits().MatchString("42") || digits().MatchString("x") || again != digits() {
		t.Error("it isn't the expression, or is made each time")
	}
}

func TestWords(t *testing.T) {
	set := lazily.Words("one two", " two\n\tthree ")
	if len(set()) != 3 || !set()["one"] || !set()["three"] || set()["four"] {
		t.Errorf(`set() = %v, want len(set()) == 3 && set()["one"] && set()["three"] && !set()["four"]`, set())
	}
}
