package review

import "strings"

// parseExpressions parses one or more expressions, separated by commas, which make a tuple.
func (p *parser) parseExpressions() *node {
	at := p.placeHere()
	first := p.parseElement()
	if !p.isNext(",") {
		return first
	}
	out := newNodeAt(listNode, at, "", first)
	for p.acceptToken(",") {
		if p.endsStatement() || p.isNext("=") || p.isNext(")") || p.isNext("]") ||
			p.isNext("}") || p.isNext(":") || p.isNext("in") {
			break
		}
		out.kids = append(out.kids, p.parseElement())
	}
	return out
}

func (p *parser) parseElement() *node {
	at := p.placeHere()
	if p.acceptToken("*") || p.acceptToken("**") {
		return newNodeAt(spreadNode, at, "", p.parseTest())
	}
	return p.parseWalrus()
}

// parseWalrus parses an expression that may be name := value.
func (p *parser) parseWalrus() *node {
	out := p.parseTest()
	if p.acceptToken(":=") {
		return newNodeAt(assignNode, out.at, "=", out, p.parseTest())
	}
	return out
}

// parseTargets parses the targets of a loop.
func (p *parser) parseTargets() *node {
	at := p.placeHere()
	first := p.parseTarget()
	if !p.isNext(",") {
		return first
	}
	out := newNodeAt(listNode, at, "", first)
	for p.acceptToken(",") && !p.isNext("in") {
		out.kids = append(out.kids, p.parseTarget())
	}
	return out
}

func (p *parser) parseTarget() *node {
	at := p.placeHere()
	if p.acceptToken("*") {
		return newNodeAt(spreadNode, at, "", p.parseUnary())
	}
	return p.parseUnary()
}

// parseTest parses an expression without commas.
func (p *parser) parseTest() *node {
	p.enterLevel()
	defer p.leaveLevel()
	at := p.placeHere()
	if p.acceptToken("lambda") {
		f := newNodeAt(funcNode, at, "")
		f.params = p.parseParameters(":")
		p.expectToken(":")
		f.body = newNodeAt(returnNode, at, "", p.parseTest())
		return f
	}
	if p.acceptToken("yield") {
		p.acceptToken("from")
		if p.endsStatement() || p.isNext(")") {
			return newNodeAt(plainNode, at, "")
		}
		return p.parseExpressions()
	}
	out := p.parseBinary(0)
	if p.acceptToken("if") {
		test := p.parseBinary(0)
		p.expectToken("else")
		return newNodeAt(choiceNode, at, "?", test, out, p.parseTest())
	}
	return out
}

// levels are the binary operators, by increasing precedence.
var levels = [...][]string{{"or"}, {"and"}, {"in", "not", "is", "<", ">", "==", "!=", "<=", ">="}, {"|"}, {"^"}, {"&"},
	{"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%", "@"}}

const comparing = 2 // the level of comparisons

func (p *parser) parseBinary(level int) *node {
	if level == len(levels) {
		return p.parseUnary()
	}
	at := p.placeHere()
	if level == comparing && p.isNext("not") {
		p.enterLevel()
		defer p.leaveLevel()
		p.at++
		return newNodeAt(notNode, at, "!", p.parseBinary(level))
	}
	out := p.parseBinary(level + 1)
	for {
		op := p.operatorOf(level)
		if op == "" {
			return out
		}
		right := p.parseBinary(level + 1)
		k := plainNode
		switch op {
		case "or":
			k, op = choiceNode, "||"
		case "and":
			k = andNode
		case "in", "not in", "==", "!=", "is", "is not":
			k = testNode
		case "+", "%", "/":
			k = joinNode
		}
		out = newNodeAt(k, at, op, out, right)
	}
}

// operatorOf reads an operator of a level. It returns "" if there is none.
func (p *parser) operatorOf(level int) string {
	t := p.peekToken()
	if t.kind != wordToken && t.kind != markToken {
		return ""
	}
	for _, op := range levels[level] {
		if t.text != op {
			continue
		}
		switch p.at++; {
		case op == "not":
			p.expectToken("in")
			return "not in"
		case op == "is" && p.acceptToken("not"):
			return "is not"
		}
		return op
	}
	return ""
}

func (p *parser) parseUnary() *node {
	p.enterLevel()
	defer p.leaveLevel()
	at := p.placeHere()
	switch {
	case p.acceptToken("-"), p.acceptToken("+"), p.acceptToken("~"):
		return newNodeAt(plainNode, at, "-", p.parseUnary())
	case p.acceptToken("await"):
		out := p.parseUnary()
		out.awaited = true
		return out
	}
	out := p.parseTrailers(p.parseAtom())
	if p.acceptToken("**") {
		return newNodeAt(plainNode, at, "**", out, p.parseUnary())
	}
	return out
}

// parseTrailers parses the members, calls and indexes after an atom.
func (p *parser) parseTrailers(out *node) *node {
	for {
		switch {
		case p.acceptToken("."):
			t := p.nextToken()
			if t.kind != wordToken {
				p.failSyntax()
			}
			out = newNodeAt(memberNode, out.at, t.text, out)
		case p.isNext("("):
			out = p.parseArguments(out)
		case p.acceptToken("["):
			key := p.parseSlices()
			p.expectToken("]")
			if key.kind == textNode {
				out = newNodeAt(memberNode, out.at, key.text, out)
				out.index = true
			} else {
				out = newNodeAt(indexNode, out.at, "", out, key)
			}
		default:
			return out
		}
	}
}

func (p *parser) parseSlices() *node {
	out := newNodeAt(listNode, p.placeHere(), "slice")
	sliced := false
	for !p.isNext("]") {
		if p.acceptToken(":") || p.acceptToken(",") {
			sliced = true
			continue
		}
		out.kids = append(out.kids, p.parseElement())
		if !p.isNext(":") && !p.isNext(",") && !p.isNext("]") {
			p.failSyntax()
		}
	}
	if !sliced && len(out.kids) == 1 {
		return out.kids[0]
	}
	return out
}

func (p *parser) parseArguments(callee *node) *node {
	p.expectToken("(")
	out := newNodeAt(callNode, callee.at, "", callee)
	add := func(key string, v *node) { out.keys, out.kids = append(out.keys, key), append(out.kids, v) }
	for !p.isNext(")") {
		t := p.peekToken()
		if after := p.peekAfter(1); t.kind == wordToken && after.kind == markToken && after.text == "=" {
			p.at += 2
			add(t.text, p.parseTest())
		} else {
			v := p.parseElement()
			if p.isNext("for") || p.isNext("async") {
				v = p.parseFor(v, nil)
			}
			add("", v)
		}
		if !p.acceptToken(",") {
			break
		}
	}
	p.expectToken(")")
	return out
}

// parseFor parses the clauses of a comprehension.
func (p *parser) parseFor(element, key *node) *node {
	out := newNodeAt(comprehensionNode, element.at, "", element)
	out.body = key
	for {
		switch {
		case p.acceptToken("async"):
		case p.acceptToken("for"):
			target := p.parseTargets()
			p.expectToken("in")
			out.kids = append(out.kids, target, p.parseBinary(0))
		case p.acceptToken("if"):
			test := p.parseBinary(0)
			out.params = append(out.params, test)
		default:
			return out
		}
	}
}

func (p *parser) parseAtom() *node {
	t, at := p.peekToken(), p.placeHere()
	switch t.kind {
	case wordToken:
		p.at++
		switch t.text {
		case "True", "False", "None":
			return newNodeAt(numberNode, at, strings.ToLower(t.text))
		}
		return newNodeAt(nameNode, at, t.text)
	case numberToken:
		p.at++
		return newNodeAt(numberNode, at, t.text)
	case stringToken:
		return p.parseStrings()
	case markToken:
		switch t.text {
		case "(":
			return p.parseGroup("(", ")")
		case "[":
			return p.parseGroup("[", "]")
		case "{":
			return p.parseBraces()
		case "...":
			p.at++
			return newNodeAt(plainNode, at, "")
		}
	}
	p.failSyntax()
	return nil
}

// parseGroup parses a tuple, a list, a comprehension, or an expression in brackets.
func (p *parser) parseGroup(open, end string) *node {
	at := p.placeHere()
	p.expectToken(open)
	if p.acceptToken(end) {
		return newNodeAt(listNode, at, "")
	}
	first := p.parseElement()
	if p.isNext("for") || p.isNext("async") {
		first = p.parseFor(first, nil)
		p.expectToken(end)
		return first
	}
	if open == "(" && p.acceptToken(end) {
		return first
	}
	out := newNodeAt(listNode, at, "", first)
	for p.acceptToken(",") && !p.isNext(end) {
		out.kids = append(out.kids, p.parseElement())
	}
	p.expectToken(end)
	return out
}

// parseBraces parses a dictionary, a set, or a comprehension of one.
func (p *parser) parseBraces() *node {
	out := newNodeAt(objectNode, p.placeHere(), "")
	p.expectToken("{")
	set := false
	for !p.isNext("}") {
		if p.acceptToken("**") {
			out.keys, out.kids = append(out.keys, "..."), append(out.kids, p.parseBinary(0))
		} else {
			key := p.parseElement()
			value := key
			if p.acceptToken(":") {
				value = p.parseTest()
			} else {
				set = true
			}
			if p.isNext("for") || p.isNext("async") {
				value = p.parseFor(value, key)
				p.expectToken("}")
				return value
			}
			name := ""
			if key.kind == textNode && !set {
				name = key.text
			}
			out.keys, out.kids = append(out.keys, name), append(out.kids, value)
		}
		if !p.acceptToken(",") {
			break
		}
	}
	p.expectToken("}")
	if set {
		return newNodeAt(listNode, out.at, "", out.kids...)
	}
	return out
}

// parseStrings parses adjacent strings, which are joined.
func (p *parser) parseStrings() *node {
	out := newNodeAt(joinNode, p.placeHere(), "")
	for p.peekToken().kind == stringToken {
		t := p.nextToken()
		prefix, content, start := splitString(t.text)
		if !strings.ContainsAny(prefix, "ft") {
			if !strings.Contains(prefix, "r") {
				content = unescapePython(content)
			}
			out.kids = append(out.kids, newNodeAt(textNode, t.at+p.base, content))
			continue
		}
		out.kids = p.parseFormat(out.kids, content, t.at+p.base+start, 0)
	}
	if len(out.kids) == 1 && out.kids[0].kind == textNode {
		return out.kids[0]
	}
	return out
}

// parseFormat appends the parts of an f-string whose content begins at offset base.
func (p *parser) parseFormat(out []*node, content string, base, nested int) []*node {
	if nested > 4 {
		p.failSyntax()
	}
	text := func(s string) {
		if s != "" {
			s = strings.ReplaceAll(strings.ReplaceAll(unescapePython(s), "{{", "{"), "}}", "}")
			out = append(out, newNodeAt(textNode, base, s))
		}
	}
	from := 0
	for i := 0; i < len(content); i++ {
		if content[i] != '{' {
			continue
		}
		if strings.HasPrefix(content[i:], "{{") {
			i++
			continue
		}
		text(content[from:i])
		end, spec := fieldEnd(content, i+1)
		if end < 0 {
			p.failSyntax()
		}
		expr := content[i+1 : spec]
		if j := strings.LastIndexByte(expr, '!'); j >= 0 && len(expr)-j <= 3 && !strings.HasPrefix(expr[j:], "!=") {
			expr = expr[:j]
		}
		expr = strings.TrimSuffix(strings.TrimRight(expr, " "), "=")
		n := p.parseInline(expr, base+i+1)
		if numericFormat(content[spec:end]) {
			n = newNodeAt(plainNode, n.at, "", n)
		}
		out = append(out, n)
		i = end
		from = end + 1
	}
	text(content[min(from, len(content)):])
	return out
}

// numericFormat reports whether a format is one that only numbers have: ":d", ":.2f".
func numericFormat(spec string) bool {
	return strings.HasPrefix(spec, ":") && strings.ContainsAny(spec[len(spec)-1:], "dfegxobn%")
}

// fieldEnd returns the end of the field of an f-string that starts at from, and where its
// expression ends. It returns -1 if the field doesn't end.
func fieldEnd(s string, from int) (end, expr int) {
	depth, quote := 0, byte(0)
	expr = -1
	for i := from; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case expr < 0 && (c == '"' || c == '\''):
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == '}' && depth == 0:
			if expr < 0 {
				expr = i
			}
			return i, expr
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == ':' && depth == 0 && expr < 0:
			expr = i
		}
	}
	return -1, -1
}

// parseInline parses an expression of an f-string.
func (p *parser) parseInline(code string, base int) *node {
	list, err := scanPython(code, true)
	if err != nil {
		p.failSyntax()
	}
	p.enterLevel()
	defer p.leaveLevel()
	in := &parser{cursor: cursor{list: list, base: base}, depth: p.depth}
	out := in.parseExpressions()
	if in.peekToken().kind != endToken {
		p.failSyntax()
	}
	return out
}
