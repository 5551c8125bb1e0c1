package review

import (
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// The rules.
const (
	SQL        = "sql"
	Shell      = "shell"
	Path       = "path"
	TLS        = "tls"
	Eval       = "eval"
	Secret     = "secret"
	Unreviewed = "unreviewed"
)

// maxFindings is the maximum number of findings that are kept.
const maxFindings = 50

// A checker checks calls, assignments and texts for the faults that the rules name.
type checker struct {
	python bool
	found  []Finding
	seen   map[place]bool
}

// A place is the place of a finding.
type place struct {
	rule string
	at   int
}

// dropFindings drops the findings.
func (k *checker) dropFindings() { k.found, k.seen = nil, map[place]bool{} }

// reportFault records a finding.
func (k *checker) reportFault(rule string, at int, message, better string) {
	p := place{rule, at}
	if k.seen[p] || len(k.found) >= maxFindings {
		return
	}
	k.seen[p] = true
	k.found = append(k.found, Finding{Rule: rule, At: at, Message: message, Better: better})
}

// describeOrigin describes where a tainted value comes from.
func (v *value) describeOrigin() string {
	switch {
	case v.taint&fromResult != 0:
		return "a result"
	case v.taint&fromListing != 0:
		return "the name of a file"
	}
	return "an argument"
}

// placeOr returns the place of the tainted part of v, or else at.
func (v *value) placeOr(at int) int {
	if v.built && v.at > 0 {
		return v.at
	}
	return at
}

// checkCall checks the arguments of a call.
func (k *checker) checkCall(c *call) {
	if c.path == "" && c.last == "" || logNames.Has(c.last) {
		return
	}
	k.checkEval(c)
	position := 0
	for _, a := range c.args {
		if a.key != "" {
			k.checkArgument(c, strings.ToLower(a.key), -1, a.value, a.node.at)
			continue
		}
		k.checkArgument(c, "", position, a.value, a.node.at)
		for i, name := range a.value.names {
			k.checkArgument(c, strings.ToLower(name), -1, a.value.fields[i], a.node.at)
		}
		position++
	}
	if c.receiver != nil && c.receiver.path && fileMethods.Has(c.last) {
		k.checkPath(c.receiver, c.node.at)
	}
	k.checkProgramArguments(c)
	k.checkInsecureCall(c)
}

// checkArgument checks an argument by its name, or by its position if it has none.
func (k *checker) checkArgument(c *call, key string, position int, v *value, at int) {
	if v.taint == 0 {
		if v.text != "" && (shellKeys.Has(key) || isShell(c, key, position)) {
			k.checkCommand(v.text, at)
		}
		return
	}
	if isSQL(c, key, position, v) && v.built && v.safe&safeSQL == 0 {
		k.reportFault(SQL, v.placeOr(at), "this query is put together from "+v.describeOrigin(),
			`pass values as parameters, for example {sql: "... WHERE id = $1", params: [id]}, and choose names of `+
				"tables and columns from a list in the program")
	}
	if isShell(c, key, position) && v.safe&safeShell == 0 && len(v.items) == 0 && v.elem == nil &&
		(v.built || v.taint&fromResult != 0 && len(v.names) == 0) {
		k.reportFault(Shell, v.placeOr(at), "this shell command is put together from "+v.describeOrigin(),
			`pass the program and its arguments separately, for example {command: "git", args: ["log", name]}, `+
				"or quote each value (shlex.quote)")
	}
	if isFile(c, key, position) {
		k.checkPath(v, at)
	}
}

// checkPath reports a path that is put together from values that aren't names of files.
func (k *checker) checkPath(v *value, at int) {
	if v.built && v.taint&^fromListing != 0 && v.safe&safePath == 0 {
		k.reportFault(Path, v.placeOr(at),
			"this path is put together from "+v.describeOrigin()+", which may contain ../",
			"use only its last part (path.basename, Path(name).name), or check it against a pattern such as "+
				"/^[\\w-]+$/ before")
	}
}

var (
	startsSQL = lazily.Regexp(`(?is)^[\s(]*(?:select|insert|update|delete|with|drop|alter|create|truncate|replace|` +
		`merge|grant|revoke|explain|pragma|copy|vacuum|call|set|show|describe|analyze|refresh|attach)\b`)
	certainSQL = lazily.Regexp(`(?is)\bselect\b.+\bfrom\b|\binsert\s+into\b|\bupdate\b.+\bset\b|\bdelete\s+from\b|` +
		`\b(?:drop|alter|create|truncate)\s+(?:temp(?:orary)?\s+)?` +
		`(?:table|view|index|database|schema|user|role|materialized)\b|` +
		`\b(?:where|order\s+by|group\s+by)\b.+[=<>]|\btruncate\s|\bgrant\b.+\bto\b`)
)

// isSQL reports whether an argument is a query of a database.
func isSQL(c *call, key string, position int, v *value) bool {
	if !v.built {
		return false
	}
	text := v.text
	database := c.hasWord(databaseWords)
	switch {
	case key == "sql" || key == "raw_sql" || key == "sql_query":
		return true
	case sqlKeys.Has(key):
		begins := startsSQL.Get().MatchString(text)
		return begins && (database || key != "text" && key != "q" && certainSQL.Get().MatchString(text)) ||
			database && certainSQL.Get().MatchString(text)
	case key == "" && position <= 1 && sqlMethods.Has(strings.ToLower(c.last)):
		begins := startsSQL.Get().MatchString(text)
		return begins && (database || c.path == "" || certainSQL.Get().MatchString(text)) ||
			database && certainSQL.Get().MatchString(text)
	case key == "" && position == 0 && database:
		return certainSQL.Get().MatchString(text)
	}
	return false
}

// isShell reports whether an argument is a command for a shell.
func isShell(c *call, key string, position int) bool {
	if key == "shell" {
		return false
	}
	if key == "" && position == 0 {
		switch {
		case shellFunctions.Has(c.path) && (c.path != "exec" || c.node.keys == nil):
			return true
		case shellLoose.Has(c.path):
			first := c.args[0].value
			return c.hasShell() || !first.isList() && first.built
		case c.path != "" && c.hasWord(shellWords) && !c.hasWord(databaseWords):
			return !shellLoose.Has(c.path) && !evalCalls.Has(c.path)
		case c.path == "" && (c.last == "exec_command" || c.last == "execCommand" || c.last == "execSync"):
			return true
		}
		return false
	}
	if shellKeys.Has(key) {
		return c.path != "" || c.last != "set"
	}
	return (key == "script" || key == "args" && position < 0 && c.hasShell()) && c.hasWord(shellWords)
}

// hasShell reports whether a call says that its command is for a shell.
func (c *call) hasShell() bool {
	for _, a := range c.args {
		if a.key == "shell" && a.value.known && a.value.text != "false" {
			return true
		}
		for i, n := range a.value.names {
			if n == "shell" && a.value.fields[i].known && a.value.fields[i].text != "false" {
				return true
			}
		}
	}
	return false
}

// isFile reports whether an argument is the path of a file.
func isFile(c *call, key string, position int) bool {
	if key == "" {
		if position > 1 || position < 0 {
			return false
		}
		if fileCalls.Has(c.path) {
			return position == 0 || c.hasWord(moveWords)
		}
		if c.path == "" || pathBuilders.Has(c.path) || strings.HasPrefix(c.path, "path.") ||
			strings.HasPrefix(c.path, "os.path") {
			return false
		}
		return c.hasWord(fileWords) && (position == 0 || c.hasWord(moveWords)) && !isEscape(c.last) &&
			!passing.Has(c.path)
	}
	return pathKeys.Has(key) && (c.hasWord(fileWords) || fileCalls.Has(c.path)) && !c.hasWord(webWords)
}

var moveWords = lazily.Words(`copy move rename copyfile replace copy2 link symlink`)

// checkProgramArguments checks lists like ["bash", "-c", text].
func (k *checker) checkProgramArguments(c *call) {
	check := func(items []*value, at int) {
		for i, x := range items[:max(len(items)-1, 0)] {
			if next := items[i+1]; x.known && runsText.Has(x.text) && next.taint != 0 &&
				next.safe&safeShell == 0 {
				k.reportFault(Shell, next.placeOr(at), "this shell command is put together from "+next.describeOrigin(),
					`pass the value as a separate argument, for example ["sh", "-c", 'grep -- "$1" log', "sh", value]`)
			}
		}
	}
	for _, a := range c.args {
		check(a.value.items, a.node.at)
		for _, x := range a.value.fields {
			check(x.items, a.node.at)
		}
	}
}

var runsText = lazily.Words(`-c -lc -ec -euc /c -e -Command --command -exc`)

// checkEval checks a call that runs a text as a program.
func (k *checker) checkEval(c *call) {
	name := c.path
	if c.node.kind == newNode && name == "" {
		name = c.last
	}
	if name == "" && c.last == "AsyncFunction" {
		name = c.last
	}
	if !evalCalls.Has(name) || !k.python && (name == "exec" || name == "compile") || k.python && name == "Function" {
		return
	}
	for _, a := range c.args {
		v := a.value
		if v.taint == 0 || v.fn != nil || strings.HasPrefix(name, "set") && (a.node != c.args[0].node || !v.built) {
			continue
		}
		k.reportFault(Eval, v.placeOr(c.node.at), "this runs "+v.describeOrigin()+" as a program",
			"parse the data (JSON.parse, json.loads, ast.literal_eval), or choose the operation from a list in the "+
				"program")
		return
	}
}

// isFalse reports whether a node is false, or 0.
func isFalse(n *node) bool { return n.kind == numberNode && (n.text == "false" || n.text == "0") }

func isTrue(n *node) bool { return n.kind == numberNode && (n.text == "true" || n.text == "1") }

// reportTLS reports a check of certificates that is switched off.
func (k *checker) reportTLS(at int) {
	k.reportFault(TLS, at, "this switches off the check of TLS certificates", tlsBetter)
}

const tlsBetter = "leave the check of certificates on; for a private authority, add its certificate (ca, cafile, " +
	"verify=path)"

// checkProperty checks the value of a property or a named argument.
func (k *checker) checkProperty(key string, n *node, v *value) {
	switch n.kind {
	case numberNode, textNode, funcNode, memberNode, listNode, choiceNode:
	default:
		return
	}
	off := false
	switch strings.ReplaceAll(strings.ToLower(key), "_", "") {
	case "rejectunauthorized", "strictssl", "verifyssl", "sslverify", "tlsverify", "verifytls", "checkhostname",
		"checkcertificate", "verifycertificate", "validatecerts", "validatecertificate", "verifypeer", "verifycert",
		"verifycerts", "validatessl", "verifyhostname", "tlsrejectunauthorized":
		off = isFalse(n)
	case "insecureskipverify", "skiptlsverify", "insecuretls", "skipsslverify", "ignoretlserrors", "ignorehttpserrors",
		"ignorecertificateerrors", "acceptinvalidcerts", "allowinsecure", "allowinvalidcertificates", "allowselfsigned",
		"tlsallowinvalidcertificates", "ignoresslerrors", "disabletlsverification", "acceptinsecurecerts", "skipverify":
		off = isTrue(n)
	case "nodetlsrejectunauthorized":
		off = isFalse(n) || v.known && v.text == "0"
	case "gitsslnoverify", "pythonhttpsverify":
		off = isTrue(n) || v.known && (v.text == "1" || v.text == "true" || v.text == "0")
	case "checkserveridentity":
		off = n.kind == funcNode && (n.body == nil || len(n.body.kids) == 0 ||
			n.body.kind == returnNode && n.body.kids[0].kind != callNode)
	case "certreqs", "verifymode":
		off = n.kind == memberNode && n.text == "CERT_NONE" || v.known && v.text == "CERT_NONE"
	case "sslmode":
		off = v.known && v.text == "disable"
	}
	if off {
		k.reportTLS(n.at)
	}
	k.checkNamedSecret(key, n)
}

// checkAssignment checks an assignment.
func (k *checker) checkAssignment(target, n *node, v *value) {
	switch target.kind {
	case nameNode, memberNode:
		k.checkProperty(target.text, n, v)
		if target.kind == memberNode && target.text == "verify" && isFalse(n) { // session.verify = False
			k.reportTLS(n.at)
		}
	case indexNode:
		if key := target.kids[1]; key.kind == textNode {
			k.checkProperty(key.text, n, v)
		}
	}
}

// checkInsecureCall checks the named arguments of a call that are dangerous only there.
func (k *checker) checkInsecureCall(c *call) {
	if strings.HasSuffix(c.path, "_create_unverified_context") {
		k.reportTLS(c.node.at)
	}
	web := false
	check := func(key string, n *node) {
		switch key {
		case "verify":
			if isFalse(n) && (web || k.python || c.isWeb()) {
				k.reportTLS(n.at)
			}
		case "ssl":
			if k.python && isFalse(n) && (c.isWeb() || isVerb(c.last) || c.last == "TCPConnector") {
				k.reportTLS(n.at)
			}
		case "insecure":
			if isTrue(n) {
				k.reportTLS(n.at)
			}
		}
	}
	for _, a := range c.args {
		check(a.key, a.node)
		if a.node.kind == objectNode {
			web = web || a.value.hasField("url") || a.value.hasField("host")
			for i, key := range a.node.keys {
				check(key, a.node.kids[i])
			}
		}
	}
}

// isWeb reports whether a call is about the network.
func (c *call) isWeb() bool { return c.hasWord(webWords) || hasWord(c.last, webWords) }

// isVerb reports whether a method is named like an HTTP method.
func isVerb(name string) bool {
	switch name {
	case "get", "post", "put", "delete", "patch", "head", "options", "request":
		return true
	}
	return false
}

var insecureCommand = lazily.Regexp(`\bcurl\b[^|;&]*\s(?:-[a-zA-Z]*k[a-zA-Z]*|--insecure)(?:\s|$)|` +
	`--no-check-certificate\b|\bhttp\.sslVerify=false\b|\bGIT_SSL_NO_VERIFY=(?:1|true)|` +
	`NODE_TLS_REJECT_UNAUTHORIZED=0|--trusted-host\b|--insecure-skip-tls-verify\b|\bstrict-ssl\s+false\b`)

// checkCommand checks a command of the program for switched-off checks.
func (k *checker) checkCommand(text string, at int) {
	if strings.ContainsAny(text, "-=") && insecureCommand.Get().MatchString(text) {
		k.reportTLS(at)
	}
}
