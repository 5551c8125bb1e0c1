package guest

import (
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

// foreignModules returns the modules that the embedded engine doesn't have.
func foreignModules(imports []string) (out []string) {
	if len(imports) == 0 {
		return nil
	}
	have := strings.Fields(embedded)
	for _, name := range imports {
		if !slices.Contains(have, name) && !strings.HasPrefix(name, "_") {
			out = append(out, name)
		}
	}
	return out
}

// chooseImporter returns the cheapest source that meets a need and has all modules that the program
// imports and the embedded engine lacks. It returns nil if there is none, or none is needed: the
// program then learns of a missing module when it imports it.
func (s *Sources) chooseImporter(ctx context.Context, n Need) (*Source, sandbox.Capabilities) {
	wanted := foreignModules(n.Imports)
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
	}
	return nil, sandbox.Capabilities{}
}

// ExplainImports returns what a person can do about the modules that a program imports and that its
// kind of sandbox lacks. inSession says that the program runs in a session that can't leave
// the embedded engine. The result is empty if nothing is missing.
func (s *Sources) ExplainImports(ctx context.Context, n Need, inSession bool) string {
	wanted := foreignModules(n.Imports)
	if len(wanted) == 0 {
		return ""
	}
	n.Kind = ""
	why := ""
	for _, src := range s.all {
		caps, m := src.checkNeed(ctx, n)
		switch lacks := without(wanted, caps.Modules[runtimes[n.Language]]); {
		case m != nil && src.kind.Tier > tool.WASM:
			why = "the sandbox " + src.kind.Name + ", which has the packages of the system's Python, " + m.reason
		case m != nil || src.kind.Tier == tool.WASM:
		case len(lacks) > 0:
			why = "no sandbox has " + strings.Join(lacks, ", ") + ": install it for the system's Python, for example " +
				"with apt-get install python3-" + strings.ToLower(lacks[0])
		case inSession:
			return "this session began in the embedded engine, which has no packages of the system's Python: run " +
				"this one in another session, or without one"
		}
	}
	return why
}

// without returns the names that aren't in another list.
func without(names, others []string) (out []string) {
	for _, name := range names {
		if !slices.Contains(others, name) {
			out = append(out, name)
		}
	}
	return out
}
