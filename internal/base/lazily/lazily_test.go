package lazily_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

func TestRegexp(t *testing.T) {
	digits := lazily.Regexp(`^[0-9]+$`)
	again := digits.Get()
	if !digits.Get().MatchString("42") || digits.Get().MatchString("x") || again != digits.Get() {
		t.Error("it isn't the expression, or is made each time")
	}
}

func TestWords(t *testing.T) {
	set := lazily.Words("one two", " two\n\tthree ")
	if len(set.Get()) != 3 || !set.Has("one") || !set.Has("three") || set.Has("four") {
		t.Errorf("the set is %v, want one, two and three", set.Get())
	}
}
