package check

import (
	"strings"
	"testing"
)

func TestCallsUndeclared(t *testing.T) {
	for source, want := range map[string]bool{
		`await list_directory({ path: "." })`:                     true,
		"x = list_directory(path='.')\nprint(x)":                  true,
		`console.log(parseInt("1")); if (true) await f.g(1)`:      false,
		`const add = (a, b) => a + b; add(1, 2)`:                  false,
		`function add(a) { return a } add(1)`:                     false,
		"def add(a):\n  return a\nprint(add(1))":                  false,
		`import { read } from "./tools/files"; await read("x")`:   false,
		`const { map } = files; map(1)`:                           false,
		"async function* gen() {} for await (const x of gen()) 1": false,
		``: false,
	} {
		if got := CallsUndeclared(source); got != want {
			t.Errorf("%s: got %t, want %t", source, got, want)
		}
	}
	CallsUndeclared(strings.Repeat("f(", 1<<19)) // each name is looked for once
}
