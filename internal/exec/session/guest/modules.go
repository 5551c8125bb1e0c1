package guest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// embedded lists the modules of Python's standard library that the embedded engine has. Those whose
// names begin with an underscore are left out.
const embedded = `
__future__ abc argparse array ast asyncio atexit base64 binascii bisect builtins calendar cmath cmd code
codecs codeop collections colorsys concurrent configparser contextlib contextvars copy copyreg csv dataclasses datetime
decimal difflib dis email encodings enum errno faulthandler fcntl filecmp fileinput fnmatch fractions functools gc
genericpath getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http importlib inspect io ipaddress
itertools json keyword linecache locale logging marshal math mimetypes netrc ntpath nturl2path numbers opcode operator
optparse os pathlib pickle pickletools pkgutil platform plistlib posix posixpath pprint py_compile pydoc pyexpat queue
quopri random re reprlib runpy sched secrets select selectors shelve shlex shutil signal site socket sre_compile
sre_constants sre_parse stat statistics string stringprep struct subprocess symtable sys sysconfig tabnanny tarfile
tempfile textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata
unittest urllib uuid warnings wave weakref xml zipfile zipimport zlib zoneinfo`

// embeddedNode lists the Node.js modules that the embedded engine has.
const embeddedNode = "fs fs/promises os buffer path path/posix timers/promises util url crypto"

// foreignModules returns the modules that a program needs and the embedded engine doesn't have.
func foreignModules(n Need) (out []string) {
	if len(n.Imports)+len(n.Requires) == 0 {
		return nil
	}
	have := strings.Fields(embedded)
	if n.Language == "typescript" {
		have = strings.Fields(embeddedNode)
	}
	for _, name := range n.Imports {
		if !slices.Contains(have, name) && !strings.HasPrefix(name, "_") {
			out = append(out, name)
		}
	}
	return append(out, n.Requires...)
}

// chooseImporter returns the cheapest source that meets a need and has all modules that the program
// imports and the embedded engine lacks. It returns nil if there is none, or none is needed:
// importing a missing module then fails in the program.
func (s *Sources) chooseImporter(ctx context.Context, n Need) (*Source, sandbox.Capabilities) {
	wanted := foreignModules(n)
	if len(wanted) == 0 || n.Kind != "" {
		return nil, sandbox.Capabilities{}
	}
	for _, src := range s.all {
		caps, m := src.checkNeed(ctx, n)
		if m != nil {
			continue
		}
		if len(without(wanted, caps.Modules[runtimes[n.Language]])) == 0 {
			return src, caps
		}
		if with, caps := src.findImporter(caps, n, wanted); with != nil {
			return with, caps
		}
	}
	return nil, sandbox.Capabilities{}
}

// ExplainImports returns what a person can do about the modules that a program imports and that its
// kind of sandbox lacks. inSession says that the program runs in a session that can't leave
// the embedded engine. The result is empty if nothing is missing.
func (s *Sources) ExplainImports(ctx context.Context, n Need, inSession bool) string {
	wanted := foreignModules(n)
	if len(wanted) == 0 {
		return ""
	}
	t := importTexts[n.Language]
	n.Kind = ""
	why := ""
	for _, src := range s.all {
		caps, m := src.checkNeed(ctx, n)
		switch lacks := without(wanted, caps.Modules[runtimes[n.Language]]); {
		case m != nil && src.kind.Tier > tool.WASM:
			why = "the sandbox " + src.kind.Name + ", which has " + t.has + ", " + m.reason
		case m != nil || src.kind.Tier == tool.WASM:
		case len(lacks) > 0:
			why = "no sandbox has " + strings.Join(lacks, ", ") + ": install it for " + t.install +
				strings.ToLower(packageOf(lacks[0])) + ", or build an image that has it: biplane image build " +
				imageName(lacks[0]) + t.flag + strings.Join(packagesOf(lacks), ",")
		case inSession:
			return "this session began in the embedded engine, which doesn't have " + t.has + ": run " +
				"this one in another session, or without one"
		}
	}
	return why
}

// importTexts are the parts of ExplainImports by language.
var importTexts = map[string]struct{ has, flag, install string }{
	"python": {"the packages of the system's Python", " --python ",
		"the system's Python, for example with apt-get install python3-"},
	"typescript": {"Node.js and its packages", " --node ", "the system's Node.js, for example with npm install -g "},
}

// packageOf returns the package of a module: "@scope/name" for "@scope/name/part".
func packageOf(module string) string {
	parts := strings.SplitN(module, "/", 3)
	if strings.HasPrefix(module, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// packagesOf returns the packages of modules, each once.
func packagesOf(modules []string) (out []string) {
	for _, m := range modules {
		if p := packageOf(m); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// imageName returns a name for an image that has a module.
func imageName(module string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(packageOf(module))), "-")
	return cmp.Or(name, "packages")
}

// without returns the modules that aren't in another list, nor in a package there.
func without(names, others []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(others, name) && !slices.Contains(others, packageOf(name)) {
			out = append(out, name)
		}
	}
	return out
}
