package check

import (
	"strconv"
	"strings"

	"github.com/grafana/sobek/ast"
	js "github.com/grafana/sobek/token"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A scope holds the names declared in a function or a block.
type scope struct {
	parent *scope
	names  map[string]*binding
}

// A binding is what is known about a declared name. Constants, variables that nothing assigns, and
// async functions are tracked, because they can't change.
type binding struct {
	init  ast.Expression // initializer of a constant
	keys  []string       // path into init if it is destructured: const { a: { b } } = init has a, b
	scope *scope         // scope of init
	item  bool           // it is an item of init, not init itself
	loose bool           // it may be assigned, although init is set
	used  bool           // resultOf is following it
	async bool           // an async function, which returns a promise when called
	known bool           // value is set
	busy  bool           // value is being determined
	value meaning
}

// lookup returns the binding of a name, or nil if it is not declared.
func (s *scope) lookup(name string) *binding {
	for ; s != nil; s = s.parent {
		if b := s.names[name]; b != nil {
			return b
		}
	}
	return nil
}

func newScope(parent *scope) *scope { return &scope{parent: parent, names: map[string]*binding{}} }

// add declares an unknown name, unless it is already declared.
func (s *scope) add(name string) {
	if s.names[name] == nil {
		s.names[name] = &binding{}
	}
}

// pattern declares all names of a binding target. init is nil if the value is unknown.
func (s *scope) pattern(target ast.Expression, init ast.Expression, keys []string) {
	if len(keys) > 16 {
		init = nil
	}
	switch t := target.(type) {
	case *ast.Identifier:
		s.names[t.Name.String()] = &binding{init: init, keys: keys, scope: s}
	case *ast.Binding:
		s.pattern(t.Target, nil, nil)
	case *ast.AssignExpression:
		s.pattern(t.Left, nil, nil)
	case *ast.ObjectPattern:
		for _, p := range t.Properties {
			switch p := p.(type) {
			case *ast.PropertyShort:
				known := init
				if p.Initializer != nil {
					known = nil
				}
				s.pattern(&p.Name, known, with(keys, p.Name.Name.String()))
			case *ast.PropertyKeyed:
				if key, ok := p.Key.(*ast.StringLiteral); ok && !p.Computed &&
					!strings.HasPrefix(key.Value.String(), indexMark) {
					s.pattern(p.Value, init, with(keys, key.Value.String()))
				} else {
					s.pattern(p.Value, nil, nil)
				}
			}
		}
		if t.Rest != nil {
			s.pattern(t.Rest, nil, nil)
		}
	case *ast.ArrayPattern:
		for i, e := range t.Elements {
			if e != nil {
				s.pattern(e, init, with(keys, encodeIndex(i)))
			}
		}
		if t.Rest != nil {
			s.pattern(t.Rest, nil, nil)
		}
	}
}

// bindLoosely declares the names of a variable, which may be assigned later.
func (s *scope) bindLoosely(target, init ast.Expression) {
	in := newScope(nil)
	in.pattern(target, init, nil)
	for name, b := range in.names {
		b.scope, b.loose = s, true
		s.names[name] = b
	}
}

// indexMark begins the key of an element of an array, which is no name.
const indexMark = "\x00"

func encodeIndex(i int) string { return indexMark + strconv.Itoa(i) }

// decodeIndex returns the index that a key encodes, or -1.
func decodeIndex(key string) int {
	text, ok := strings.CutPrefix(key, indexMark)
	if i, err := strconv.Atoi(text); ok && err == nil {
		return i
	}
	return -1
}

func with(keys []string, key string) []string { return append(keys[:len(keys):len(keys)], key) }

// declare declares the names that statements declare in their own block.
func (s *scope) declare(list []ast.Statement) {
	for _, st := range list {
		switch st := st.(type) {
		case *ast.LexicalDeclaration:
			for _, b := range st.List {
				if st.Token == js.CONST {
					s.pattern(b.Target, b.Initializer, nil)
				} else {
					s.bindLoosely(b.Target, b.Initializer)
				}
			}
		case *ast.FunctionDeclaration:
			f := st.Function
			s.names[f.Name.Name.String()] = &binding{async: f.Async && !f.Generator}
		case *ast.ClassDeclaration:
			s.add(st.Class.Name.Name.String())
		case *ast.LabelledStatement:
			s.declare([]ast.Statement{st.Statement})
		}
	}
}

// function returns the scope of a function: its parameters, and the variables anywhere in it.
func (s *scope) function(params *ast.ParameterList, vars []*ast.VariableDeclaration, name *ast.Identifier) *scope {
	f := newScope(s)
	f.add("arguments")
	if name != nil {
		f.add(name.Name.String())
	}
	for _, p := range params.List {
		f.pattern(p.Target, nil, nil)
	}
	if params.Rest != nil {
		f.pattern(params.Rest, nil, nil)
	}
	for _, d := range vars {
		for _, b := range d.List {
			f.pattern(b.Target, nil, nil)
		}
	}
	return f
}

// A sense is what an expression certainly denotes.
type sense uint8

const (
	something  sense = iota // unknown
	free                    // an undeclared name
	allTools                // tools
	oneSpace                // a namespace: github, tools.github
	oneTool                 // github.list_issues
	toolModule              // the module of an import of ./tools/github/list_issues.ts
	caller                  // callTool
	finder                  // search
	promiser                // an async function, Promise.all and the like
	promises                // Promise
	promise                 // the result of calling one of those, not awaited
)

// A meaning is a sense with its names.
type meaning struct {
	sense  sense
	space  string
	member string
	call   *ast.CallExpression // the call that returned a promise
}

// path returns the path of the tool. If the tool name is ambiguous, it has no upstream.
func (m meaning) path() string {
	if m.space == "" {
		return m.member
	}
	return m.space + "." + m.member
}

const maxFollow = 40 // maximum depth of following constants

// names determines what the names in a program denote.
type names struct {
	index    *Index
	assigned map[string]bool    // names that are assigned anywhere
	aliases  map[string]meaning // names in the style of other systems already looked up
}

// meaning determines what an expression certainly denotes.
func (ns *names) meaning(e ast.Expression, s *scope, depth int) meaning {
	if depth > maxFollow {
		return meaning{}
	}
	switch e := e.(type) {
	case *ast.Identifier:
		return ns.name(e.Name.String(), s, depth)
	case *ast.DotExpression:
		return ns.member(ns.meaning(e.Left, s, depth+1), e.Identifier.Name.String())
	case *ast.BracketExpression:
		if key, ok := e.Member.(*ast.StringLiteral); ok {
			return ns.member(ns.meaning(e.Left, s, depth+1), key.Value.String())
		}
	case *ast.AwaitExpression:
		if call, ok := e.Argument.(*ast.CallExpression); ok && len(call.ArgumentList) > 0 {
			spec, lit := call.ArgumentList[0].(*ast.StringLiteral)
			if f, ok := call.Callee.(*ast.Identifier); ok && lit && f.Name == "__import" {
				return ns.module(spec.Value.String())
			}
		}
	case *ast.CallExpression:
		switch m := ns.meaning(e.Callee, s, depth+1); m.sense {
		case caller:
			return meaning{sense: promise, member: calledPath(e), call: e}
		case oneTool, finder, promiser:
			return meaning{sense: promise, space: m.space, member: m.member, call: e}
		}
	case *ast.ArrowFunctionLiteral:
		if e.Async {
			return meaning{sense: promiser}
		}
	case *ast.FunctionLiteral:
		if e.Async && !e.Generator {
			return meaning{sense: promiser}
		}
	}
	return meaning{}
}

// name returns the meaning of a name.
func (ns *names) name(name string, s *scope, depth int) meaning {
	b := s.lookup(name)
	switch {
	case b != nil && b.async && ns.assigned[name]:
		return meaning{}
	case b != nil:
		return ns.bound(b, depth)
	case ns.assigned[name]:
		return meaning{}
	case name == "tools":
		return meaning{sense: allTools}
	case callers.Has(name):
		return meaning{sense: caller}
	case name == "search":
		return meaning{sense: finder}
	case name == "Promise":
		return meaning{sense: promises}
	case ns.index.spaces[name] != nil:
		return meaning{sense: oneSpace, space: name}
	case rootNames.Has(name):
		return meaning{sense: allTools}
	case !globalNames.Has(name):
		if m := ns.alias(name); m.sense != something {
			return m
		}
	}
	return meaning{sense: free, space: name}
}

// callers are the names of callTool, and rootNames are other names of tools.
var (
	callers   = lazily.Words(`callTool call_tool callMCPTool`)
	rootNames = lazily.Words(`servers codemode mcp api`)
)

// alias returns the meaning of a name in the style of another system.
func (ns *names) alias(name string) meaning {
	if m, ok := ns.aliases[name]; ok {
		return m
	}
	m := meaning{}
	switch to := ns.index.view.Alias(name); {
	case to == "" || inherited.Has(name):
	case to == name:
		m = meaning{sense: oneTool, member: name}
	default:
		m = meaning{sense: oneSpace, space: to}
		if space, member, ok := strings.Cut(to, "."); ok {
			m = meaning{sense: oneTool, space: space, member: member}
		}
	}
	ns.aliases[name] = m
	return m
}

// bound returns the meaning of a declared name.
func (ns *names) bound(b *binding, depth int) meaning {
	switch {
	case b.async:
		return meaning{sense: promiser}
	case b.init == nil || b.busy || b.item || b.loose:
		return meaning{}
	case b.known:
		return b.value
	}
	b.busy = true
	m := ns.meaning(b.init, b.scope, depth+1)
	for _, k := range b.keys {
		m = ns.member(m, k)
	}
	if m.sense == free {
		m = meaning{}
	}
	b.busy, b.known, b.value = false, true, m
	return m
}

// inherited are members that every object has, so in a namespace they are not tools.
var inherited = lazily.Words(`
	then catch finally constructor prototype toString valueOf toJSON hasOwnProperty isPrototypeOf
	propertyIsEnumerable toLocaleString __proto__ call apply bind name length caller arguments inspect
	nodeType $$typeof`)

// member returns the meaning of a member of m.
func (ns *names) member(m meaning, name string) meaning {
	if strings.HasPrefix(name, indexMark) {
		return meaning{}
	}
	switch m.sense {
	case allTools:
		if callers.Has(name) && ns.index.space(name) == nil {
			return meaning{sense: caller}
		}
		if ns.index.space(name) == nil {
			if m := ns.alias(name); m.sense != something {
				return m
			}
		}
		if !inherited.Has(name) {
			return meaning{sense: oneSpace, space: name}
		}
	case oneSpace:
		if name == "default" {
			return m // the default export of ./tools/github
		}
		if !inherited.Has(name) {
			return meaning{sense: oneTool, space: m.space, member: name}
		}
	case toolModule:
		if name == m.member || name == "default" {
			return meaning{sense: oneTool, space: m.space, member: m.member}
		}
	case promises:
		switch name {
		case "all", "allSettled", "race", "any", "resolve", "reject":
			return meaning{sense: promiser}
		}
	}
	return meaning{}
}

// module returns the meaning of an import of ./tools, ./tools/<upstream> or
// ./tools/<upstream>/<tool>, in all spellings that the guest accepts.
func (ns *names) module(spec string) meaning {
	parts := strings.Split(strings.Trim(spec, "/"), "/")
	for len(parts) > 0 && (parts[0] == "." || parts[0] == "..") {
		parts = parts[1:]
	}
	if len(parts) == 0 || parts[0] != "tools" && parts[0] != "servers" || len(parts) > 3 {
		return meaning{}
	}
	parts = parts[1:]
	for i := range parts {
		for _, suffix := range [...]string{".ts", ".js", ".mts", ".mjs", ".d"} {
			if stem, ok := strings.CutSuffix(parts[i], suffix); ok {
				parts[i] = stem
				break
			}
		}
		parts[i] = strings.NewReplacer("-", "_", ".", "_").Replace(parts[i])
	}
	if n := len(parts); n > 0 && parts[n-1] == "index" {
		parts = parts[:n-1]
	}
	switch len(parts) {
	case 0:
		return meaning{sense: allTools}
	case 1:
		return meaning{sense: oneSpace, space: parts[0]}
	}
	return meaning{sense: toolModule, space: parts[0], member: parts[1]}
}
