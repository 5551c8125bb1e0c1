package program_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
)

// bombs are programs that make parsers recurse or take more than linear time: a head, a repeated
// part, and a tail. After a line break, the second part is repeated after the tail.
var bombs = [][3]string{
	{"", "(|)", "a"}, {"", "[|]", "1"}, {"", "{|}", "a"}, {"", "`${|}`", "1"}, {"x=", "{a:|}", "1"},
	{"", "function f(){|}", ""},
	{"", "class A{static{|}}", ""}, {"", "(class{x=|})", "1"}, {"let ", "[|]", "a"}, {"let ", "{a:|}", "b"},
	{"", "f<|>", "a"},
	{"type A=", "A[|]", "B"}, {"type A=", "(|)", "B"}, {"type A=", "{a:|}", "B"}, {"", "a<b>(|)", "c"},
	{"", "f(a<b,c>(|))", "d"},
	{"", "(a:(|)=>b)=>c", "d"}, {"", "({a=|})=>1", "b"}, {"", "try{|}catch{}", ""}, {"", "switch(a){case |:}", "1"},
	{"", "namespace A{|}", ""}, {"", "async()=>{|}", ""}, {"", "()=>{let a=b,c=d;|}", ""}, {"", "(a=>{|})(1);", ""},
	{"", "function f(a,b,c){var d;|}", ""}, {"", "if(a){let b;|}", ""}, {"", "f(function(){return |})", "1"},
	{"", "{let a;|}", ""},
	{"", "a?(b):c=>{|}:d", ""}, {"", "a?(b):c=>[|]:d", ""}, {"type A=B extends ", "infer C extends (|)", "D"},
	{"", "break;", ""}, {"", "new.target;", ""}, {"", "a:a:a:b;", ""}, {"", "const a=1;", ""},
	{"", "function f(){}", ""},
	{"", "a===NaN;", ""}, {"'use strict';", "017;", ""}, {"", "class A{#a;#a}", ""}, {"class A{", "#a;", "}"},
	{"", "enum A{a}", ""},
	{"", "let{a,a}=b;", ""}, {"(", "a,", "b)=>1"}, {"import{", "a,", "}from'b'"}, {"export{", "a,", "}"},
	{"x={", "__proto__:1,", "}"},
	{"", "for(const a of b)var a;", ""}, {"switch(a){", "default:", "}"}, {"", "typeof a==='b';", ""},
	{"", "import.meta;", ""},
	{"import 'a';", "017;", ""}, {"import 'a';", "delete a;", ""}, {"import 'a';", "'\\1';", ""},
	{"import 'a';", "with(a)b;", ""},
	{"import 'a';", "eval=1;", ""}, {"import 'a';", "let=1;", ""}, {"import 'a';", "interface=1;", ""},
	{"", "break\n", ""},
	{"", "class A extends B{constructor(){super();super()}}", ""}, {"", "a:{break b}", ""}, {"", "yield;", ""},
	{"", "/(/;", ""},
	{"", "(", ""}, {"", "[", ""}, {"", "{", ""}, {"", "`${", ""}, {"", "{a:", ""}, {"", "a?", ""}, {"", "a=>", "a"},
	{"", "(a)=>", "a"}, {"", "async(a)=>", "a"}, {"", "!", "a"}, {"", "- ", "a"}, {"", "typeof ", "a"},
	{"", "new ", "a"},
	{"", "await ", "a"}, {"", "a.", "a"}, {"", "a?.", "a"}, {"a", "()", ""}, {"a", "[0]", ""}, {"a", "``", ""},
	{"", "a+", "a"},
	{"", "a,", "a"}, {"{", "a,", "a}"}, {"(", "a,", "a)"}, {"x[", "a,", "a]"}, {"{}(", "a,", "a)"},
	{"if(x)(", "a,", "a)"},
	{"", "a=", "a"}, {"", "a**", "a"}, {"", "a??", "a"}, {"", "a?b:", "c"}, {"", "a?b?", "c"}, {"", "if(a)", "b"},
	{"", "if(a)b;else ", "c"}, {"", "if(a){b}else ", "c"}, {"", "a:", "b"}, {"", "for(;;)", "b"}, {"", "while(1)", "b"},
	{"", "do ", "b"}, {"", "with(a)", "b"}, {"", "function f(){", ""}, {"", "class A{static{", ""},
	{"", "class A extends ", "B{}"},
	{"", "(class{x=", ""}, {"let ", "[", ""}, {"let ", "{a:", ""}, {"", "<T>", "x"}, {"", "f<", ""},
	{"type A=", "A[", ""},
	{"type A=", "keyof ", "B"}, {"type A=", "B extends C?D:", "E"}, {"type A=", "(", ""}, {"type A=", "{a:", ""},
	{"type A=", "A|", "B"}, {"type A=B", "[]", ""}, {"type A=", "()=>", "B"}, {"type A=", "new()=>", "B"},
	{"x", " as any", ""}, {"x", "!", ""}, {"", "a?(b):", "c"}, {"", "a?(b):c=>", "d"}, {"", "a<b>(", ""},
	{"", "a?(b,c):d=>(", ""},
	{"", "(a:(", ""}, {"", "({a=", ""}, {"", "try{", ""}, {"", "switch(a){case ", ""}, {"", "yield ", "a"},
	{"", "@a ", "class A{}"},
	{"namespace A", ".a", "{}"}, {"", "namespace A{", ""}, {"import a=", "b.", "c"}, {"", "export default ", "1"},
	{"", "import(", ""},
	{"", "import{a}from'b';", "1"}, {"", "/*", ""}, {"", "//", ""}, {"", "/", ""}, {"", "'", ""}, {"", "\\u{", ""},
	{"", "```\n", ""},
	{"", "```ts\n1\n```\n", ""}, {"", "`", ""}, {"", "a\n", ""}, {"", ";", ""}, {"", "a;", ""}, {"[", "1,", "]"},
	{"f(", "1,", ")"},
	{"x={", "a:1,", "}"}, {"x={", "a,", "}"}, {"", "let a1=1;{", "}"}, {"", "var a;", ""}, {"enum A{", "a,", "}"},
	{"a=", "'x'+", "1"},
	{"", "a\n++\n", ""}, {"x=", "async ", "y"}, {"for(const x of ", "(", ""}, {"", "}", ""}, {"", ")", ""},
	{"", "&gt;", ""}, {"1", `\n`, "="},
	{"", "const a=", "1"}, {"var a", ",a", ""}, {"const {a}=b", ",{c}=d", ""}, {"", "(a,b,c,d,e,f,g)=>", "1"},
	{"", "a<b,", "c"}, {"", "f(a<b,c>(", ""},
	{"", "case 1:", ""}, {"x=`", "${1}", "`"}, {"", "#", ""}, {"", "export{a as default};", ""}, {"", "if(a){}", ""},
	{"", "async()=>{}\n", ""},
	{"", "function main(){}", ""}, {"", "import x,", ""}, {"", "0 as x satisfies y,", "1"},
	{"", "abstract class A{abstract ", "}"},
	{"type A=B extends ", "infer C extends (", ""}, {"", "a?b,(c):d=>", "e"}, {"", "a?async(b):c=>", "d"},
	{"", "a?(b):c=>{d;", ""}, {"", "a?(b):c=>[1,", ""},
}

// TestBombs prepares programs that would exhaust the stack or take more than linear time without
// the bounds. It passes if all return within the test's deadline. PROGRAM_BOMBS=all tries many
// more, for minutes.
func TestBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	p := program.New(program.Config{})
	try := func(source string, b [3]string, n int) {
		start := time.Now()
		_, err := p.Prepare(program.Request{Source: source})
		if d := time.Since(start); d > time.Second {
			t.Logf("%q x %d, %d bytes: %v (%.60s)", b, n, len(source), d, fmt.Sprint(err))
		}
	}
	all := os.Getenv("PROGRAM_BOMBS") == "all"
	for _, b := range bombs {
		before, after, _ := strings.Cut(b[1], "|")
		full := (256<<10 - len(b[0]) - len(b[2])) / (len(before) + len(after))
		sizes := []int{300, full}
		if all {
			sizes = []int{60, 190, 300, 490, 900, full}
		}
		for _, n := range sizes {
			one := b[0] + strings.Repeat(before, n) + b[2] + strings.Repeat(after, n)
			try(one, b, n)
			if some := (256 << 10) / (len(one) + 2); all && some > 1 {
				try(strings.Repeat(one+";\n", some), b, n)
			}
		}
	}
}

// TestLargePrograms prepares programs that are large but reasonable.
func TestLargePrograms(t *testing.T) {
	rows := strings.Repeat(`{"id": 17, "name": "a name", "tags": ["x", "y"], "nested": {"at": [1, 2, {"deep": `+
		`null}]}, "ok": true},`+"\n", 2200)
	body := strings.ReplaceAll(fiftyLines, "return { total", "if (1) return { total")
	for name, source := range map[string]string{
		"data":      "const rows = [" + rows + "];\nrows.length",
		"data bare": "[" + strings.ReplaceAll(rows, `"`, "'") + "]",
		"one line":  "const rows = [" + strings.ReplaceAll(rows, "\n", " ") + "]; rows.length",
		"unquoted": "const rows = [" + strings.NewReplacer(`"id"`, "id", `"name"`, "name", `"ok"`,
			"ok").Replace(rows) + "];\nrows.length",
		"blocks":        strings.Repeat("{\n"+body+"}\n", 60),
		"functions":     strings.Repeat("async function f() {\n"+body+"}\n", 60),
		"no semicolons": strings.ReplaceAll(strings.Repeat("{\n"+body+"}\n", 60), ";\n", "\n"),
		"sum":           "const s = " + strings.Repeat(`"a line\n" + `, 300) + `"";`,
		"template":      "const s = `" + strings.Repeat("line ${1 + 1} and ${[1].map((x) => `<${x}>`)}\n", 900) + "`;",
		"else if":       "const x = 1;\n" + strings.Repeat("if (x === 5) { console.log(x); }\nelse ", 120) + "{ }",
		"chain":         "const q = [1]" + strings.Repeat("\n  .map((x) => x + 1)", 150) + ";",
		"cases":         "switch (1 + 1) {\n" + strings.Repeat("case 1: {\n  console.log(1)\n  break\n}\n", 800) + "}",
		"calls":         strings.Repeat("console.log(a, b, c, a, b, c)\n", 6000),
		"object":        "const o = {" + strings.Repeat("f(a, b) { return [a, b] },\n", 150) + "};",
		"union":         "type A = " + strings.Repeat(`| "a"`, 400) + ";\nconst a: A = 'a'; a",
		"enum":          "enum A {" + strings.Repeat("x = 1,\n", 1) + "}\nA.x",
		"promises": "await Promise.all([\n" +
			strings.Repeat("  (async () => { const r = await search('x'); return r.length })(),\n", 800) + "])",
	} {
		if _, err := program.New(program.Config{}).Prepare(program.Request{Source: source}); err != nil {
			t.Errorf("%s (%d bytes): %.300v", name, len(source), err)
		}
	}
}
