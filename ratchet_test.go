package biplane_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// A ratchet counts something that should become rare. Its ceiling may only fall: lower it to the
// count that the test reports.
type ratchet struct {
	name    string
	ceiling int
	advice  string
	count   func(*tree) []string // the occurrences, each with its place
}

var ratchets = []ratchet{
	{"words that comments avoid", 0, "use the standard word: returns, accepts, the caller, again", avoidedWords},
	{"comment lines over 100 columns", 0, "wrap the comment", wideComments},
	{"code lines over 120 columns", 224, "break the line", wideCode},
	{"one-word function names", 1965, "name the object, too: parseHeader, not parse", oneWordNames},
	{"functions named after a state", 36, "use a verb of action: resolve, not resolved", stateNames},
	{"tests that print a bare value", 0, `say what failed and what is wanted: Fatalf("open the store: %v", err)`,
		bareMessages},
	{"structs with several mutexes", 0, "split the state, or hold one mutex", severalMutexes},
	{"struct fields of a function type", 47, "name an interface", functionFields},
	{"map[string]any outside tests", 8, "declare a struct", anyMaps},
	{"fields of tool.Call", 11, "put what few calls have into a struct of its own", callFields},
	{"fields of the largest struct", 25, "split its state", largestStruct},
	{"methods of the largest type", 66, "split its state", mostMethods},
	{"types of more than 40 methods", 2, "split the state of the largest", largeTypes},
	{"methods of the largest type in executor", 40, "put the method on the part that it changes", mostExecutorMethods},
	{"rooms under internal", 11, "put the package into the room it belongs to", listRooms},
	{"exported names of audit", 44, "move what only some callers need into a package below it", auditNames},
	{"packages in the longest chain of imports", 8, "cut an import", longestChain},
	{"packages that read the environment", 2, "read it in config or cli, and pass the value", environmentReaders},
}

func TestRatchets(t *testing.T) {
	tr := &tree{sources: ownSources(t), files: goFiles(t)}
	for _, r := range ratchets {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			found := r.count(tr)
			switch n := len(found); {
			case n > r.ceiling:
				t.Errorf("%s: %d, at most %d: %s\n%s", r.name, n, r.ceiling, r.advice, strings.Join(found, "\n"))
			case n < r.ceiling:
				t.Logf("%s: %d: the ceiling can fall from %d", r.name, n, r.ceiling)
			}
		})
	}
}

// A tree is what the ratchets count in.
type tree struct {
	sources []source            // Go files without tests and generated ones
	files   map[string][]string // the lines of all Go files that aren't generated, tests included
}

func ownSources(t *testing.T) []source {
	return slices.DeleteFunc(sources(t), func(s source) bool { return s.generated() })
}

var generatedMark = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	eachGoFile(t, func(path string) error {
		b, err := os.ReadFile(path)
		if err == nil && !generatedMark.Match(b) {
			files[filepath.ToSlash(path)] = strings.Split(string(b), "\n")
		}
		return err
	})
	return files
}

// eachLine calls f with each line of the tree, in the order of the files' names.
func (tr *tree) eachLine(f func(place, line string)) {
	for _, path := range slices.Sorted(maps.Keys(tr.files)) {
		for i, line := range tr.files[path] {
			f(fmt.Sprintf("%s:%d", path, i+1), line)
		}
	}
}

func isComment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "//") }

// columns counts a tab as four columns.
func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }

var avoided = regexp.MustCompile(
	`(?i)\b(gives?|given by|takes|whoever|somebody|nobody|anew|by itself|of ours|of its own accord|` +
		`where there is none|there are not|what it is of|those that|says whether|tells whether|says what|is told|was ` +
		`told|comes? to nothing|thereof)\b`)

// rightUses are idioms, a name of a Unix user and one of a function of the guest.
var rightUses = regexp.MustCompile(`(?i)\b(gives? up|takes (effect|over|time|too long|long|(much )?longer)|` +
	`(user|as|mapped to) nobody|give\(id)`)

func avoidedWords(tr *tree) (found []string) {
	tr.eachLine(func(place, line string) {
		_, comment, ok := strings.Cut(line, "//")
		if !ok || strings.HasPrefix(comment, "go:") {
			return
		}
		for _, w := range avoided.FindAllString(rightUses.ReplaceAllString(comment, ""), -1) {
			found = append(found, place+": "+w)
		}
	})
	return found
}

func wideComments(tr *tree) (found []string) {
	tr.eachLine(func(place, line string) {
		if isComment(line) && columns(line) > 100 && !strings.HasPrefix(line, "//go:") {
			found = append(found, place)
		}
	})
	return found
}

func wideCode(tr *tree) (found []string) {
	tr.eachLine(func(place, line string) {
		if !isComment(line) && columns(line) > 120 {
			found = append(found, place)
		}
	})
	return found
}

// eachFunc calls f with each function and method outside tests.
func (tr *tree) eachFunc(f func(place string, d *ast.FuncDecl)) {
	for _, s := range tr.sources {
		for _, d := range s.file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				f(fmt.Sprintf("%s: %s", s.set.Position(d.Pos()), d.Name.Name), d)
			}
		}
	}
}

// oneWordNames leaves out the methods of the parts of api.Client: client.Keys().Revoke names the
// object.
func oneWordNames(tr *tree) (found []string) {
	tr.eachFunc(func(place string, d *ast.FuncDecl) {
		name := []rune(d.Name.Name)
		if strings.HasPrefix(place, "api/") && d.Recv != nil {
			return
		}
		if len(name) > 1 && !slices.ContainsFunc(name[1:], unicode.IsUpper) {
			found = append(found, place)
		}
	})
	return found
}

var notStates = regexp.MustCompile(`(?i)(need|seed|feed|speed|embed|exceed|proceed|succeed|read|sched)$`)

// stateNames finds names like resolved. A function that returns one bool may have one.
func stateNames(tr *tree) (found []string) {
	tr.eachFunc(func(place string, d *ast.FuncDecl) {
		name := d.Name.Name
		if !strings.HasSuffix(name, "ed") && !slices.Contains([]string{"told", "made", "held", "kept", "sent", "given",
			"begun", "shown", "known", "met", "left", "lost", "put", "taken"}, name) || notStates.MatchString(name) {
			return
		}
		if r := d.Type.Results; r != nil && len(r.List) == 1 && len(r.List[0].Names) < 2 {
			if id, ok := r.List[0].Type.(*ast.Ident); ok && id.Name == "bool" {
				return
			}
		}
		found = append(found, place)
	})
	return found
}

var bareMessage = regexp.MustCompile(`\b(t|b|tb)\.(Fatal|Error)\(\w+\)`)

// bareMessages returns the failures of tests whose message is only the value of a variable.
func bareMessages(tr *tree) (found []string) {
	tr.eachLine(func(place, line string) {
		if bareMessage.MatchString(line) {
			found = append(found, place)
		}
	})
	return found
}

// eachStruct calls f with each declared struct outside tests; name is its package's and its own.
func (tr *tree) eachStruct(f func(place, name string, s *ast.StructType)) {
	for _, src := range tr.sources {
		ast.Inspect(src.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				f(src.set.Position(spec.Pos()).String(), src.pkg+"."+spec.Name.Name, s)
			}
			return true
		})
	}
}

// fieldNames returns the names of s's fields. An embedded field has the name of its type.
func fieldNames(s *ast.StructType) (names []string) {
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, fmt.Sprint(f.Type))
		}
	}
	return names
}

func severalMutexes(tr *tree) (found []string) {
	tr.eachStruct(func(place, name string, s *ast.StructType) {
		n := 0
		for _, f := range s.Fields.List {
			if x, ok := f.Type.(*ast.SelectorExpr); ok && (x.Sel.Name == "Mutex" || x.Sel.Name == "RWMutex") {
				n += max(1, len(f.Names))
			}
		}
		if n > 1 {
			found = append(found, place+": "+name)
		}
	})
	return found
}

func functionFields(tr *tree) (found []string) {
	tr.eachStruct(func(place, name string, s *ast.StructType) {
		for _, f := range s.Fields.List {
			if _, ok := f.Type.(*ast.FuncType); ok {
				for _, n := range f.Names {
					found = append(found, place+": "+name+"."+n.Name)
				}
			}
		}
	})
	return found
}

func anyMaps(tr *tree) (found []string) {
	for _, s := range tr.sources {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if m, ok := n.(*ast.MapType); ok && fmt.Sprint(m.Key) == "string" && isAny(m.Value) {
				found = append(found, s.set.Position(m.Pos()).String())
			}
			return true
		})
	}
	return found
}

func isAny(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "any"
	case *ast.InterfaceType:
		return len(x.Methods.List) == 0
	}
	return false
}

func callFields(tr *tree) (found []string) {
	tr.eachStruct(func(_, name string, s *ast.StructType) {
		if name == "tool.Call" {
			found = fieldNames(s)
		}
	})
	return found
}

func largestStruct(tr *tree) (found []string) {
	tr.eachStruct(func(_, name string, s *ast.StructType) {
		if names := fieldNames(s); len(names) > len(found) {
			found = names
			for i, n := range names {
				found[i] = name + "." + n
			}
		}
	})
	return found
}

func mostMethods(tr *tree) []string { return mostMethodsIn(tr.sources) }

func mostExecutorMethods(tr *tree) []string {
	return mostMethodsIn(slices.DeleteFunc(slices.Clone(tr.sources), func(s source) bool {
		return !strings.HasPrefix(s.path, "internal/exec/executor/")
	}))
}

// largeTypes returns the types that have more than 40 methods.
func largeTypes(tr *tree) (found []string) {
	for name, methods := range methodsIn(tr.sources) {
		if len(methods) > 40 {
			found = append(found, fmt.Sprintf("%s: %d methods", name, len(methods)))
		}
	}
	slices.Sort(found)
	return found
}

// mostMethodsIn returns the methods of the type that has most.
func mostMethodsIn(sources []source) (found []string) {
	for _, m := range methodsIn(sources) {
		if len(m) > len(found) {
			found = m
		}
	}
	return found
}

// methodsIn returns the methods of each type.
func methodsIn(sources []source) map[string][]string {
	methods := map[string][]string{}
	for _, s := range sources {
		for _, d := range s.file.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv != nil {
				name := s.pkg + "." + receiverName(d.Recv)
				methods[name] = append(methods[name], name+"."+d.Name.Name)
			}
		}
	}
	return methods
}

func listRooms(tr *tree) []string {
	names := map[string]bool{}
	for _, s := range tr.sources {
		if below, ok := strings.CutPrefix(s.path, "internal/"); ok {
			name, _, _ := strings.Cut(below, "/")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// auditNames returns the exported functions, types, variables and constants of package audit.
func auditNames(tr *tree) (found []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			found = append(found, id.Name)
		}
	}
	for _, s := range tr.sources {
		if s.pkg != "control/audit" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add(spec.Name)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							add(name)
						}
					}
				}
			}
		}
	}
	return found
}

// longestChain returns the packages of the longest path in the graph of imports.
func longestChain(tr *tree) (found []string) {
	imports := map[string]map[string]bool{}
	for _, s := range tr.sources {
		for _, spec := range s.file.Imports {
			if ours, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); ok {
				if imports[s.pkg] == nil {
					imports[s.pkg] = map[string]bool{}
				}
				imports[s.pkg][strings.TrimPrefix(ours, "internal/")] = true
			}
		}
	}
	longest := map[string][]string{}
	var walk func(pkg string) []string
	walk = func(pkg string) []string {
		if known, ok := longest[pkg]; ok {
			return known
		}
		var below []string
		for _, p := range slices.Sorted(maps.Keys(imports[pkg])) {
			if c := walk(p); len(c) > len(below) {
				below = c
			}
		}
		longest[pkg] = append([]string{pkg}, below...)
		return longest[pkg]
	}
	for pkg := range imports {
		if c := walk(pkg); len(c) > len(found) {
			found = c
		}
	}
	return found
}

var readsEnvironment = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}

// environmentReaders doesn't count peertest, which only tests import: make test tells it by a
// variable that no peer may be missing.
func environmentReaders(tr *tree) []string {
	found := map[string]bool{}
	for _, s := range tr.sources {
		if s.pkg == "lab/peertest" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if ok && fmt.Sprint(x.X) == "os" && slices.Contains(readsEnvironment, x.Sel.Name) {
				found[s.pkg] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}
