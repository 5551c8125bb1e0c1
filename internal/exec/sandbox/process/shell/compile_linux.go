package shell

import (
	"crypto/sha256"
	_ "embed" // the clients of tools
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

var (
	//go:embed client/tools.go.txt
	goClient string
	//go:embed client/tools.rs
	rustClient string
	//go:embed client/Tools.java
	javaClient string
)

// buildFolder is the folder in which programs are compiled. Its files are those of the sandbox's
// program: what an earlier program of a session changes there is only its own.
const buildFolder = "/tmp/.biplane"

// clientAddress is where the agent accepts connections of the clients. Not all languages can
// connect to an abstract address.
var clientAddress = &unix.SockaddrUnix{Name: buildFolder + "/tools"}

// A toolchain makes commands of the programs in a language.
type toolchain struct {
	version     []string          // arguments of the compiler that print its version
	versionWord int               // which word of that is the version, from 0
	folder      string            // of the program below the folder of the build
	client      map[string]string // files of the client by path
	environment []string
	empty       string // a program that does nothing
}

// built is the file of the last program's digest.
const built = "built"

// listToolchains returns the toolchains by language.
func listToolchains() map[string]*toolchain {
	return map[string]*toolchain{
		"go": {
			version:     []string{"version"},
			versionWord: 2,
			folder:      "program/",
			client:      map[string]string{"go.mod": "module tools\n\ngo 1.24\n", "tools.go": goClient},
			environment: []string{"GOWORK=off", "GOPROXY=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0"},
			empty: "package main\n\nimport (\n\t_ \"errors\"\n\t_ \"fmt\"\n\t_ \"os\"\n\t_ \"sort\"\n" +
				"\t_ \"strings\"\n" +
				"\t_ \"sync\"\n\t_ \"time\"\n\t_ \"tools\"\n)\n\nfunc main() {}\n",
		},
		"rust": {
			version:     []string{"--version"},
			versionWord: 1,
			client:      map[string]string{"tools.rs": rustClient},
			empty:       "fn main() {}\n",
		},
		"java": {
			version:     []string{"-version"},
			versionWord: 1,
			client:      map[string]string{"Tools.java": javaClient},
			empty:       "class Program {}\n",
		},
	}
}

// listCommands returns the commands that compile a program, in order, and the one that runs it.
// name is the name of the program's file.
func listCommands(language, compiler, name string) (compile [][]string, run []string) {
	dir := buildFolder + "/" + language
	switch language {
	case "go": // each of the compiler's processes may need 100 MB
		return [][]string{{compiler, "build", "-p", "2", "-ldflags=-s -w", "-o", dir + "/bin", "./program"}},
			[]string{dir + "/bin"}
	case "rust":
		const edition = "--edition=2021"
		if _, err := os.Lstat(dir + "/libtools.rlib"); err != nil {
			compile = append(compile, []string{compiler, edition, "--crate-name=tools", "--crate-type=rlib",
				"-Copt-level=1", "tools.rs"})
		}
		return append(compile, []string{compiler, edition, "--crate-name=program", "-Copt-level=1",
			"-Cincremental=incremental", "--extern=tools=libtools.rlib", "-o", "bin", name}), []string{dir + "/bin"}
	}
	javac := []string{compiler}
	for _, o := range javaOptions {
		javac = append(javac, "-J"+o)
	}
	java := append([]string{filepath.Join(filepath.Dir(compiler), "java")}, javaOptions...)
	return [][]string{append(javac, "-d", "classes", "Tools.java", name)},
		append(java, "-cp", dir+"/classes", strings.TrimSuffix(name, ".java"))
}

// javaOptions make Java start fast, and stay below the memory limit of a sandbox.
var javaOptions = []string{"-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
	"-Xmx256m", "-XX:ReservedCodeCacheSize=64m", "-XX:CompressedClassSpaceSize=64m"}

// wordAt returns a word of a text, from 0, or "".
func wordAt(text string, n int) string {
	if words := strings.Fields(text); n < len(words) {
		return words[n]
	}
	return ""
}

// compileProgram compiles a program, unless it is the same as the last one, and returns the command
// that runs it.
func (s *script) compileProgram(run *sandbox.Run) ([]string, *sandbox.GuestError) {
	command, text, err := s.a.buildProgram(run)
	if err == nil && command != nil {
		if err = s.a.calls.acceptTools(clientAddress); err == nil {
			return command, nil
		}
	}
	if err != nil {
		return nil, &sandbox.GuestError{Name: "Error", Message: "compile the program: " + err.Error()}
	}
	e := &sandbox.GuestError{Name: "CompileError", Stack: text, Message: "the program doesn't compile:\n" + text}
	if s.a.hasMemoryKill() {
		e.Kind, e.Message = "limit", "limit (memory): the compiler reached the memory limit of the sandbox: write a "+
			"smaller program, or import less"
	}
	return nil, e
}

// buildProgram compiles a program, and returns the command that runs it. If the program has faults,
// it returns none, and what the compiler says.
func (a *agent) buildProgram(run *sandbox.Run) (command []string, text string, err error) {
	t, dir := a.tools, buildFolder+"/"+a.runtime
	if _, err := os.Lstat(dir); err != nil {
		if err := a.linkLibraries(); err != nil {
			return nil, "", err
		}
	}
	files := maps.Clone(t.client)
	maps.Copy(files, run.Files)
	files[t.folder+run.Name] = run.Code
	digest := digestFiles(files)
	compile, command := listCommands(a.runtime, a.path, run.Name)
	if was, err := os.ReadFile(dir + "/" + built); err == nil && string(was) == digest {
		return command, "", nil
	}
	_ = os.Remove(dir + "/" + built)
	if t.folder != "" {
		_ = os.RemoveAll(dir + "/" + t.folder) // of the program before
	}
	for name, text := range files {
		if !filepath.IsLocal(name) {
			return nil, "", fmt.Errorf("invalid path %q", name)
		}
		path := dir + "/" + name
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, "", err
		}
	}
	for _, args := range compile {
		text, status, err := runQuietly(args, dir, t.environment...)
		switch {
		case err != nil:
			return nil, "", err
		case status != 0:
			return nil, tidyMessages(text, t.folder), nil
		}
	}
	return command, "", os.WriteFile(dir+"/"+built, []byte(digest), 0o644)
}

// ClientDigest returns a digest of the clients.
func ClientDigest() string {
	return digestFiles(map[string]string{"go": goClient + listToolchains()["go"].empty, "rust": rustClient})
}

// digestFiles returns a digest of the names and texts of files.
func digestFiles(files map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%d %s %d %s", len(name), name, len(files[name]), files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// buildAhead compiles a program that does nothing, so that the libraries of the language and the
// client are compiled before a program arrives. It may fail: then they are compiled later. If the
// folder of libraries can be written, it keeps them there for other sandboxes.
func (a *agent) buildAhead() {
	if a.tools == nil {
		return
	}
	_, _, _ = a.buildProgram(&sandbox.Run{Name: "Program." + a.runtime, Code: a.tools.empty})
	_ = os.Remove(buildFolder + "/" + a.runtime + "/" + built)
	if unix.Access(LibraryFolder, unix.W_OK) != nil {
		return
	}
	for folder := range a.libraryFolders() {
		_ = os.CopyFS(filepath.Join(LibraryFolder, folder), os.DirFS("/"+folder)) // what is missing is compiled again
	}
}

// libraryFolders returns the folders with compiled libraries, below the root, and their files.
func (a *agent) libraryFolders() map[string]string {
	switch a.runtime {
	case "go":
		return map[string]string{"tmp/.cache/go-build": "*/*"}
	case "rust":
		return map[string]string{buildFolder[1:] + "/rust": "libtools.rlib"}
	}
	return nil
}

// linkLibraries makes the libraries that other sandboxes share available where the compiler looks
// for them. It may write new ones beside them.
func (a *agent) linkLibraries() error {
	for folder, pattern := range a.libraryFolders() {
		from := filepath.Join(LibraryFolder, folder)
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil || len(files) == 0 {
			return err
		}
		for _, file := range files {
			to := filepath.Join("/"+folder, strings.TrimPrefix(file, from))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(file, to); err != nil {
				return err
			}
		}
		if a.runtime == "go" { // otherwise it removes entries that are some days old
			now := fmt.Sprintf("%d", time.Now().Unix())
			if err := os.WriteFile("/"+folder+"/trim.txt", []byte(now), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxMessages is the number of lines of a compiler's messages that are shown.
const maxMessages = 60

// tidyMessages returns the messages of a compiler with the names of files as the program's author
// knows them. folder is that of the program.
func tidyMessages(text, folder string) string {
	var out []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "# ") { // the package, in Go
			continue
		}
		if folder != "" {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "./"), folder)
		}
		if len(out) == maxMessages {
			out = append(out, "…")
			break
		}
		if len(line) > maxLine {
			line = line[:cutRune([]byte(line), maxLine)]
		}
		out = append(out, line)
	}
	if strings.Contains(text, " value in struct literal") && strings.Contains(text, " as *") {
		out = append(out, "(optional arguments are pointers: write tools.Ptr(value))")
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}
