package function

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A schema is a JSON Schema whose keys are in order.
type schema []pair

type pair struct {
	key   string
	value any
}

// MarshalJSON writes the keys in order.
func (s schema) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		k, err := json.Marshal(p.key)
		if err != nil {
			return nil, err
		}
		v, err := tool.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (s schema) getKey(key string) any {
	for _, p := range s {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

// withKey returns a copy of s with a key; an empty text is left out.
func (s schema) withKey(key string, value any) schema {
	if value == "" {
		return s
	}
	return append(slices.Clone(s), pair{key, value})
}

func ofType(name string) schema { return schema{{"type", name}} }

// Limits of the types of one signature.
const (
	maxTypeDepth = 24
	maxTypes     = 4000
	maxParams    = 50
)

// A typeReader converts TypeScript types to JSON Schema. Types that have none become any, with a
// note.
type typeReader struct {
	files []string // texts in which named types are looked up
	notes []string
	open  []string // the named types that are being read
	count int
	toks  []token
	at    int
	depth int
}

func (r *typeReader) addNote(format string, a ...any) schema {
	if n := fmt.Sprintf(format, a...); len(r.notes) < 20 && !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
	return schema{}
}

func (r *typeReader) peekToken() token {
	if r.at < len(r.toks) {
		return r.toks[r.at]
	}
	return token{}
}

func (r *typeReader) isSign(sign string) bool {
	t := r.peekToken()
	return t.kind == signToken && t.text == sign
}

func (r *typeReader) acceptSign(sign string) bool {
	if r.isSign(sign) {
		r.at++
		return true
	}
	return false
}

func (r *typeReader) acceptWord(w string) bool {
	if t := r.peekToken(); t.kind == wordToken && t.text == w {
		r.at++
		return true
	}
	return false
}

// readText reads a type from a text of its own.
func (r *typeReader) readText(s string) (_ schema, optional bool) {
	toks, at := r.toks, r.at
	defer func() { r.toks, r.at = toks, at }()
	r.toks, r.at = readTokens("("+s+")"), 1
	return r.readType()
}

// readType reads a type. optional means that it includes undefined.
func (r *typeReader) readType() (_ schema, optional bool) {
	r.depth++
	defer func() { r.depth-- }()
	if r.count++; r.count > maxTypes || r.depth > maxTypeDepth {
		r.skipTo()
		return r.addNote("its types are too large or nested too deep: the rest is any"), false
	}
	r.acceptSign("|")
	var all []schema
	for {
		s, undefined := r.readPart()
		if optional = optional || undefined; !undefined {
			all = append(all, s)
		}
		if !r.acceptSign("|") {
			break
		}
	}
	if r.acceptWord("extends") || r.acceptWord("is") {
		r.skipTo()
		return r.addNote("a conditional type is any"), optional
	}
	return joinAlternatives(all), optional
}

// readPart reads an intersection, or a single type.
func (r *typeReader) readPart() (s schema, undefined bool) {
	r.acceptSign("&")
	s, undefined = r.readPostfix()
	for r.acceptSign("&") {
		more, _ := r.readPostfix()
		s = mergeObjects(s, more)
	}
	return s, undefined
}

func (r *typeReader) readPostfix() (s schema, undefined bool) {
	s, undefined = r.readPrimary()
	for r.isSign("[") && !r.peekToken().line {
		r.at++
		if r.acceptSign("]") {
			s, undefined = ofType("array").withKey("items", s), false
			continue
		}
		r.skipTo()
		r.acceptSign("]")
		s = r.addNote("an indexed type is any")
	}
	return s, undefined
}

// skipTo skips to the end of the current type: a comma, a semicolon or a closing bracket.
func (r *typeReader) skipTo() {
	depth := 0
	for ; r.at < len(r.toks); r.at++ {
		if t := r.toks[r.at]; t.kind == signToken {
			switch t.text {
			case "(", "[", "{", "<":
				depth++
			case ")", "]", "}", ">":
				if depth--; depth < 0 {
					return
				}
			case ",", ";":
				if depth == 0 {
					return
				}
			case "=":
				if depth == 0 {
					return
				}
			}
		}
	}
}

func (r *typeReader) readPrimary() (s schema, undefined bool) {
	t := r.peekToken()
	r.at++
	switch t.kind {
	case stringToken:
		return schema{{"const", t.text}}, false
	case numberToken:
		return r.numberConst(t.text), false
	case templateToken:
		return ofType("string"), false
	case wordToken:
		return r.readWord(t.text)
	}
	switch t.text {
	case "-":
		n := r.peekToken()
		r.at++
		return r.numberConst("-" + n.text), false
	case "{":
		return r.readMembers(), false
	case "[":
		return r.readTuple(), false
	case "(":
		return r.readParens()
	case "*", "?": // JSDoc: any, and ?string
		if t.text == "?" && r.peekToken().kind == wordToken {
			s, undefined = r.readPostfix()
			return joinAlternatives([]schema{s, ofType("null")}), undefined
		}
		return schema{}, false
	}
	r.at--
	r.skipTo()
	return r.addNote("a type that can't be read is any"), false
}

func (r *typeReader) numberConst(text string) schema {
	var n json.Number
	if json.Unmarshal([]byte(text), &n) != nil {
		return ofType("number")
	}
	return schema{{"const", n}}
}

// readParens reads a type in parentheses, or a function type.
func (r *typeReader) readParens() (s schema, undefined bool) {
	start := r.at
	depth := 1
	for ; r.at < len(r.toks) && depth > 0; r.at++ {
		if t := r.toks[r.at]; t.kind == signToken && t.text == "(" {
			depth++
		} else if t.kind == signToken && t.text == ")" {
			depth--
		}
	}
	if r.acceptSign("=>") {
		_, _ = r.readType()
		return r.addNote("a function can't be an argument: its type is any"), false
	}
	end := r.at
	r.at = start
	s, undefined = r.readType()
	r.at = end
	return s, undefined
}

func (r *typeReader) readTuple() schema {
	var items []schema
	for r.at < len(r.toks) && !r.isSign("]") {
		if r.acceptSign("...") {
			r.skipTo()
		} else {
			if r.at+1 < len(r.toks) && r.peekToken().kind == wordToken && r.toks[r.at+1].text == ":" { // a label
				r.at += 2
			}
			s, _ := r.readType()
			items = append(items, s)
		}
		r.acceptSign("?")
		if !r.acceptSign(",") {
			break
		}
	}
	r.acceptSign("]")
	return ofType("array").withKey("prefixItems", items).withKey("minItems", len(items)).withKey("maxItems", len(items))
}

// plainTypes are the types that have a schema of their own.
var plainTypes = lazily.Value[map[string]schema]{Make: func() map[string]schema {
	return map[string]schema{
		"string": ofType("string"), "number": ofType("number"), "boolean": ofType("boolean"),
		"bigint": ofType("integer"),
		"any":    {}, "unknown": {}, "object": ofType("object"), "Object": ofType("object"), "null": ofType("null"),
		"true": {{"const", true}}, "false": {{"const", false}}, "String": ofType("string"), "Number": ofType("number"),
		"Boolean": ofType("boolean"), "never": {}, "Function": {},
	}
}}

// readWord reads a type that starts with a word.
func (r *typeReader) readWord(name string) (s schema, undefined bool) {
	switch name {
	case "undefined", "void":
		return nil, true
	case "readonly", "unique":
		return r.readPostfix()
	case "keyof", "typeof", "infer", "new", "abstract", "asserts", "import":
		r.skipTo()
		return r.addNote("the type %s ... is any", name), false
	}
	for r.acceptSign(".") {
		name += "." + r.peekToken().text
		r.at++
	}
	var args []schema
	from := r.at
	if r.acceptSign("<") {
		for r.at < len(r.toks) && !r.isSign(">") {
			a, _ := r.readType()
			args = append(args, a)
			if !r.acceptSign(",") {
				break
			}
		}
		r.acceptSign(">")
	}
	if s, ok := plainTypes.Get()[name]; ok {
		if name == "Function" {
			return r.addNote("a function can't be an argument: its type is any"), false
		}
		return s, false
	}
	return r.readTypeName(name, args, r.toks[from:min(r.at, len(r.toks))])
}

// readTypeName reads a generic TypeScript type, or one that the files declare.
func (r *typeReader) readTypeName(name string, args []schema, written []token) (s schema, undefined bool) {
	arg := func(i int) schema {
		if i < len(args) {
			return args[i]
		}
		return schema{}
	}
	switch name {
	case "Array", "ReadonlyArray", "Iterable":
		return ofType("array").withKey("items", arg(0)), false
	case "Promise", "Readonly", "NonNullable", "Awaited", "Required":
		return arg(0), false
	case "Partial":
		return withoutKey(arg(0), "required"), false
	case "Record":
		return ofType("object").withKey("additionalProperties", arg(1)), false
	case "Pick", "Omit":
		return chooseProperties(arg(0), literalsOf(written), name == "Pick"), false
	case "Date":
		r.addNote("a Date arrives as a text: convert it with new Date(...)")
		return ofType("string").withKey("format", "date-time"), false
	}
	if slices.Contains(r.open, name) {
		return r.addNote("the type %s contains itself: it is any there", name), false
	}
	r.open = append(r.open, name)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	if s, ok := r.findType(name, len(args) > 0); ok {
		return s, false
	}
	return r.addNote("the type %s is any: it is not declared in the folder's files", name), false
}

// literalsOf returns the texts of string literals among tokens.
func literalsOf(toks []token) (out []string) {
	for _, t := range toks {
		if t.kind == stringToken {
			out = append(out, t.text)
		}
	}
	return out
}

// findType returns the schema of a type that the files declare.
func (r *typeReader) findType(name string, generic bool) (schema, bool) {
	find := regexp.MustCompile(`(?m)^[ \t]*(?:export[ \t]+)?(?:default[ \t]+)?(?:declare[ \t]+)?(?:const[ \t]+)?` +
		`(interface|type|enum)[ \t]+` + regexp.QuoteMeta(name) + `\b`)
	for _, file := range r.files {
		m := find.FindStringSubmatchIndex(file)
		if m == nil {
			continue
		}
		kind, rest := file[m[2]:m[3]], file[m[1]:]
		if generic || strings.HasPrefix(strings.TrimSpace(rest), "<") {
			return r.addNote("the generic type %s is any", name), true
		}
		toks, at := r.toks, r.at
		defer func() { r.toks, r.at = toks, at }()
		switch kind {
		case "type":
			_, rest, _ = strings.Cut(rest, "=")
			r.toks, r.at = readTokens("("+rest), 1
			s, _ := r.readType()
			return s, true
		case "enum":
			return r.readEnum(rest), true
		}
		return r.readInterface(rest), true
	}
	return nil, false
}

// readInterface reads an interface after its name.
func (r *typeReader) readInterface(rest string) schema {
	before, _, ok := strings.Cut(rest, "{")
	if !ok {
		return schema{}
	}
	var bases []schema
	if _, list, ok := strings.Cut(before, "extends"); ok {
		for base := range strings.SplitSeq(list, ",") {
			s, _ := r.readText(base)
			bases = append(bases, s)
		}
	}
	r.toks, r.at = readTokens(rest[len(before):]), 1
	s := r.readMembers()
	for _, b := range bases {
		s = mergeObjects(b, s)
	}
	return s
}

// readEnum reads an enum after its name.
func (r *typeReader) readEnum(rest string) schema {
	_, body, _ := strings.Cut(rest, "{")
	toks := readTokens("{" + body)
	var values []any
	number := 0
	for i := 1; i < len(toks); i++ {
		if toks[i].kind != wordToken && toks[i].kind != stringToken {
			continue
		}
		var v any = number
		if i+2 < len(toks) && toks[i+1].text == "=" {
			switch t := toks[i+2]; t.kind {
			case stringToken:
				v = t.text
			case numberToken:
				_, _ = fmt.Sscan(t.text, &number)
				v = number
			default:
				return r.addNote("an enum of computed values is any")
			}
			i += 2
		}
		number++
		values = append(values, v)
	}
	return schema{{"enum", values}}
}
