package program_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// pieces are statements; @ stands for a unique name, whose position must be found again.
var pieces = []string{
	"@();", "const a% = @({ x: 1 });", "  let b% = [@, 2]", "if (@) { @() } else @()", "type T% = { a: number };",
	"// @ in a comment\n",
	"/* @ */", "interface I% { f(x: string): void }", "function f%(x: number): string { return @(x as any) }",
	"enum E% { A = 1, B }",
	"const s% = `t${@}u\n${@ + `${@}`}`;", "const u% = \"π😀\", v% = @;",
	"class C%<T> { #p = @; m(): T { return @() } }", "try { @() } catch (e) { @(e) } finally { @() }",
	"for (const x of @) { @(x) }", "const g% = async <T,>(x: T): Promise<T> => { await @; return x };",
	"@\n  .b()\n  .c(@);",
	"switch (@) { case 1: @(); break; default: @ }", "export const h% = @;", "label%: for (;;) { break label% }",
	"\tconst t% = <any>@;",
	"declare const d%: number;", "import { m% } from \"./tools/x\"; m%(@);", "const r% = /a\\/[/]b/.test(@);",
	"await (async () => { @() })();",
	"@!.x; @ satisfies unknown;", "abstract class B% { abstract z(): void; y = @ }",
	"const o% = { \"k\": @, [@]: 1, n() { @() } };",
}

// TestPositions prepares programs made of pieces, in fences and with all line ends. Each name in
// the final code must be mapped to its position in the text.
func TestPositions(t *testing.T) {
	p := program.New(program.Config{})
	rapid.Check(t, func(t *rapid.T) {
		n, names := 0, 0
		var b strings.Builder
		for range rapid.IntRange(1, 12).Draw(t, "statements") {
			piece := rapid.SampledFrom(pieces).Draw(t, "piece")
			n++
			piece = strings.ReplaceAll(piece, "%", fmt.Sprint(n))
			for strings.Contains(piece, "@") {
				names++
				piece = strings.Replace(piece, "@", fmt.Sprintf("mark_%d_", names), 1)
			}
			b.WriteString(piece + rapid.SampledFrom([]string{"\n", ";\n", "\n\n", "\n  ", ";  "}).Draw(t, "end"))
		}
		source := b.String()
		switch rapid.IntRange(0, 4).Draw(t, "around") {
		case 0:
			source = "Here it is, isn't it:\n\n```ts\n" + source + "\n```\nThat's π all.\n"
		case 1:
			source = "\ufeff" + source
		case 2:
			source = strings.ReplaceAll(source, "<", "&lt;")
		}
		if rapid.Bool().Draw(t, "crlf") {
			source = strings.ReplaceAll(source, "\n", "\r\n")
		}
		prog, err := p.Prepare(program.Request{Source: source, Session: rapid.Bool().Draw(t, "session")})
		if err != nil {
			t.Fatalf("Prepare: %v", err)
		}
		for line, text := range strings.Split(prog.Code, "\n") {
			for at := 0; ; {
				i := strings.Index(text[at:], "mark_")
				if i < 0 {
					break
				}
				at += i
				name := text[at : at+strings.Index(text[at+5:], "_")+6]
				l, c, ok := prog.Position(line+1, at+1)
				if wl, wc := placeOf(source, name); !ok || l != wl || c != wc {
					t.Fatalf("%s at %d:%d is said to be at %d:%d (%v), not %d:%d\n%s\n%s", name, line+1, at+1, l, c, ok,
						wl, wc, source, prog.Code)
				}
				at += len(name)
			}
		}
	})
}

// placeOf returns the line and column of a name in a text.
func placeOf(s, name string) (line, col int) {
	i := strings.Index(s, name)
	before := strings.TrimPrefix(s[:i], "\ufeff")
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1
}

// TestFrames checks the frames of unusual positions.
func TestFrames(t *testing.T) {
	p, err := program.New(program.Config{}).Prepare(
		program.Request{Source: "1\n\n\n2;" + strings.Repeat("x", 300) + "\n"})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	for _, c := range []struct {
		line, col int
		want      string
	}{
		{0, 1, ""}, {9, 1, ""}, {1, 1, "> 1 | 1\n    | ^"}, {1, 99, "> 1 | 1\n    |  ^"},
		{4, 250, "> 4 | …" + strings.Repeat("x", 112) + "\n    | " + strings.Repeat(" ", 60) + "^"},
	} {
		if got := p.Frame(c.line, c.col); got != c.want {
			t.Errorf("%d:%d\n%s\nwant\n%s", c.line, c.col, got, c.want)
		}
	}
	for _, stack := range []string{"", "at f (native)", "program.js:99:99", "program.js:0:0",
		"at x (program.js:99999999999:1)", "program.js:1"} {
		if l, c, ok := p.Locate(stack); ok {
			t.Errorf("%q is at %d:%d", stack, l, c)
		}
	}
}

func TestCalledAt(t *testing.T) {
	for text, want := range map[string]string{
		`text.^spilt(",")`:                       "text.spilt",
		`text.spilt(^sep)`:                       "text.spilt",
		`o.a.nope(JSON.parse("3"), ^o.x)`:        "o.a.nope",
		`o.nope(Math.^abs(1))`:                   "o.nope",
		`console.log(s.^spilt(","))`:             "s.spilt",
		`show(s.^spilt(","))`:                    "s.spilt or show",
		`f(g(h(^x)))`:                            "h or g or f",
		`a(b(c(d(^x))))`:                         "d or c or b",
		`Math.^foo(1)`:                           "Math.foo",
		`list.map((x) => x.^foo())`:              "x.foo",
		`list.map((x) => { return x.foo(^y); })`: "x.foo",
		"o.nope(\n  1, // (one\n  ^x,\n)":        "o.nope",
		`if (o.^nope()) {}`:                      "o.nope",
		`const a = (o.^nope());`:                 "o.nope",
		`f(")", ^x)`:                             "f",
		`list[0](^x)`:                            "",
		`g().h(^x)`:                              "",
		`f([^x])`:                                "f",
		`const y = ^x`:                           "",
		`o?.nope?.(^x)`:                          "o?.nope",
	} {
		before, after, _ := strings.Cut(text, "^")
		prog, err := program.New(program.Config{}).Prepare(program.Request{Source: before + after})
		if err != nil {
			t.Fatalf("Prepare(%q): %v", text, err)
		}
		line := strings.Count(before, "\n") + 1
		col := len(before) - strings.LastIndex(before, "\n")
		if got := strings.Join(prog.CalledAt(line, col), " or "); got != want {
			t.Errorf("CalledAt(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestNameAt(t *testing.T) {
	const text = "const s = 1;\nawait s.spilt(); é.ü.map(1); a?.b.c(); f(); x[0].go(); g().h();"
	prog, err := program.New(program.Config{}).Prepare(program.Request{Source: text})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	line := strings.Split(text, "\n")[1]
	for at, want := range map[string]string{
		"spilt": "s.spilt", "map": "é.ü.map", "c(": "a?.b.c", "f(": "f", "go": "", "h(": "", "(1": "",
	} {
		col := utf8.RuneCountInString(line[:strings.Index(line, at)]) + 1
		if got := prog.NameAt(2, col); got != want {
			t.Errorf("at %q: %q, not %q", at, got, want)
		}
	}
	for _, place := range [][2]int{{0, 1}, {3, 1}, {1, 0}, {1, 100}} {
		if got := prog.NameAt(place[0], place[1]); got != "" {
			t.Errorf("at %v: %q", place, got)
		}
	}
}
