package review

import "strings"

// maxNesting is the maximum nesting of a Python program that is parsed.
const maxNesting = 200

// A parser parses Python. It accepts more than the language does: the interpreter reports errors.
type parser struct {
	cursor
	depth int
}

// The texts of some blocks of Python.
const (
	importBlock  = "*"     // an import of all names of a module
	guardedBlock = "try"   // a try or with statement, which may catch errors; keys are the names of errors
	matchBlock   = "match" // its patterns, which are not parsed, may bind names
)

// parsePython converts a program.
func parsePython(code string) (out *node, err error) {
	list, err := scanPython(code, false)
	if err != nil {
		return nil, err
	}
	p := &parser{cursor: cursor{list: list}}
	defer recoverSyntax(&err)
	out = newNodeAt(blockNode, 0, "")
	for p.peekToken().kind != endToken {
		out.kids = p.parseStatement(out.kids)
	}
	return out, nil
}

// recoverSyntax turns a panic of failSyntax into an error.
func recoverSyntax(err *error) {
	switch v := recover(); v {
	case nil:
	case errSyntax:
		*err = errSyntax
	default:
		panic(v)
	}
}

// enterLevel counts a level of nesting; leaveLevel ends it.
func (p *parser) enterLevel() {
	if p.depth++; p.depth > maxNesting {
		p.failSyntax()
	}
}

func (p *parser) leaveLevel() { p.depth-- }

// parseStatement appends the statements of a logical line, or a compound statement.
func (p *parser) parseStatement(out []*node) []*node {
	t := p.peekToken()
	if t.kind == lineToken || t.kind == indentToken || t.kind == dedentToken {
		p.at++
		return out
	}
	p.enterLevel()
	defer p.leaveLevel()
	if t.kind == wordToken {
		if n := p.parseCompound(t); n != nil {
			return append(out, n)
		}
	}
	if t.kind == markToken && t.text == "@" {
		p.at++
		out = append(out, p.parseExpressions())
		if p.peekToken().kind == lineToken {
			p.at++
		}
		return p.parseStatement(out)
	}
	for {
		out = append(out, p.parseSimple())
		if !p.acceptToken(";") || p.peekToken().kind == lineToken {
			break
		}
	}
	switch p.peekToken().kind {
	case lineToken:
		p.at++
	case endToken, dedentToken:
	default:
		p.failSyntax()
	}
	return out
}

// parseBody parses ": body".
func (p *parser) parseBody() *node {
	p.expectToken(":")
	out := newNodeAt(blockNode, p.placeHere(), "")
	if p.peekToken().kind != lineToken {
		out.kids = p.parseStatement(nil)
		return out
	}
	for p.peekToken().kind == lineToken {
		p.at++
	}
	if p.peekToken().kind != indentToken {
		p.failSyntax()
	}
	p.at++
	for p.peekToken().kind != dedentToken {
		if p.peekToken().kind == endToken {
			return out
		}
		out.kids = p.parseStatement(out.kids)
	}
	p.at++
	return out
}

// parseCompound parses a compound statement. It returns nil if there is none.
func (p *parser) parseCompound(t token) *node {
	at := p.placeHere()
	switch t.text {
	case "async":
		p.at++
		return p.parseCompound(p.peekToken())
	case "if", "elif":
		p.at++
		test := p.parseWalrus()
		out := newNodeAt(ifNode, at, "", test, p.parseBody(), newNodeAt(blockNode, at, ""))
		switch {
		case p.isNext("elif"):
			out.kids[2] = p.parseCompound(p.peekToken())
		case p.acceptToken("else"):
			out.kids[2] = p.parseBody()
		}
		return out
	case "while":
		p.at++
		test := p.parseWalrus()
		return p.withElse(newNodeAt(loopNode, at, "", nil, test, p.parseBody()))
	case "for":
		p.at++
		target := p.parseTargets()
		p.expectToken("in")
		source := p.parseExpressions()
		return p.withElse(newNodeAt(loopNode, at, "", target, source, p.parseBody()))
	case "with":
		return p.parseWith()
	case "try":
		p.at++
		out := newNodeAt(blockNode, at, guardedBlock, p.parseBody())
		for p.isNext("except") || p.isNext("else") || p.isNext("finally") {
			p.at++
			for !p.isNext(":") { // the exception and its name
				named := p.isNext("as")
				t := p.nextToken()
				if t.kind == lineToken || t.kind == endToken {
					p.failSyntax()
				}
				if named {
					out.keys = append(out.keys, p.peekToken().text)
				}
			}
			out.kids = append(out.kids, p.parseBody())
		}
		return out
	case "def":
		return p.parseDef()
	case "class":
		return p.parseClass()
	case "match":
		return p.parseMatch()
	}
	return nil
}

func (p *parser) withElse(n *node) *node {
	if !p.acceptToken("else") {
		return n
	}
	return newNodeAt(blockNode, n.at, "", n, p.parseBody())
}

func (p *parser) parseWith() *node {
	out := newNodeAt(blockNode, p.placeHere(), guardedBlock)
	p.at++
	enclosed := p.isNext("(") && p.closesBeforeColon()
	if enclosed {
		p.at++
	}
	for {
		value := p.parseTest()
		if p.acceptToken("as") {
			target := p.parseTarget()
			value = newNodeAt(assignNode, value.at, "=", target, value)
		}
		out.kids = append(out.kids, value)
		if !p.acceptToken(",") || p.isNext(")") {
			break
		}
	}
	if enclosed {
		p.expectToken(")")
	}
	out.kids = append(out.kids, p.parseBody())
	return out
}

func (p *parser) parseDef() *node {
	at := p.placeHere()
	p.at++
	name := p.nextToken().text
	if p.isNext("[") {
		p.parseAtom()
	}
	f := newNodeAt(funcNode, at, name)
	p.expectToken("(")
	f.params = p.parseParameters(")")
	p.expectToken(")")
	if p.acceptToken("->") {
		p.parseTest()
	}
	f.body = p.parseBody()
	return newNodeAt(assignNode, at, "=", newNodeAt(nameNode, at, name), f)
}

// parseParameters parses the parameters of a function up to a closing mark.
func (p *parser) parseParameters(end string) (out []*node) {
	for !p.isNext(end) {
		at := p.placeHere()
		starred := p.acceptToken("*") || p.acceptToken("**")
		if t := p.peekToken(); t.kind == wordToken {
			p.at++
			param := newNodeAt(nameNode, at, t.text)
			if end == ")" && p.acceptToken(":") {
				p.parseTest()
			}
			if p.acceptToken("=") {
				param = newNodeAt(assignNode, at, "=", param, p.parseTest())
			}
			if starred {
				param = newNodeAt(spreadNode, at, "", param)
			}
			out = append(out, param)
		} else if !starred && !p.acceptToken("/") {
			p.failSyntax()
		}
		if !p.acceptToken(",") {
			break
		}
	}
	return out
}

func (p *parser) parseClass() *node {
	at := p.placeHere()
	p.at++
	name := p.nextToken().text
	if p.isNext("[") {
		p.parseAtom()
	}
	if p.isNext("(") {
		p.parseArguments(newNodeAt(plainNode, at, ""))
	}
	out := newNodeAt(objectNode, at, "")
	for _, k := range p.parseBody().kids {
		name := ""
		if k.kind == assignNode && k.kids[0].kind == nameNode {
			name, k = k.kids[0].text, k.kids[1]
		}
		if k.kind == funcNode && len(k.params) > 0 && k.params[0].kind == nameNode && k.params[0].text == "self" {
			k.params = k.params[1:]
		}
		out.keys, out.kids = append(out.keys, name), append(out.kids, k)
	}
	return newNodeAt(assignNode, at, "=", newNodeAt(nameNode, at, name), out)
}

// parseMatch parses a match statement. It returns nil if match is a name here.
func (p *parser) parseMatch() *node {
	switch t := p.peekAfter(1); {
	case t.kind == markToken && t.text != "(" && t.text != "[" && t.text != "{",
		t.kind == lineToken, t.kind == endToken:
		return nil
	}
	start, at := p.at, p.placeHere()
	p.at++
	subject := p.parseExpressions()
	if !p.isNext(":") {
		p.at = start
		return nil
	}
	p.at++
	for p.peekToken().kind == lineToken || p.peekToken().kind == indentToken {
		p.at++
	}
	out := newNodeAt(blockNode, at, matchBlock, subject)
	for p.acceptToken("case") {
		for depth := 0; depth > 0 || !p.isNext(":"); {
			switch t := p.nextToken(); {
			case t.kind == lineToken || t.kind == endToken:
				p.failSyntax()
			case t.kind == markToken && strings.Contains("([{", t.text):
				depth++
			case t.kind == markToken && strings.Contains(")]}", t.text):
				depth--
			}
		}
		body := p.parseBody()
		out.kids = append(out.kids, newNodeAt(ifNode, at, "", newNodeAt(plainNode, at, ""), body,
			newNodeAt(blockNode, at, "")))
	}
	if p.peekToken().kind == dedentToken {
		p.at++
	}
	return out
}

// parseSimple parses a simple statement.
func (p *parser) parseSimple() *node {
	t, at := p.peekToken(), p.placeHere()
	if t.kind == wordToken {
		switch t.text {
		case "import":
			return p.parseImport()
		case "from":
			return p.parseFrom()
		case "return", "raise":
			p.at++
			k := returnNode
			if t.text == "raise" {
				k = exitNode
			}
			out := newNodeAt(k, at, "")
			if !p.endsStatement() {
				out.kids = append(out.kids, p.parseExpressions())
				if p.acceptToken("from") {
					p.parseTest()
				}
			}
			return out
		case "type":
			if p.peekAfter(1).kind == wordToken {
				p.at++
			}
		case "pass":
			p.at++
			return newNodeAt(blockNode, at, "")
		case "break", "continue":
			p.at++
			return newNodeAt(exitNode, at, "")
		case "global", "nonlocal":
			p.at++
			out := newNodeAt(outerNode, at, "")
			for p.peekToken().kind == wordToken {
				out.keys = append(out.keys, p.nextToken().text)
				p.acceptToken(",")
			}
			return out
		case "del":
			p.at++
			return newNodeAt(plainNode, at, "", p.parseExpressions())
		case "assert":
			p.at++
			test := p.parseTest()
			if p.acceptToken(",") {
				p.parseTest()
			}
			return newNodeAt(ifNode, at, "", newNodeAt(notNode, at, "", test), newNodeAt(exitNode, at, ""),
				newNodeAt(blockNode, at, ""))
		}
	}
	return p.parseAssignment()
}

func (p *parser) parseAssignment() *node {
	first := p.parseExpressions()
	if p.acceptToken(":") { // an annotation
		p.parseTest()
		if !p.isNext("=") {
			return newNodeAt(blockNode, first.at, "")
		}
	}
	if t := p.peekToken(); t.kind == markToken && len(t.text) > 1 && t.text[len(t.text)-1] == '=' &&
		!strings.Contains("== != <= >= :=", t.text) {
		p.at++
		return newNodeAt(assignNode, first.at, t.text, first, p.parseExpressions())
	}
	targets := []*node{}
	value := first
	for p.acceptToken("=") {
		targets = append(targets, value)
		value = p.parseExpressions()
	}
	for _, target := range targets {
		value = newNodeAt(assignNode, target.at, "=", target, value)
	}
	return value
}

func (p *parser) parseModulePath() string {
	var b strings.Builder
	for p.isNext(".") || p.isNext("...") {
		p.at++
	}
	for p.peekToken().kind == wordToken && !p.isNext("import") {
		b.WriteString(p.nextToken().text)
		if !p.acceptToken(".") {
			break
		}
		b.WriteByte('.')
	}
	return b.String()
}

func (p *parser) parseImport() *node {
	out := newNodeAt(blockNode, p.placeHere(), "")
	p.at++
	for {
		at := p.placeHere()
		name := p.parseModulePath()
		if name == "" {
			p.failSyntax()
		}
		as, _, _ := strings.Cut(name, ".")
		module := as
		if p.acceptToken("as") {
			as, module = p.nextToken().text, name
		}
		out.kids = append(out.kids, newNodeAt(assignNode, at, "=", newNodeAt(nameNode, at, as),
			newNodeAt(importNode, at, module)))
		if !p.acceptToken(",") {
			return out
		}
	}
}

func (p *parser) parseFrom() *node {
	out := newNodeAt(blockNode, p.placeHere(), "")
	p.at++
	module := p.parseModulePath()
	p.expectToken("import")
	enclosed := p.acceptToken("(")
	if p.acceptToken("*") {
		out.text = importBlock
		return out
	}
	for p.peekToken().kind == wordToken {
		at := p.placeHere()
		name := p.nextToken().text
		as := name
		if p.acceptToken("as") {
			as = p.nextToken().text
		}
		out.kids = append(out.kids, newNodeAt(assignNode, at, "=", newNodeAt(nameNode, at, as),
			newNodeAt(importNode, at, strings.TrimPrefix(module+"."+name, "."))))
		if !p.acceptToken(",") {
			break
		}
	}
	if enclosed {
		p.expectToken(")")
	}
	return out
}
