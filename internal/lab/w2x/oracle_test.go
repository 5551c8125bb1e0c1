package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// harness is the program that runs translated modules. It reads calls, makes them and writes their
// outcomes.
//
//go:embed testdata/harness.txt
var harness string

// A call is one call of an exported function, with its arguments as bits.
type call struct {
	Module int      `json:"m"`
	Name   string   `json:"f"`
	Args   []uint64 `json:"a,omitempty"`
}

// An outcome is the outcome of a call: its results as bits, or a trap. Memory is a hash of the
// memory after the call.
type outcome struct {
	Trap    string   `json:"t,omitempty"`
	Results []uint64 `json:"r,omitempty"`
	Memory  uint64   `json:"h,omitempty"`
}

// A trial is a set of modules and the calls to make to them, in order.
type trial struct {
	modules []*builder
	calls   []call
	loose   func(c call, result int) bool // reports whether any two NaNs are considered equal there
}

// run makes all calls with wazero and with the translation, and compares the outcomes.
func (x *trial) run(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the harness needs a reservation of address space")
	}
	want := x.oracle(t)
	got := x.translated(t)
	types := make([]map[string]funcType, len(x.modules))
	for i, b := range x.modules {
		types[i] = map[string]funcType{}
		for _, f := range b.funcs {
			types[i][f.name] = f.typ
		}
	}
	bad := 0
	for i, c := range x.calls {
		if err := x.compare(types[c.Module], c, want[i], got[i]); err != nil {
			t.Errorf("module %d, %s(%#x): %v", c.Module, c.Name, c.Args, err)
			if bad++; bad > 20 {
				t.Fatal("too many differences")
			}
		}
	}
	traps := map[string]int{}
	for _, o := range got {
		traps[o.Trap]++
	}
	t.Logf("%d calls of %d modules; traps: %v", len(x.calls), len(x.modules), traps)
}

func (x *trial) compare(types map[string]funcType, c call, want, got outcome) error {
	if (want.Trap == "") != (got.Trap == "") || want.Trap != "" && !sameTrap(want.Trap, got.Trap) {
		return fmt.Errorf("trap %q, want %q", got.Trap, want.Trap)
	}
	if want.Memory != got.Memory {
		return fmt.Errorf("the memory differs")
	}
	t := types[c.Name]
	for i, w := range want.Results {
		if g := got.Results[i]; g != w && !(x.loose != nil && x.loose(c, i) && nan(t.out[i], w) && nan(t.out[i], g)) {
			return fmt.Errorf("result %#x, want %#x", g, w)
		}
	}
	return nil
}

// sameTrap reports whether wazero's error and the translation's trap mean the same.
func sameTrap(theirs, ours string) bool {
	return strings.Contains(theirs, ours) ||
		ours == "undefined element" && strings.Contains(theirs, "invalid table access") ||
		ours == "call stack exhausted" && strings.Contains(theirs, "stack overflow")
}

func nan(t valType, bits uint64) bool {
	return t == f32 && uint32(bits)&0x7fffffff > 0x7f800000 || t == f64 && bits&^(1<<63) > 0x7ff<<52
}

// oracle makes the calls with wazero.
func (x *trial) oracle(t *testing.T) []outcome {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer func() { _ = rt.Close(ctx) }()
	if _, err := rt.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(hostMix).Export("mix").Instantiate(
		ctx); err != nil {
		t.Fatalf("Instantiate: %v", err)
	}
	var mods []api.Module
	for i, b := range x.modules {
		m, err := rt.InstantiateWithConfig(ctx, b.bytes(), wazero.NewModuleConfig().WithName(fmt.Sprint(i)))
		if err != nil {
			t.Fatalf("wazero: module %d: %v", i, err)
		}
		mods = append(mods, m)
	}
	funcs := map[string]api.Function{}
	out := make([]outcome, len(x.calls))
	for i, c := range x.calls {
		key := fmt.Sprint(c.Module, c.Name)
		f := funcs[key]
		if f == nil {
			f = mods[c.Module].ExportedFunction(c.Name)
			funcs[key] = f
		}
		r, err := f.Call(ctx, c.Args...)
		if err != nil {
			out[i].Trap, _, _ = strings.Cut(err.Error(), "\n")
		}
		out[i].Results = r
		if x.modules[c.Module].pages > 0 {
			mem := mods[c.Module].Memory()
			b, _ := mem.Read(0, mem.Size())
			h := fnv.New64a()
			_, _ = h.Write(b)
			out[i].Memory = h.Sum64()
		}
	}
	return out
}

// hostMix is the function that test modules import. The harness has a copy of it.
func hostMix(a uint32, b uint64) uint64 { return uint64(a)*31 ^ b<<1 }

// translated builds a program from the translations and makes the calls with it.
func (x *trial) translated(t *testing.T) []outcome {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	write("go.mod", []byte("module trial\n\ngo 1.26\n"))
	var imports, table strings.Builder
	for i, b := range x.modules {
		pkg := fmt.Sprintf("m%d", i)
		files, err := Translate(b.bytes(), Options{Package: pkg, Keep: []string{"*"}})
		if err != nil {
			t.Fatalf("translate module %d: %v", i, err)
		}
		for name, f := range files {
			write(pkg+"/"+name, f)
		}
		write(pkg+"/dispatch.go", []byte(dispatch(pkg, b)))
		fmt.Fprintf(&imports, "import %q\n", "trial/"+pkg)
		fmt.Fprintf(&table, "%s.Open(reserve),\n", pkg)
	}
	write("main.go", []byte(strings.NewReplacer("//IMPORTS", imports.String(), "//MODULES",
		table.String()).Replace(harness)))
	build := exec.Command("go", "build", "-o", "trial", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the translation: %v\n%.4000s", err, b)
	}
	return x.drive(t, filepath.Join(dir, "trial"))
}

// drive runs the built program and returns the outcomes of the calls.
func (x *trial) drive(t *testing.T, program string) []outcome {
	var in, stderr bytes.Buffer
	e := json.NewEncoder(&in)
	for _, c := range x.calls {
		if err := e.Encode(c); err != nil {
			t.Fatalf("Encode: %v", err)
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = &in, &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("run the translation: %v\n%.4000s", err, stderr.Bytes())
	}
	d := json.NewDecoder(bufio.NewReader(bytes.NewReader(b)))
	out := make([]outcome, len(x.calls))
	for i := range out {
		if err := d.Decode(&out[i]); err != nil {
			t.Fatalf("outcome %d: %v", i, err)
		}
	}
	return out
}

// dispatch returns a Go file with which the harness calls the functions of a module by name.
func dispatch(pkg string, b *builder) string {
	var s strings.Builder
	fmt.Fprintf(&s, "package %s\n\nimport \"math\"\n\nvar _ = math.Abs\n\ntype instance struct{ m *Module }\n\n", pkg)
	s.WriteString("type host struct{}\n\nfunc (host) EnvMix(_ *Module, a uint32, b uint64) uint64 { return " +
		"uint64(a)*31 ^ b<<1 }\n\n")
	pages := "0"
	if b.pages > 0 {
		pages = "MemoryPages"
	}
	fmt.Fprintf(&s, "func Open(reserve func(pages int) ([]byte, func(int) bool)) instance {\nm := New(host{})\nb, "+
		"grow := reserve(%s)\nm.Grow = grow\nm.SetMemory(b)\nm.Init()\nreturn instance{m}\n}\n\n", pages)
	s.WriteString("func (i instance) Memory() []byte { return i.m.Memory() }\n\nfunc (i instance) Trap(x any) " +
		"(string, bool) { t, ok := i.m.AsTrap(x); return string(t), ok }\n\n")
	s.WriteString("func (i instance) Call(name string, a []uint64) []uint64 { return functions[name](i.m, a) " +
		"}\n\nvar functions = map[string]func(*Module, []uint64) []uint64{\n")
	for _, f := range b.funcs {
		if f.name == "" {
			continue
		}
		var args, results, outs []string
		for k, p := range f.typ.in {
			args = append(args,
				fmt.Sprintf(map[valType]string{i32: "uint32(a[%d])", i64: "a[%d]",
					f32: "math.Float32frombits(uint32(a[%d]))", f64: "math.Float64frombits(a[%d])"}[p], k))
		}
		for k, p := range f.typ.out {
			results = append(results, fmt.Sprintf("r%d", k))
			outs = append(outs,
				fmt.Sprintf(map[valType]string{i32: "uint64(r%d)", i64: "r%d", f32: "uint64(math.Float32bits(r%d))",
					f64: "math.Float64bits(r%d)"}[p], k))
		}
		assign := ""
		if len(results) > 0 {
			assign = strings.Join(results, ", ") + " := "
		}
		fmt.Fprintf(&s, "%q: func(m *Module, a []uint64) []uint64 {\n%sm.%s(%s)\nreturn []uint64{%s}\n},\n", f.name,
			assign, goName(f.name), strings.Join(args, ", "), strings.Join(outs, ", "))
	}
	s.WriteString("}\n")
	return s.String()
}
