package program

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Clients write clients of tools for programs in Go.
type Clients interface {
	// WriteClient returns the Go package "tools/<name>" with the tools that a principal can see of
	// an upstream, if uses reports true for them. If there is no such upstream, it
	// returns "" and the names that there are.
	WriteClient(who tool.Principal, name string, uses func(function string) bool) (source string, names []string)
}

// A compiler is the compiler of a language.
type compiler struct {
	program string          // the name that its programs run under
	place   *lazily.Pattern // matches a position in its messages and in stack traces
}

// compilerOf returns the compiler of a language; nil if programs in it are not compiled.
func compilerOf(language string) *compiler {
	switch language {
	case "go":
		return &goCompiler
	case "rust":
		return &rustCompiler
	case "java":
		return &javaCompiler
	}
	return nil
}

var (
	goCompiler   = compiler{"program.go", lazily.Regexp(`program\.go:(\d{1,9})(?::(\d{1,9}))?`)}
	rustCompiler = compiler{"program.rs", lazily.Regexp(`program\.rs:(\d{1,9})(?::(\d{1,9}))?`)}
	javaCompiler = compiler{"Program.java", lazily.Regexp(`[\p{L}\p{N}_]+\.java:(\d{1,9})(?::(\d{1,9}))?`)}
)

// prepareForCompiler prepares a program in a compiled language. Its compiler checks it.
func (p *Preparer) prepareForCompiler(q Request, language string) (*Program, *Error) {
	code, e := unwrapWhole(q.Source, language)
	if e != nil {
		return nil, e
	}
	c := compilerOf(language)
	prog := &Program{Runtime: language, Code: code, Name: c.program, Source: q.Source,
		traced: &traced{source: newLineTable(q.Source, plainLines), place: c.place.Get()}}
	switch language {
	case "java":
		prog.Name = mainClass(code) + ".java"
		if m := javaPackage.Get().FindStringSubmatch(maskJava(code)); m != nil {
			prog.Name = strings.ReplaceAll(m[1], ".", "/") + "/" + prog.Name
		}
	case "go":
		if !goPackage.Get().MatchString(code) {
			prog.Code = "package main; " + code // on the first line, so that the numbers stay the same
		}
		if prog.Files, e = p.writeClients(q.Principal, prog.Code); e != nil {
			return nil, e
		}
	}
	return prog, nil
}

// goPackage matches the package clause of Go source.
var goPackage = lazily.Regexp(`(?m)^[ \t]*package[ \t]+\w+`)

// writeClients returns the packages of upstreams that a program in Go imports.
func (p *Preparer) writeClients(who tool.Principal, code string) (map[string]string, *Error) {
	files := gotoken.NewFileSet()
	f, _ := parser.ParseFile(files, "", code, parser.ImportsOnly) // the compiler reports mistakes
	if p.cfg.Clients == nil || f == nil {
		return nil, nil
	}
	out := map[string]string{}
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		name, ours := strings.CutPrefix(path, "tools/")
		if err != nil || !ours {
			continue
		}
		source, names := p.cfg.Clients.WriteClient(who, name, usesOf(code, i, name))
		if source == "" {
			at := files.Position(i.Pos())
			return nil, &Error{Kind: "check", Line: at.Line, Column: at.Column, Message: "there is no upstream for " +
				"the import \"tools/" + name + "\": " + describeClients(names)}
		}
		out[name+"/"+name+".go"] = source
	}
	return out, nil
}

// maxClients is the number of names that an error lists.
const maxClients = 20

func describeClients(names []string) string {
	if len(names) == 0 {
		return "there are none. Call tools by their paths, with the package \"tools\": " +
			"tools.Call(\"upstream.tool\", args)"
	}
	more := ""
	if len(names) > maxClients {
		names, more = names[:maxClients], " and others"
	}
	return "there are tools/" + strings.Join(names, ", tools/") + more
}

// usesOf returns a function that reports whether a program uses a function of a package that it
// imports.
func usesOf(code string, i *ast.ImportSpec, name string) func(string) bool {
	if i.Name != nil {
		name = i.Name.Name
	}
	if name == "." || name == "_" {
		return func(string) bool { return name == "." }
	}
	used := map[string]bool{}
	for _, m := range goUse.Get().FindAllStringSubmatch(code, -1) {
		if m[1] == name {
			used[m[2]] = true
		}
	}
	return func(function string) bool {
		// It may only use one of the types.
		return used[function] || used[function+"Args"] || used[function+"Result"]
	}
}

// goUse matches a name of a package.
var goUse = lazily.Regexp(`\b(\w+)\.([A-Z]\w*)`)

// javaType matches the beginning of a type in Java.
var javaType = lazily.Regexp(`\b(public\s+)?(?:(?:final|abstract|sealed|strictfp)\s+)*` +
	`(?:class|record|enum|interface)\s+([\p{L}_$][\p{L}\p{N}_$]*)`)

// mainClass returns the name of the class that a program in Java begins with: its public type, or
// the first type that has a method main.
func mainClass(code string) string {
	first, depth, from := "", 0, 0
	top := maskJava(code)
	for _, at := range javaType.Get().FindAllStringSubmatchIndex(top, -1) {
		depth += strings.Count(top[from:at[0]], "{") - strings.Count(top[from:at[0]], "}")
		from = at[0]
		if depth > 0 {
			continue
		}
		name := top[at[4]:at[5]]
		if at[2] >= 0 {
			return name
		}
		if first == "" || !strings.Contains(top[:at[0]], "void main") {
			first = name
		}
	}
	if first == "" {
		return "Program"
	}
	return first
}

// javaPackage matches the package declaration of a program in Java.
var javaPackage = lazily.Regexp(`(?m)^[ \t]*package\s+([\w.]+)\s*;`)

// javaText matches comments and literals in Java.
var javaText = lazily.Regexp(`(?s)//[^\n]*|/\*.*?\*/|"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`)

// maskJava returns a program without its comments and literals.
func maskJava(code string) string { return javaText.Get().ReplaceAllString(code, " ") }
