//go:build linux

package process_test

import (
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// compiledSpec is for programs that are compiled.
var compiledSpec = sandbox.Spec{Memory: 512 << 20, CPU: 2 * time.Minute}

// A compiledProgram is a program in a compiled language, and what it must do.
type compiledProgram struct {
	name, code string
	value      string // of a program that ends well
	failure    string // part of the error of one that doesn't
}

var compiledPrograms = map[string][]compiledProgram{
	"go": {
		{"program.go", `package main

import (
	"fmt"
	"os"
	"sync"
	"tools"
)

func main() {
	var all sync.WaitGroup
	out := make([]string, 8)
	for i := range out {
		all.Add(1)
		go func() {
			defer all.Done()
			v, err := tools.Call("test.echo", map[string]any{"n": 9007199254740993, "text": "ä\n\"x"})
			out[i] = fmt.Sprint(v, err)
		}()
	}
	all.Wait()
	for _, o := range out {
		if o != out[0] {
			panic(o)
		}
	}
	_, err := tools.Call("test.fail", nil)
	fmt.Println(out[0], err, os.Getpid() > 1)
}
`, `"{\"args\":{\"n\":9007199254740993,\"text\":\"ä\\n\\\"x\"},\"path\":\"test.echo\"} <nil> it failed true"`, ""},
		{"program.go", "package main\n\nfunc main() {\n\tx := 1\n}\n", "", "program.go:4:2: declared and not used: x"},
		{"program.go", "package main\n\nfunc main() {\n\tpanic(\"oh\")\n}\n", "", "panic: oh"},
		{"program.go", "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(3) }\n", "",
			"the program ended with exit status 3"},
		{"program.go", "package main\n\nfunc main() {\n\tvar all [][]byte\n\tfor {\n\t\tb := make([]byte, 1<<20)\n" +
			"\t\tfor i := range b {\n\t\t\tb[i] = 1\n\t\t}\n\t\tall = append(all, b)\n\t}\n}\n", "", "limit (memory)"},
	},
	"rust": {
		{"program.rs", `use std::thread;

fn main() {
    let calls: Vec<_> = (0..8).map(|_| thread::spawn(|| {
        tools::call("test.echo", tools::object! {"n": 9007199254740993i64, "text": "ä\n\"x"}).unwrap().to_string()
    })).collect();
    let out: Vec<String> = calls.into_iter().map(|c| c.join().unwrap()).collect();
    assert!(out.iter().all(|o| *o == out[0]));
    let fail = tools::call("test.fail", tools::Json::Null).unwrap_err();
    println!("{} {} {}", out[0], fail, tools::Json::parse("[1, \"\\ud83d\\ude00\", null]").unwrap());
}
`, `"{\"args\":{\"n\":9007199254740993,\"text\":\"ä\\u000a\\\"x\"},\"path\":\"test.echo\"} ` +
			`it failed [1,\"😀\",null]"`, ""},
		{"program.rs", "fn main() {\n    let x: i32 = \"a\";\n}\n", "", "program.rs:2:18"},
		{"program.rs", "fn main() {\n    panic!(\"oh\");\n}\n", "", "program.rs:2:5"},
	},
	"java": {
		{"Main.java", `import java.util.*;
import java.util.stream.*;

public class Main {
    public static void main(String[] args) {
        List<String> out = IntStream.range(0, 8).parallel()
            .mapToObj(i -> Tools.toJson(Tools.call("test.echo", "n", 9007199254740993L, "text", "ä\n\"x")))
            .collect(Collectors.toList());
        for (String o : out) {
            if (!o.equals(out.get(0))) throw new IllegalStateException(o);
        }
        String fail = "";
        try {
            Tools.call("test.fail");
        } catch (Tools.ToolException e) {
            fail = e.kind + ": " + e.getMessage();
        }
        System.out.println(out.get(0) + " " + fail);
    }
}
`, `"{\"args\":{\"n\":9007199254740993,\"text\":\"ä\\u000a\\\"x\"},\"path\":\"test.echo\"} denied: it failed"`, ""},
		{"Main.java", "class Main {\n    int x = \"a\";\n}\n", "", "Main.java:2: error"},
		{"Main.java", "class Main {\n  public static void main(String[] a) {\n" +
			"    throw new RuntimeException(\"oh\");\n  }\n}\n", "", "Main.java:3"},
	},
}

// TestCompiledPrograms runs programs in compiled languages, with the toolchains of the host.
func TestCompiledPrograms(t *testing.T) {
	d := newDriver(t, process.Config{Libraries: t.TempDir()})
	caps, err := d.Probe(t.Context())
	if err != nil {
		t.Fatalf("Probe: %v", err)
	}
	for _, language := range []string{"go", "rust", "java"} {
		t.Run(language, func(t *testing.T) {
			if why := caps.Unavailable[language]; why != "" {
				t.Skip(why)
			}
			spec := compiledSpec
			spec.Runtime = language
			box, err := d.Create(t.Context(), spec)
			if err != nil {
				t.Fatalf("Create: %v", err)
			}
			defer box.Close()
			host := sandboxtest.Host{Call: echoCall, Keep: true}
			for _, p := range compiledPrograms[language] {
				checkCompiled(t, host.Run(t.Context(), box, sandbox.Run{Code: p.code, Name: p.name, Session: true}), p)
			}
		})
	}
	checkNothingLeft(t)
}

func checkCompiled(t *testing.T, o *sandboxtest.Outcome, p compiledProgram) {
	t.Helper()
	switch {
	case p.failure == "" && (!o.Done || string(o.Value) != p.value):
		t.Errorf("%s\n%v\nconsole %v, want %s", p.code, o, o.Console, p.value)
	case p.failure != "" && (o.Fail == nil || !strings.Contains(o.Fail.Message, p.failure)):
		t.Errorf("%s\n%v, want a failure with %q", p.code, o, p.failure)
	}
}

// TestCompilerLimits checks that the compiler has the limits of the sandbox.
func TestCompilerLimits(t *testing.T) {
	d := newDriver(t, process.Config{})
	if caps, err := d.Probe(t.Context()); err != nil || caps.Unavailable["go"] != "" {
		t.Skipf("Go can't run here: %v, %v", caps.Unavailable["go"], err)
	}
	box, err := d.Create(t.Context(), sandbox.Spec{Runtime: "go", CPU: 300 * time.Millisecond})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	defer box.Close()
	o := sandboxtest.Host{}.Run(t.Context(), box, sandbox.Run{Name: "program.go",
		Code: "package main\n\nimport _ \"net/http\"\n\nfunc main() {}\n"})
	if o.Limit() != "cpu" {
		t.Errorf("%v, want the limit of CPU time", o)
	}
}

// TestShellBuildsGo builds and runs a Go program in a shell.
func TestShellBuildsGo(t *testing.T) {
	d := newShellDriver(t, process.Config{})
	if caps, _ := d.Probe(t.Context()); caps.Unavailable["go"] != "" {
		t.Skip(caps.Unavailable["go"])
	}
	o := runScript(t, d, compiledSpec, "set -e\nmkdir hello; cd hello; go mod init example.com/hello 2>/dev/null\n"+
		"printf 'package main\\n\\nfunc main() { println(6 * 7) }\\n' > main.go\ngo build -o hello .\n./hello 2>&1\n"+
		"ls -A /workspace | tr '\\n' ' '")
	if string(o.Value) != `"42\nhello skills workspace "` {
		t.Errorf("%v, console %v, want 42, and no files of the compiler in /workspace", o, o.Console)
	}
}
