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
	for w, want := range map[string]bool{"one": true, "two": true, "three": true, "four": false, "": false} {
		if set.Has(w) != want {
			t.Errorf("Has(%q) = %v, want %v", w, !want, want)
		}
	}
}

func TestValue(t *testing.T) {
	calls := 0
	v := lazily.Value[int]{Make: func() int { calls++; return 42 }}
	if calls != 0 || v.Get() != 42 || v.Get() != 42 || calls != 1 {
		t.Errorf("Get() = %d after %d calls of Make, want 42 after one", v.Get(), calls)
	}
}
