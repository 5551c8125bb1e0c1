package review

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// readWord returns what is known of a word, and checks its constant parts.
func (s *shellFlow) readWord(w *syntax.Word) shellText {
	if w == nil {
		return shellText{}
	}
	out := s.readParts(w.Parts)
	if text := constantOf(w); text != "" {
		s.checks.checkText(text, offsetOf(w))
	}
	return out
}

// offsetOf returns the offset of a part of a script.
func offsetOf(n syntax.Node) int { return int(n.Pos().Offset()) }

// readParts returns what is known of the parts of a word.
func (s *shellFlow) readParts(all []syntax.WordPart) (out shellText) {
	tainted := 0
	for _, p := range all {
		v := s.readPart(p)
		if out.text = extendText(out.text, v.text); len(out.text) > maxShellText {
			s.steps = maxShellSteps + 1 // refuse the script
		}
		out.built = out.built || v.built
		if v.taint == 0 {
			continue
		}
		if tainted++; tainted == 1 {
			out.safe = v.safe
		}
		out.taint |= v.taint
		out.safe &= v.safe
	}
	out.built = out.built || tainted > 0 && (out.text != "" || tainted > 1)
	return out
}

func (s *shellFlow) readPart(p syntax.WordPart) shellText {
	switch p := p.(type) {
	case *syntax.Lit:
		return shellText{text: p.Value}
	case *syntax.SglQuoted:
		return shellText{text: p.Value}
	case *syntax.DblQuoted:
		return s.readParts(p.Parts)
	case *syntax.CmdSubst:
		before := s.copyVars()
		out := s.runAll(p.Stmts, shellText{})
		s.vars = before
		return out
	case *syntax.ProcSubst:
		s.runAll(p.Stmts, shellText{})
	case *syntax.ParamExp:
		return s.expandVariable(p)
	}
	return shellText{} // arithmetic, patterns
}

// expandVariable returns what is known of the value of a variable.
func (s *shellFlow) expandVariable(p *syntax.ParamExp) shellText {
	if p.Param == nil || p.Length {
		return shellText{}
	}
	v := s.vars[p.Param.Value]
	switch {
	case p.Repl != nil && p.Repl.Orig != nil:
		if t := constantOf(p.Repl.Orig); p.Repl.All && (strings.HasPrefix(t, "[!") || strings.HasPrefix(t, "[^")) {
			v.safe = safeAll
		} else if p.Repl.All && (t == "/" || t == `\/` || t == ".." || t == "../") {
			v.safe |= safePath
		} else if p.Repl.All && t == "'" {
			v.safe |= safeSQL
		}
	case p.Exp != nil:
		rest := s.readWord(p.Exp.Word)
		switch p.Exp.Op {
		case syntax.RemLargePrefix:
			if strings.HasSuffix(rest.text, "/") {
				v.safe |= safePath
			}
		case syntax.OtherParamOps:
			if rest.text == "Q" {
				v.safe |= safeShell
			}
		case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
			v = v.mergeText(rest)
		}
	}
	return v
}

// followAssignment follows an assignment.
func (s *shellFlow) followAssignment(a *syntax.Assign, integer bool) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	v := s.readWord(a.Value)
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			v = v.mergeText(s.readWord(e.Value))
		}
	}
	if integer {
		v = shellText{}
	}
	if a.Append {
		v = shellText{taint: v.taint | s.vars[name].taint, safe: v.safe & s.vars[name].safe,
			text: extendText(s.vars[name].text, v.text), built: true}
	}
	if a.Naked && a.Value == nil {
		return
	}
	s.vars[name] = v
	s.checkShellSetting(name, a.Value)
}

// checkShellSetting checks a variable that is set to a constant.
func (s *shellFlow) checkShellSetting(name string, w *syntax.Word) {
	if w == nil || s.readParts(w.Parts).taint != 0 || hasExpansion(w) {
		return
	}
	value := constantOf(w)
	off := false
	switch name {
	case "NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONHTTPSVERIFY":
		off = value == "0"
	case "GIT_SSL_NO_VERIFY":
		off = value != "" && value != "0" && value != "false"
	}
	if off {
		s.checks.reportTLS(offsetOf(w))
	}
	s.checks.checkNamedSecret(name, newNodeAt(textNode, offsetOf(w), value))
}

// hasExpansion reports whether a word isn't constant.
func hasExpansion(w *syntax.Word) bool {
	found := false
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp:
			found = true
		}
		return !found
	})
	return found
}

// prefixes are commands that run the command in their arguments.
var prefixes = lazily.Words(`sudo env nice nohup time exec command builtin stdbuf setsid doas`)

// followCall follows a simple command: its assignments, its arguments, and what it does with them.
func (s *shellFlow) followCall(c *syntax.CallExpr, in shellText) shellText {
	for _, a := range c.Assigns {
		s.followAssignment(a, false)
	}
	if len(c.Args) == 0 {
		return shellText{}
	}
	words := make([]shellText, len(c.Args))
	for i, w := range c.Args {
		words[i] = s.readWord(w)
	}
	args := c.Args
	for len(args) > 1 && (prefixes.Has(args[0].Lit()) || args[0].Lit() == "timeout") {
		skip := 1
		for skip < len(args)-1 && (strings.HasPrefix(constantOf(args[skip]), "-") ||
			strings.Contains(args[skip].Lit(), "=") || args[0].Lit() == "timeout" && skip == 1) {
			skip++
		}
		args, words = args[skip:], words[skip:]
	}
	name := args[0].Lit()
	if words[0].taint != 0 && name == "" && !words[0].built {
		s.reportShell(words[0], args[0])
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	if body := s.functions[name]; body != nil && s.depth < maxShellCalls {
		return s.callFunction(body, words[1:], in)
	}
	k := &shellCall{flow: s, name: name, self: args[0], args: args[1:], words: words[1:], in: in}
	k.checkAll()
	return k.describeOutput()
}

// callFunction follows the body of a function.
func (s *shellFlow) callFunction(body *syntax.Stmt, args []shellText, in shellText) (out shellText) {
	names := []string{"@", "*", "1", "2", "3", "4", "5", "6", "7", "8", "9"}
	before := map[string]shellText{}
	for i, name := range names {
		before[name] = s.vars[name]
		v := shellText{}
		if i >= 2 && i-2 < len(args) {
			v = args[i-2]
		}
		for j := range args {
			if i < 2 {
				v = v.mergeText(args[j])
			}
		}
		s.vars[name] = v
	}
	s.depth++
	out = s.followStatement(body, in)
	s.depth--
	for name, v := range before {
		s.vars[name] = v
	}
	return out
}

// reportShell reports a command that is a result, or put together from one.
func (s *shellFlow) reportShell(v shellText, at syntax.Node) {
	if v.taint == 0 || v.safe&safeShell != 0 {
		return
	}
	s.checks.reportFault(Shell, offsetOf(at), "this shell command is put together from "+
		(&value{taint: v.taint}).describeOrigin(),
		`run the program itself, with each value as an argument ("$name"), or quote each value: $(printf %q "$name")`)
}

// checkShellPath checks a path.
func (s *shellFlow) checkShellPath(v shellText, at syntax.Node) {
	if !v.built || v.taint&^fromListing == 0 || v.safe&safePath != 0 {
		return
	}
	s.checks.reportFault(Path, offsetOf(at), "this path is put together from "+
		(&value{taint: v.taint}).describeOrigin()+", which may contain ../",
		`use only its last part (${name##*/}, basename), or check it against a pattern before: `+
			`[[ $name =~ ^[A-Za-z0-9._-]+$ ]] || exit 1`)
}

// A shellCall is a command with its arguments.
type shellCall struct {
	flow  *shellFlow
	name  string
	self  *syntax.Word // the name
	args  []*syntax.Word
	words []shellText
	in    shellText
}

var (
	shells       = lazily.Words(`bash sh zsh dash ksh`)
	interpreters = lazily.Words(`python python3 node deno ruby perl php osascript`)
	databases    = lazily.Words(`psql mysql mariadb sqlite3 duckdb clickhouse-client sqlcmd cqlsh`)
	fileCommands = lazily.Words(`cat rm cp mv mkdir rmdir touch tee head tail ln chmod chown unlink less install`)
	fetchers     = lazily.Words(`curl wget http https`)
	filters      = lazily.Words(`jq sed awk gawk grep egrep cut tr head tail sort uniq cat tee rev tac column fold nl
		paste xargs yq base64 iconv sponge`)
)

// findOption returns the argument after one of some options, or in it: -c text, --command=text.
func (k *shellCall) findOption(options ...string) (int, bool) {
	for i, w := range k.args {
		text := constantOf(w)
		for _, o := range options {
			switch {
			case text == o && i+1 < len(k.args):
				return i + 1, true
			case strings.HasPrefix(o, "--") && strings.HasPrefix(text, o+"="):
				return i, true
			}
		}
	}
	return 0, false
}

// checkAll checks the command.
func (k *shellCall) checkAll() {
	s := k.flow
	k.checkRun()
	k.checkQuery()
	if fileCommands.Has(k.name) {
		for i, v := range k.words {
			if !strings.HasPrefix(constantOf(k.args[i]), "-") {
				s.checkShellPath(v, k.args[i])
			}
		}
	}
	k.checkOptions()
	switch k.name {
	case "read", "mapfile", "readarray":
		for _, w := range k.args {
			if name := w.Lit(); name != "" && !strings.HasPrefix(name, "-") {
				v := k.in
				v.text, v.built = "", false
				s.vars[name] = v
			}
		}
	case "unset":
		for _, w := range k.args {
			delete(s.vars, w.Lit())
		}
	case "set":
		if i := slices.IndexFunc(k.args, func(w *syntax.Word) bool { return w.Lit() == "--" }); i >= 0 {
			for j, v := range k.words[i+1:] {
				if j < 9 {
					s.vars[string(rune('1'+j))] = v
				}
				s.vars["@"] = s.vars["@"].mergeText(v)
			}
		}
	}
}

// shellFlag matches options of a shell that run their argument: -c, -lc.
var shellFlag = lazily.Regexp(`^-[a-z]*c$`)

// checkRun checks texts that are run as commands or programs.
func (k *shellCall) checkRun() {
	s := k.flow
	runs := func(v shellText, at syntax.Node) {
		if v.taint != 0 && v.safe&safeShell == 0 {
			s.checks.reportFault(Eval, offsetOf(at), "this runs "+(&value{taint: v.taint}).describeOrigin()+
				" as a program", "parse the data (jq), or choose the operation with case from a list in the script")
		}
	}
	switch {
	case k.name == "eval":
		for i, v := range k.words {
			runs(v, k.args[i])
		}
	case k.name == "source" || k.name == ".":
		if len(k.args) > 0 {
			if p := processIn(k.args[0]); p != nil {
				runs(s.runAll(p.Stmts, shellText{}), k.args[0])
			}
		}
	case shells.Has(k.name):
		k.checkShellProgram(runs)
	case k.name == "xargs" || k.name == "find" || k.name == "parallel":
		k.checkInnerCommand()
	case k.name == "ssh":
		for i, v := range k.words[min(1, len(k.words)):] {
			s.reportShell(v, k.args[i+1])
		}
	case k.name == "su":
		if i, ok := k.findOption("-c", "--command"); ok {
			s.reportShell(k.words[i], k.args[i])
		}
	case interpreters.Has(k.name):
		if i, ok := k.findOption("-c", "-e", "-r", "--eval"); ok {
			runs(k.words[i], k.args[i])
		} else if k.readsProgram() {
			runs(k.in, k.self)
		}
	}
}

// readsProgram reports whether an interpreter reads its program from standard input.
func (k *shellCall) readsProgram() bool {
	for _, w := range k.args {
		if text := constantOf(w); !strings.HasPrefix(text, "-") || text == "-c" || text == "-e" {
			return false
		}
	}
	return true
}

// checkShellProgram checks what a shell runs.
func (k *shellCall) checkShellProgram(runs func(shellText, syntax.Node)) {
	s := k.flow
	for i, w := range k.args {
		switch {
		case shellFlag.Get().MatchString(w.Lit()) && i+1 < len(k.args):
			s.reportShell(k.words[i+1], k.args[i+1])
			return
		case processIn(w) != nil:
			runs(s.runAll(processIn(w).Stmts, shellText{}), w)
			return
		}
	}
	if k.readsProgram() || slices.ContainsFunc(k.args, func(w *syntax.Word) bool { return w.Lit() == "-s" }) {
		runs(k.in, k.self)
	}
}

// checkInnerCommand checks commands that xargs and find run, with the names of files or lines in
// place of {}.
func (k *shellCall) checkInnerCommand() {
	s := k.flow
	v := k.in
	if k.name == "find" {
		v = shellText{taint: fromListing}
	}
	for i, w := range k.args {
		if !shells.Has(w.Lit()) {
			continue
		}
		for j := i + 1; j+1 < len(k.args); j++ {
			if !shellFlag.Get().MatchString(k.args[j].Lit()) {
				continue
			}
			if strings.Contains(constantOf(k.args[j+1]), "{}") {
				s.reportShell(v, k.args[j+1])
			}
			s.reportShell(k.words[j+1], k.args[j+1])
			return
		}
	}
}

// checkQuery checks queries of databases, and commands for the shells of tools.
func (k *shellCall) checkQuery() {
	s := k.flow
	query := func(v shellText, at syntax.Node) {
		if v.taint != 0 && v.built && v.safe&safeSQL == 0 && (startsSQL.Get().MatchString(v.text) ||
			certainSQL.Get().MatchString(v.text)) {
			origin := (&value{taint: v.taint}).describeOrigin()
			s.checks.reportFault(SQL, offsetOf(at), "this query is put together from "+origin,
				`pass values as parameters (psql -v id="$id" with :'id', or the parameters of the tool), and choose `+
					`names of tables and columns from a list in the script`)
		}
	}
	switch {
	case databases.Has(k.name):
		for i, v := range k.words {
			query(v, k.args[i])
		}
		query(k.in, k.self)
	case k.name == "tool" && len(k.args) > 0:
		path := strings.ToLower(constantOf(k.args[0]))
		parts := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("._-", r) })
		shell := slices.ContainsFunc(parts, shellWords.Has)
		for i := range k.words[1:] {
			flag, v, at := strings.TrimPrefix(constantOf(k.args[i]), "--"), k.words[i+1], k.args[i+1]
			option, isOption := strings.CutPrefix(constantOf(at), "--")
			if name, _, given := strings.Cut(option, "="); isOption && given {
				flag = name
			}
			text := v
			if flag == "json" {
				_, text.text, _ = strings.Cut(sqlField.Get().ReplaceAllString(v.text, "\x00"), "\x00")
			}
			query(text, at)
			if shell && (shellKeys.Has(flag) || flag == "json") && v.built {
				s.reportShell(v, at)
			}
		}
	}
}

// sqlField matches what comes before a query in JSON.
var sqlField = lazily.Regexp(`"(?:sql|query|statement)"\s*:\s*"`)

// insecureOption matches options that switch off the check of certificates.
var insecureOption = map[string]*lazily.Pattern{
	"curl": lazily.Regexp(`^(?:-[a-zA-Z]*k[a-zA-Z]*|--insecure|--proxy-insecure)$`),
	"wget": lazily.Regexp(`^--no-check-certificate$`),
	"git":  lazily.Regexp(`^http\.sslVerify=false$`),
	"pip":  lazily.Regexp(`^--trusted-host(?:=|$)`),
	"npm":  lazily.Regexp(`^--(?:no-strict-ssl|strict-ssl=false)$`),
}

// checkOptions checks options for switched-off checks and secrets.
func (k *shellCall) checkOptions() {
	s := k.flow
	insecure := insecureOption[strings.TrimSuffix(k.name, "3")]
	for i, w := range k.args {
		text := constantOf(w)
		if insecure != nil && insecure.Get().MatchString(text) && !isCurlValue(k.name, k.args, i) {
			s.checks.reportTLS(offsetOf(w))
		}
		if hasExpansion(w) {
			continue
		}
		if name, value, ok := strings.Cut(text, ": "); ok && k.name == "curl" { // a header
			s.checks.checkNamedSecret(name, newNodeAt(textNode, offsetOf(w), value))
		}
		name, value, given := strings.Cut(text, "=")
		if !given && i+1 < len(k.args) && !hasExpansion(k.args[i+1]) {
			value = constantOf(k.args[i+1])
		}
		if strings.HasPrefix(name, "--") && value != "" {
			s.checks.checkNamedSecret(strings.TrimPrefix(name, "--"), newNodeAt(textNode, offsetOf(w), value))
		}
	}
	if k.name == "npm" && k.hasWords("strict-ssl", "false") {
		s.checks.reportTLS(offsetOf(k.self))
	}
}

// isCurlValue reports whether an argument of curl is the value of an option.
func isCurlValue(name string, args []*syntax.Word, i int) bool {
	if name != "curl" || i == 0 {
		return false
	}
	switch args[i-1].Lit() {
	case "-H", "-d", "-X", "-u", "-o", "-A", "--data", "--header", "--output":
		return true
	}
	return false
}

func (k *shellCall) hasWords(words ...string) bool {
	for _, word := range words {
		if !slices.ContainsFunc(k.args, func(w *syntax.Word) bool { return w.Lit() == word }) {
			return false
		}
	}
	return true
}

// harmlessSet matches the sets of characters that tr keeps and that contain nothing special.
var harmlessSet = lazily.Regexp(`^(?:[a-zA-Z0-9_-]|\[:(?:alnum|alpha|digit|lower|upper):\]|\\n)+$`)

// describeOutput returns the output of the command.
func (k *shellCall) describeOutput() (out shellText) {
	all := shellText{}
	for i, v := range k.words {
		if i > 0 && v.taint != 0 && all.taint != 0 {
			all.safe &= v.safe
		} else if v.taint != 0 {
			all.safe = v.safe
		}
		all.taint |= v.taint
		all.text = extendText(all.text, v.text+" ")
		all.built = all.built || v.built
	}
	switch {
	case k.name == "tool":
		return shellText{taint: fromResult}
	case fetchers.Has(k.name):
		return shellText{taint: fromResult}
	case k.name == "ls" || k.name == "find":
		return shellText{taint: fromListing}
	case k.name == "echo" || k.name == "printf":
		all.built = all.built || all.taint != 0 && strings.TrimSpace(all.text) != ""
		if k.name == "printf" && len(k.args) > 0 && strings.Contains(constantOf(k.args[0]), "%q") {
			all.safe |= safeShell
			all.text, all.built = "", false
		} else if k.name == "printf" && len(k.args) > 0 && plainFormat.Get().MatchString(constantOf(k.args[0])) {
			all.text, all.built = "", false
		}
		if k.name == "echo" && len(k.args) == 1 && !k.words[0].built {
			all.text, all.built = "", false
			if k.words[0].taint == 0 {
				all = k.words[0]
			}
		}
		return all
	case k.name == "basename":
		v := all.mergeText(k.in)
		return shellText{taint: v.taint, safe: safePath}
	case k.name == "cat" && len(k.args) > 0:
		return shellText{taint: fromResult}
	case k.name == "jq" && k.hasWords("-n"):
		return shellText{taint: all.taint, safe: safeAll}
	case k.name == "jq" && len(k.args) > 0 && countFilter.Get().MatchString(constantOf(k.args[len(k.args)-1])):
		return shellText{}
	case k.name == "tr" && len(k.args) == 2 && strings.Contains(k.args[0].Lit(), "c") &&
		strings.HasPrefix(k.args[0].Lit(), "-") && harmlessSet.Get().MatchString(constantOf(k.args[1])):
		return shellText{taint: k.in.taint, safe: safeAll}
	case filters.Has(k.name):
		v := k.in
		if len(k.args) > 1 && v.taint == 0 { // of a file
			v = shellText{taint: all.taint}
		}
		if k.name != "cat" && k.name != "tee" {
			v.text, v.built = "", false
		}
		return v
	}
	return shellText{}
}

var (
	// plainFormat matches formats of printf that add nothing to a value.
	plainFormat = lazily.Regexp(`^(?:%s(?:\\n)?)+$`)
	// countFilter matches filters of jq that return a number.
	countFilter = lazily.Regexp(`(?:^|\|)\s*(?:length|add|tonumber)\s*$`)
)
